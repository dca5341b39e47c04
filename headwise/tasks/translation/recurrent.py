"""The recurrent encoder-decoder, with attention by any mechanism or without, and its configuration."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention import normalizers, scores
from headwise.attention.call import Call
from headwise.attention.dropout import drop
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import Normalizer, Softmax
from headwise.attention.precision import uncast
from headwise.attention.scores import Dot
from headwise.attention.weights import select_weights
from headwise.attention.zeros import zeroed
from headwise.caches import Cache
from headwise.config import Config, named
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.models import recurrent
from headwise.models.initializers import Scheme
from headwise.models.names import NormalizerName
from headwise.models.protocols import Decoder, Encoder, Memory, Seq2Seq
from headwise.models.recurrent import (
    State,
    advance,
    build,
    build_layer,
    dropout_factors,
    embedded,
    initialize_with_cells,
    read_both,
)


class AdditiveAttention(Mechanism):
    """normalizer_j(v . tanh(q + k_j)) v_j for one head, with queries and keys that are projected already.

    With q = W_q x and k_j = W_k m_j this is `Scored(Additive(...))`. Over a short sentence a step costs what its
    operators cost, not its numbers, and `Scored` would project and clean the keys again at each of them.
    Keeps query_len x key_len x hidden numbers. What a mask hides must hold finite numbers.

    Args:
        hidden: width of queries, keys and v.
        normalizer: scores to weights, a name or an object.
        dropout: probability of dropping a weight while training.
    Raises: ShapeError: more than one head, or another width than `hidden`.
    Source: Bahdanau et al. 2015, arXiv:1409.0473, appendix A.1.2.

    >>> x = torch.ones(2, 1, 4, 8)
    >>> AdditiveAttention(8)(Call(x[:, :, :1], x, x)).shape
    torch.Size([2, 1, 1, 8])
    """

    facts = Facts(
        formula="softmax(v . tanh(q + k)) v",
        paper="Bahdanau et al. 2015, arXiv:1409.0473",
        family="definition",
        time="n^2 d",
        memory="n^2 d",
        honours="any",
        causal=True,
        cross=True,
        cache="shared",
    )

    def __init__(self, hidden: int, normalizer: Normalizer | str = "softmax", dropout: float = 0.0):
        super().__init__()
        self.value = nn.Linear(hidden, 1, bias=False)
        self.normalizer = normalizers.build(normalizer)
        self.dropout = dropout

    def compute(self, call: Call) -> Float[Tensor, "batch 1 query_len value_dim"]:
        weights = drop(self._weights(call), self.dropout if self.training else 0.0)
        # one query is a sum of few vectors, in half the time of many small products
        single = call.shape[2] == 1
        output = (weights.mT * call.value).sum(-2, keepdim=True) if single else weights @ call.value
        return output.to(call.value.dtype)

    def compute_weights(
        self, call: Call, heads: Sequence[int] | None, queries: slice, keys: slice
    ) -> Float[Tensor, "batch heads queries keys"]:
        """The weights before dropout, cut."""
        weights = self._weights(call)
        return select_weights(weights, heads, queries, keys)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}"

    def _weights(self, call: Call) -> Tensor:
        if call.query.shape[1] != 1 or call.query.shape[3] != self.value.in_features:
            got = f"{call.query.shape[1]} of width {call.query.shape[3]}"
            raise ShapeError(f"AdditiveAttention({self.value.in_features}) takes one head of that width, got {got}")
        # the axis of the only head serves queries on one side and keys on the other
        features = torch.tanh(call.query.transpose(1, 2) + call.key)
        scores: Tensor = self.value(features).movedim(-1, 1)
        if call.structure.open or type(self.normalizer) is not Softmax:
            weights: Tensor = self.normalizer(scores, call.keep())
            return weights
        # `Softmax`, with what the mask means for it made once for all steps
        bias, some = call.structure.cached(("softmax", scores.dtype), lambda: _parts(call, scores))
        return (scores + bias).softmax(-1) * some


def _parts(call: Call, scores: Tensor) -> tuple[Tensor, Tensor]:
    """What is added to the scores, minus infinity for hidden keys beside others, and 0 for rows without a key."""
    keep = call.keep()
    assert keep is not None
    some = keep.any(-1, keepdim=True)
    return scores.new_zeros(keep.shape).masked_fill(some & ~keep, -math.inf), some.to(scores.dtype)


class RecurrentEncoder(Encoder):
    """Recurrent layers over the source, in one direction or in both.

    The states are those of the top layer, both directions side by side. The summary holds each layer's state after
    the last real token; with two directions, tanh of a learned map of both. `torch.compile` has no PyTorch GRU.

    Args:
        layers: what reads the sequence in each layer, one for each direction.
        dropout: on the output of every layer but the last, while training.
    """

    def __init__(self, embedding: nn.Embedding, layers: list[list[recurrent.Layer]], dropout: float):
        super().__init__()
        self.embedding, self.dropout = embedding, dropout
        self.layers = nn.ModuleList(nn.ModuleList(directions) for directions in layers)
        width = layers[0][0].hidden_size * (2 if isinstance(layers[0][0], nn.LSTMCell) else 1)
        bridged = layers if len(layers[0]) == 2 else []
        self.bridges = nn.ModuleList(nn.Linear(2 * width, width) for _ in bridged)

    def forward(self, inputs: Int[Tensor, "batch src_len"], valid_lens: Int[Tensor, "batch"]) -> Memory:
        with uncast(inputs):
            return self._read(embedded(self.embedding, inputs), valid_lens)

    def _read(self, x: Float[Tensor, "steps batch width"], lens: Int[Tensor, "batch"]) -> Memory:
        summary = []
        for number, directions in enumerate(self.layers):
            if number:
                x = drop(x, self.dropout if self.training else 0.0)
            assert isinstance(directions, nn.ModuleList)
            x, state = read_both(directions, x, lens)
            summary.append(torch.tanh(self.bridges[number](state)) if self.bridges else state)
        return Memory(x.transpose(0, 1), torch.stack(summary))


class RecurrentCache(Cache):
    """The state of every layer and row, and what the sentences are attended by: shared by beams, never copied for them.

    `memory` is the constant context of each sentence without attention, else the keys and the values.
    """

    def __init__(self, state: list[State], memory: tuple[Tensor, ...], memory_lens: Int[Tensor, "batch"]):
        self.length, self.beams, self.sentences = 0, 1, memory_lens.shape[0]
        self.state, self.memory, self.memory_lens = state, memory, memory_lens
        self.mask = Padding(memory_lens).shared()

    def expand(self, beams: int) -> None:
        self.beams = beams
        self._map_state(lambda rows: rows.repeat_interleave(beams, dim=0))

    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        self._map_state(lambda rows: rows.index_select(0, index))

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        self._map_state(lambda rows: rows.unflatten(0, (-1, self.beams)).index_select(0, sentences).flatten(0, 1))
        self.memory = tuple(tensor.index_select(0, sentences) for tensor in self.memory)
        self.memory_lens = self.memory_lens.index_select(0, sentences)
        self.mask = Padding(self.memory_lens).shared()
        self.sentences = sentences.shape[0]

    def state_bytes(self) -> int:
        return sum(tensor.nbytes for tensors in (*self.state, self.memory) for tensor in tensors)

    def _map_state(self, change: Callable[[Tensor], Tensor]) -> None:
        self.state = [tuple(change(rows) for rows in state) for state in self.state]


class RecurrentDecoder(Decoder):
    """Recurrent layers that read [context; previous token]; the context is attended by the hidden state before.

    Without attention the context is the encoder's last state of the top layer, the same at every step.

    Args:
        cells: from the first layer to the last; the first reads the context and the embedding.
        attention: its query is the top layer's hidden state after the previous step, its values are the memory.
        query, key: project what is compared, hidden states and memory; the memory once for all steps.
        dropout: on the output of every layer but the last, while training.
    Source: Bahdanau et al. 2015, arXiv:1409.0473, section 3.1, but the vocabulary reads the hidden state alone;
        without attention, Cho et al. 2014, arXiv:1406.1078.
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        cells: list[recurrent.Stepwise],
        attention: Mechanism | None,
        query: nn.Module,
        key: nn.Module,
        dropout: float,
        output: nn.Linear,
    ):
        super().__init__()
        self.embedding, self.cells = embedding, nn.ModuleList(cells)
        self.attention, self.query, self.key = attention, query, key
        self.dropout, self.output = dropout, output

    def hidden(
        self, tokens: Int[Tensor, "batch tgt_len"], memory: Memory, memory_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch tgt_len width"]:
        with uncast(tokens):
            x, cache = embedded(self.embedding, tokens), self.start(memory, memory_lens)
            (steps, batch, _), width, lower = x.shape, self.output.in_features, len(self.cells) - 1
            shape, dropout = (steps, lower, batch, width), self.dropout if self.training else 0.0
            factors = dropout_factors(shape, dropout, x)
            step_factors = [None] * steps if factors is None else [step.unbind(0) for step in factors.unbind(0)]
            states = [self._advance(part, cache, drawn) for part, drawn in zip(x.unbind(0), step_factors, strict=True)]
        return torch.stack(states, 1) if states else x.new_empty(batch, 0, width)

    def start(self, memory: Memory, memory_lens: Int[Tensor, "batch"]) -> RecurrentCache:
        """Projects the keys, once for all steps and beams."""
        if memory.summary is None:
            raise Unsupported("a recurrent decoder starts from the encoder's final states; this encoder gives none")
        with uncast(memory_lens):
            width = self.output.in_features
            state: list[State] = [layer.split(width, -1) for layer in memory.summary.unbind(0)]
            if self.attention is None:
                return RecurrentCache(state, (state[-1][0].unsqueeze(1),), memory_lens)
            # zeros for padding, so that nothing in it, NaN included, reaches a product
            steps = torch.arange(memory.states.shape[1], device=memory_lens.device)
            values = zeroed(memory.states, (steps < memory_lens[:, None]).unsqueeze(-1)).unsqueeze(1)
            return RecurrentCache(state, (self.key(values), values), memory_lens)

    def step(self, tokens: Int[Tensor, "rows"], cache: Cache) -> Float[Tensor, "rows vocab"]:
        assert isinstance(cache, RecurrentCache)
        with uncast(tokens):
            hidden = self._advance(embedded(self.embedding, tokens[:, None])[0], cache, None)
        logits: Tensor = self.output(hidden)
        return logits

    def _advance(self, x: Tensor, cache: RecurrentCache, factors: tuple[Tensor, ...] | None) -> Tensor:
        """The top layer's hidden state after one more token of every row."""
        x = torch.cat((self._context(cache), x), -1)
        for layer, cell in enumerate(self.cells):
            cache.state[layer] = advance(cell, x, cache.state[layer])
            x = cache.state[layer][0]
            if factors is not None and layer < len(factors):
                x = x * factors[layer]
        cache.length += 1
        return x

    def _context(self, cache: RecurrentCache) -> Float[Tensor, "rows value_dim"]:
        if self.attention is None:
            return cache.memory[0].expand(-1, cache.beams, -1).flatten(0, 1)
        # the beams of a sentence are queries over its one memory
        query = self.query(cache.state[-1][0])
        query = query.view(cache.sentences, 1, cache.beams, query.shape[-1])
        key, value = cache.memory
        # states of padding are finite
        context: Tensor = self.attention(Call(query, key, value, mask=cache.mask, cross=True, clean=True))
        return context.flatten(0, 2)


class RecurrentConfig(Config):
    """Sizes and parts of a recurrent encoder-decoder; the defaults are those of a small model for short sentences."""

    kind: Literal["recurrent"] = Field("recurrent", description="the family of the model")
    cell: recurrent.Name = Field("gru", description="the recurrent cell of both sides; rnn is tanh alone")
    embed_dim: int = Field(32, ge=1, le=2**20, description="width of the embeddings")
    hidden_dim: int = Field(32, ge=1, le=2**20, description="width of a direction's states and the additive score")
    num_layers: int = Field(2, ge=1, le=1024, description="layers of the encoder and of the decoder")
    bidirectional: bool = Field(False, description="the encoder reads in both directions")
    score: Annotated[str, named(lambda text: text == "none" or scores.find(text))] = Field(
        "additive", description="how alike query and key are, `headwise list scores`; none: no attention"
    )
    normalizer: NormalizerName = Field("softmax", description="scores to weights; `headwise list normalizers`")
    dropout: float = Field(0.1, ge=0, lt=1, description="between recurrent layers")
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights; as dropout if absent")
    tie_output: bool = Field(False, description="the output matrix is the target embedding: embed_dim = hidden_dim")
    initializer: Scheme = Field("xavier", description="of the matrices of linear and recurrent layers")

    def model_post_init(self, context: object) -> None:
        if self.score != "none":
            normalizers.build(self.normalizer, 1)
        if self.tie_output and self.embed_dim != self.hidden_dim:
            raise ConfigError(f"tie_output needs embed_dim ({self.embed_dim}) equal to hidden_dim ({self.hidden_dim})")

    def fewest_tensors(self) -> int:
        """Tensors that the weights have at least, told without building: four a layer of either side."""
        return 4 * 2 * self.num_layers


def build_recurrent(config: RecurrentConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    directions = 2 if config.bidirectional else 1
    hidden, width = config.hidden_dim, config.hidden_dim * directions
    sizes = [config.embed_dim] + [width] * (config.num_layers - 1)
    layers = [[build_layer(config.cell, size, hidden) for _ in range(directions)] for size in sizes]
    encoder = RecurrentEncoder(nn.Embedding(src_vocab, config.embed_dim), layers, config.dropout)
    attention, query, key = _attention(config, width)
    context = hidden if attention is None else width
    sizes = [context + config.embed_dim] + [hidden] * (config.num_layers - 1)
    cells = [build(config.cell, size, hidden) for size in sizes]
    embedding, output = nn.Embedding(tgt_vocab, config.embed_dim), nn.Linear(hidden, tgt_vocab)
    decoder = RecurrentDecoder(embedding, cells, attention, query, key, config.dropout, output)
    model = Seq2Seq(encoder, decoder)
    initialize_with_cells(model, config.initializer)
    if config.tie_output:
        output.weight = embedding.weight
    return model


def _attention(config: RecurrentConfig, width: int) -> tuple[Mechanism | None, nn.Module, nn.Module]:
    """The mechanism, and what projects its queries and its keys, which may be wider."""
    hidden = config.hidden_dim
    if config.score == "none":
        return None, nn.Identity(), nn.Identity()
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    key = nn.Linear(width, hidden, bias=False)
    if config.score in ("additive", "concat"):
        return AdditiveAttention(hidden, config.normalizer, dropout), nn.Linear(hidden, hidden, bias=False), key
    if config.score == "bilinear":
        # q . (W k), the keys of which are W k
        return Scored(Dot(), config.normalizer, dropout), nn.Identity(), key
    score = scores.build(config.score, hidden, width, hidden, 1)
    return Scored(score, config.normalizer, dropout), nn.Identity(), nn.Identity()
