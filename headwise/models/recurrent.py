"""The recurrent encoder-decoder, with attention by any mechanism or without, and its configuration."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from headwise.attention import normalizers, scores
from headwise.attention.masks import Padding
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import softmax
from headwise.attention.scores import Additive
from headwise.caches import Cache
from headwise.config import Config
from headwise.errors import ConfigError, Unsupported
from headwise.layers.initializers import Scheme, initialize
from headwise.layers.recurrent import Cell, dropout_factors, embedded_columns, initialize_cells, kept_factors
from headwise.layers.recurrent import build as build_cell
from headwise.layers.recurrent_attention import Attended, Scoring, attentive_sequence
from headwise.models.protocols import Decoder, Memory, Seq2Seq
from headwise.models.recurrent_encoder import RecurrentEncoder


class RecurrentCache(Cache):
    """The states of every row, and what the sentences are attended by: shared by beams, never copied for them."""

    def __init__(self, state: Float[Tensor, "layers rows state_dim"], memory: dict[str, Tensor], mask: Padding):
        self.length, self.beams, self.sentences = 0, 1, mask.valid_lens.shape[0]
        self.state, self.memory, self.mask = state, memory, mask

    def expand(self, beams: int) -> None:
        self.beams = beams
        self.state = self.state.repeat_interleave(beams, dim=1)

    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        self.state = self.state.index_select(1, index)

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        self.state = self.state.unflatten(1, (-1, self.beams)).index_select(1, sentences).flatten(1, 2)
        self.memory = {name: tensor.index_select(0, sentences) for name, tensor in self.memory.items()}
        self.mask = Padding(self.mask.valid_lens.index_select(0, sentences))
        self.sentences = sentences.shape[0]


class RecurrentDecoder(Decoder):
    """Recurrent layers that read [context; previous token]; the context is attended by the hidden state before.

    Without attention the context is the encoder's last state of the top layer, the same at every step.

    Args:
        cells: from the first layer to the last; the first reads the context and the embedding.
        attention: its query is the top layer's hidden state after the previous step, its keys and values the memory.
        dropout: on the output of every layer but the last, while training.
    Source: Bahdanau et al. 2015, arXiv:1409.0473, section 3.1, but the vocabulary reads the hidden state alone;
        without attention, Cho et al. 2014, arXiv:1406.1078.
    """

    def __init__(
        self, embedding: nn.Embedding, cells: list[Cell], attention: Mechanism | None, dropout: float, output: nn.Linear
    ):
        super().__init__()
        self.embedding, self.cells, self.attention = embedding, nn.ModuleList(cells), attention
        self.dropout, self.output = dropout, output

    def hidden(
        self, tokens: Int[Tensor, "batch tgt_len"], memory: Memory, memory_lens: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch tgt_len width"]:
        with torch.autocast(tokens.device.type, enabled=False):
            x = embedded_columns(self.embedding, tokens)
            factors = self._factors(x)
            state = _summary(memory).mT
            if self.attention is None:
                hidden = self._unattended(x, state, factors)
            elif (additive := self._additive()) is not None:
                hidden = self._at_once(additive, x, state, _real(memory, memory_lens), memory_lens, factors)
            else:
                hidden = self._by_steps(x, state, _real(memory, memory_lens), memory_lens, factors)
        return hidden.permute(2, 0, 1)

    def _layers(self) -> list[Cell]:
        return [cell for cell in self.cells if isinstance(cell, Cell)]

    def _factors(self, x: Tensor) -> Tensor | None:
        cells = self._layers()
        dropout = self.dropout if self.training else 0.0
        return dropout_factors(x.shape[0], len(cells) - 1, cells[0].hidden_dim, x.shape[2], dropout, x)

    def _additive(self) -> Additive | None:
        """The score, if its attention may be computed for all steps at once and nobody listens to the mechanism."""
        attention = self.attention
        if type(attention) is not Scored or type(attention.score) is not Additive or attention.normalizer != softmax:
            return None
        heard = attention._forward_hooks or attention._forward_pre_hooks or torch.compiler.is_compiling()
        return None if heard or attention.kernel != "auto" else attention.score

    def _unattended(self, x: Tensor, state: Tensor, factors: Tensor | None) -> Tensor:
        cells = self._layers()
        context = state[-1, : cells[-1].hidden_dim].expand(x.shape[0], -1, -1)
        x = torch.cat([context, x], 1)
        for layer, cell in enumerate(cells):
            x = cell.sequence(x, state[layer])[:, : cell.hidden_dim]
            if factors is not None and layer < len(cells) - 1:
                x = x * factors[:, layer]
        return x

    def _at_once(
        self, score: Additive, x: Tensor, state: Tensor, values: Tensor, lens: Tensor, factors: Tensor | None
    ) -> Tensor:
        steps, (batch, key_len, _) = x.shape[0], values.shape
        values = values.permute(2, 1, 0).contiguous()
        keys = (score.key.weight @ values.flatten(1)).unflatten(1, (key_len, batch))
        prepared = Padding(lens).prepared(batch, 1, 1, key_len, 0, values.device)
        bias = prepared.bias.view(batch, key_len).t().to(values.dtype)
        empty = None if prepared.empty is None else prepared.empty.view(batch)
        assert isinstance(self.attention, Scored)
        dropout = self.attention.dropout if self.attention.training else 0.0
        kept = kept_factors((steps, key_len, batch), dropout, x) if dropout else None
        attended = Attended(keys, values, bias, empty, kept)
        scoring = Scoring(score.query.weight, score.value.weight)
        return attentive_sequence(self._layers(), x, state, attended, scoring, factors)

    def _by_steps(self, x: Tensor, state: Tensor, values: Tensor, lens: Tensor, factors: Tensor | None) -> Tensor:
        """The definition: one step after another, for any mechanism and cell."""
        assert self.attention is not None
        values, mask = values.unsqueeze(1), Padding(lens)
        rows = list(state.mT)
        hidden = []
        for step, embedded in enumerate(x.mT.unbind(0)):
            query = self._layers()[-1].hidden(rows[-1])
            context = self.attention(query[:, None, None], values, values, mask=mask)
            rows = self._advance(
                torch.cat([context.flatten(1), embedded], -1), rows, None if factors is None else factors[step].mT
            )
            hidden.append(self._layers()[-1].hidden(rows[-1]))
        return torch.stack(hidden).mT if hidden else x.new_empty(0, self.output.in_features, x.shape[2])

    def _advance(self, x: Tensor, rows: list[Tensor], factors: Tensor | None) -> list[Tensor]:
        after = []
        for layer, cell in enumerate(self._layers()):
            after.append(cell(x, rows[layer]))
            x = cell.hidden(after[-1])
            if factors is not None and layer < len(rows) - 1:
                x = x * factors[layer]
        return after

    def start(self, memory: Memory, memory_lens: Int[Tensor, "batch"]) -> RecurrentCache:
        """Projects the keys once if the score allows it; beams share them."""
        summary = _summary(memory)
        if self.attention is None:
            kept = {"context": self._layers()[-1].hidden(summary[-1])}
        else:
            values = _real(memory, memory_lens)
            kept = {"values": values}
            if (additive := self._additive()) is not None:
                kept["keys"] = additive.key(values)
        return RecurrentCache(summary, kept, Padding(memory_lens))

    def step(self, tokens: Int[Tensor, "rows"], cache: Cache) -> Float[Tensor, "rows vocab"]:
        assert isinstance(cache, RecurrentCache)
        embedded = embedded_columns(self.embedding, tokens[:, None])[0].t()
        x = torch.cat([self._context(cache).flatten(0, -2), embedded], -1)
        cache.state = torch.stack(self._advance(x, list(cache.state), None))
        cache.length += 1
        logits: Tensor = self.output(self._layers()[-1].hidden(cache.state[-1]))
        return logits

    def _context(self, cache: RecurrentCache) -> Float[Tensor, "sentences beams value_dim"]:
        if self.attention is None:
            return cache.memory["context"].unsqueeze(1).expand(-1, cache.beams, -1)
        query = self._layers()[-1].hidden(cache.state[-1]).unflatten(0, (-1, cache.beams))
        values = cache.memory["values"]
        additive = self._additive() if "keys" in cache.memory and not self.training else None
        if additive is None:
            context: Tensor = self.attention(
                query.unsqueeze(1), values.unsqueeze(1), values.unsqueeze(1), mask=cache.mask
            )
            return context.squeeze(1)
        features = torch.tanh(additive.query(query).unsqueeze(2) + cache.memory["keys"].unsqueeze(1))
        keep = cache.mask.dense(values.shape[0], 1, cache.beams, values.shape[1], device=values.device)
        return softmax(additive.value(features).squeeze(-1).unsqueeze(1), keep).squeeze(1) @ values


def _real(memory: Memory, lens: Tensor) -> Float[Tensor, "batch src_len width"]:
    """The states with zeros for padding, so that nothing in it, NaN included, reaches a product."""
    steps = torch.arange(memory.states.shape[1], device=lens.device)
    return memory.states.masked_fill((steps >= lens[:, None]).unsqueeze(-1), 0.0)


def _summary(memory: Memory) -> Tensor:
    if memory.summary is None:
        raise Unsupported("a recurrent decoder starts from the encoder's final states; this encoder gives none")
    return memory.summary


class RecurrentConfig(Config):
    """Sizes and parts of a recurrent encoder-decoder; the defaults are those of a small model for short sentences."""

    kind: Literal["recurrent"] = Field("recurrent", description="the family of the model")
    cell: Literal["gru", "lstm"] = Field("gru", description="the recurrent cell of both sides")
    embed_dim: int = Field(32, ge=1, description="width of the embeddings")
    hidden_dim: int = Field(
        32, ge=1, description="width of the hidden states, of each direction, and of the additive score"
    )
    num_layers: int = Field(2, ge=1, description="layers of the encoder and of the decoder")
    bidirectional: bool = Field(False, description="the encoder reads in both directions")
    score: str = Field(
        "additive", description="how alike query and key are, `headwise list scores`; none: no attention"
    )
    normalizer: str = Field("softmax", description="scores to weights; `headwise list normalizers`")
    dropout: float = Field(0.1, ge=0, lt=1, description="between recurrent layers")
    attention_dropout: float | None = Field(None, ge=0, lt=1, description="on attention weights; as dropout if absent")
    tie_output: bool = Field(
        False, description="the output matrix is the target embedding; needs embed_dim = hidden_dim"
    )
    initializer: Scheme = Field("xavier", description="of the matrices of linear and recurrent layers")

    def model_post_init(self, context: object) -> None:
        if self.tie_output and self.embed_dim != self.hidden_dim:
            raise ConfigError(f"tie_output needs embed_dim ({self.embed_dim}) equal to hidden_dim ({self.hidden_dim})")


def build_recurrent(config: RecurrentConfig, src_vocab: int, tgt_vocab: int) -> Seq2Seq:
    """The model of a configuration."""
    directions = 2 if config.bidirectional else 1
    hidden, width = config.hidden_dim, config.hidden_dim * directions
    sizes = [config.embed_dim] + [width] * (config.num_layers - 1)
    layers = [[build_cell(config.cell, size, hidden) for _ in range(directions)] for size in sizes]
    encoder = RecurrentEncoder(nn.Embedding(src_vocab, config.embed_dim), layers, config.dropout)
    attention = None if config.score == "none" else _attention(config, width)
    context = hidden if attention is None else width
    cells = [
        build_cell(config.cell, size, hidden)
        for size in [context + config.embed_dim] + [hidden] * (config.num_layers - 1)
    ]
    output = nn.Linear(hidden, tgt_vocab)
    decoder = RecurrentDecoder(nn.Embedding(tgt_vocab, config.embed_dim), cells, attention, config.dropout, output)
    model = Seq2Seq(encoder, decoder)
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
    if config.tie_output:
        output.weight = decoder.embedding.weight
    return model


def _attention(config: RecurrentConfig, width: int) -> Mechanism:
    score = scores.build(config.score, config.hidden_dim, width, config.hidden_dim, 1)
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return Scored(score, normalizers.build(config.normalizer), dropout)
