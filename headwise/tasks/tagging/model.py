"""A model that tags words: an encoder, subwords pooled to words, a head, tags chosen alone or as a chain."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.attention.dropout import Dropout
from headwise.attention.precision import uncast, wide
from headwise.attention.zeros import zeroed, zeroed_beyond
from headwise.config import Config
from headwise.errors import ConfigError, ShapeError
from headwise.models.pooling import TransformConfig, norm_above
from headwise.models.recurrent import initialize_with_cells
from headwise.models.token_encoders import EncoderConfig, TokenEncoder, input_width

Scores = Float[Tensor, "batch words tags"]
# a number for each word: its tag, or its tokens
Words = Int[Tensor, "batch words"]
Lens = Int[Tensor, "batch"]


class Pooling(nn.Module, ABC):
    """One vector for each word, from those of its tokens, which stand side by side in the order of the words.

    A word of no tokens is padding and becomes zero; tokens beyond those of all words are never read. `transform` is a
    layer below the head; an identity at first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.transform: nn.Module = nn.Identity()

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch length width"], pieces: Words) -> Float[Tensor, "batch words width"]:
        """`pieces`: how many tokens each word has."""


class MeanPooling(Pooling):
    """The mean of a word's tokens: an attention of each word to its own tokens, all weights alike.

    >>> x = torch.tensor([[[1.0], [3.0], [5.0]]])
    >>> MeanPooling()(x, torch.tensor([[2, 1]])).flatten().tolist()
    [2.0, 5.0]
    """

    def forward(self, x: Float[Tensor, "batch length width"], pieces: Words) -> Float[Tensor, "batch words width"]:
        ends = pieces.cumsum(1)[..., None]
        place = torch.arange(x.shape[1], device=x.device)
        own = (place < ends) & (place >= ends - pieces[..., None])
        weights = own.to(x.dtype) / pieces[..., None].clamp(min=1).to(x.dtype)
        return weights @ zeroed_beyond(x, pieces.sum(1))


class FirstPooling(Pooling):
    """The first token of each word.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 5.3.

    >>> x = torch.tensor([[[1.0], [3.0], [5.0]]])
    >>> FirstPooling()(x, torch.tensor([[2, 1]])).flatten().tolist()
    [1.0, 5.0]
    """

    def forward(self, x: Float[Tensor, "batch length width"], pieces: Words) -> Float[Tensor, "batch words width"]:
        if x.shape[1] == 0:
            return x.new_zeros(*pieces.shape, x.shape[2])
        # the start of padding may lie beyond the last token
        starts = (pieces.cumsum(1) - pieces).clamp(max=x.shape[1] - 1)
        first = x.gather(1, starts[..., None].expand(-1, -1, x.shape[2]))
        return zeroed(first, (pieces > 0)[..., None])


_summed = partial(torch.logsumexp, dim=1)

POOLINGS: dict[str, type[Pooling]] = {"mean": MeanPooling, "first": FirstPooling}


class Tagging(nn.Module, ABC):
    """From the scores of the tags of every word to a loss, the tags chosen, and the probability of each tag.

    What stands beyond `lens` changes nothing, NaN included. `lens` may be 0.
    """

    @abstractmethod
    def forward(self, scores: Scores, tags: Words, lens: Lens, label_smoothing: float) -> Float[Tensor, ""]:
        """-log p(tags | scores) in nats, summed over the sentences.

        Args:
            tags: numbers; others than those from 0 to `num_tags` - 1 say that the tag of a word is not known.
            label_smoothing: share of the target that is spread over all tags alike, from 0 to 1.
        """

    @abstractmethod
    def best(self, scores: Scores, lens: Lens) -> Words:
        """The most probable tags of a sentence; 0 beyond `lens`."""

    @abstractmethod
    def probabilities(self, scores: Scores, lens: Lens) -> Scores:
        """Of each tag at each word, given the whole sentence; 0 beyond `lens`."""


class Independent(Tagging):
    """Each word alone: p(y | x) = prod_t softmax(e_t)[y_t]. A word whose tag is not known does not count."""

    def forward(self, scores: Scores, tags: Words, lens: Lens, label_smoothing: float) -> Float[Tensor, ""]:
        labelled = _has_tag(tags, scores.shape[-1]) & _inside(scores, lens)
        targets = tags.masked_fill(~labelled, -1).flatten()
        rows = wide(zeroed_beyond(scores, lens)).flatten(0, 1)
        return F.cross_entropy(rows, targets, ignore_index=-1, reduction="sum", label_smoothing=label_smoothing)

    def best(self, scores: Scores, lens: Lens) -> Words:
        return scores.argmax(-1).masked_fill(~_inside(scores, lens), 0)

    def probabilities(self, scores: Scores, lens: Lens) -> Scores:
        return zeroed_beyond(wide(zeroed_beyond(scores, lens)).softmax(-1), lens)


class Legal(NamedTuple):
    """Which tags may stand first, which may follow which (rows before columns), and which may stand last."""

    first: Bool[np.ndarray, "tags"]
    between: Bool[np.ndarray, "tags tags"]
    last: Bool[np.ndarray, "tags"]


class LinearChain(Tagging):
    """Conditional random field: the tags of a sentence are scored together, neighbours by learned transitions.

    p(y | x) = exp(s(x, y)) / Z(x),  Z(x) = the sum of exp(s(x, y)) over all sequences y of n tags

    s(x, y) = b[y_1] + sum_{t=1..n} e_t[y_t] + sum_{t=2..n} A[y_{t-1}, y_t] + c[y_n]

    with e the scores of the words, A the transitions, b and c those from the beginning and to the end. log Z is found
    by the recursion a_t[j] = e_t[j] + log sum_i exp(a_{t-1}[i] + A[i, j]), the best sequence by the same with a maximum
    in place of the sum (Viterbi), the probability of a tag at a word from the recursions of both directions.

    All transitions begin at 0, where the chain is `Independent`. Time is O(n k^2) for n words and k tags, in n steps
    one after another, the memory for gradients too; halves are computed in float32. A compiler unrolls the steps.

    The loss sums over what is not known: of a sentence whose tags are known in part it is -log of the summed
    probability of all sequences that agree. Label smoothing mixes the target with the uniform distribution over
    sequences, which is the smoothing of each word where transitions are 0.

    Args:
        num_tags: at least 1.
        legal: what may be chosen: other sequences get probability 0 in `best` and `probabilities`, as if p(y | x) were
            asked given that y is legal. The loss knows nothing of it, so that it is finite for any data.

    Raises:
        ConfigError: some lengths have no legal sequence, since no tag can be repeated from the first word to the last.
        ShapeError: `legal` is of another number of tags.

    Source: Lafferty, McCallum and Pereira 2001, "Conditional Random Fields", section 3; the loss and b, c as in Lample
    et al. 2016, arXiv:1603.01360, section 2.2, which has them as tags of their own; sums over unknown tags as in
    Tsuboi et al. 2008, "Training Conditional Random Fields Using Incomplete Annotations".

    >>> chain = LinearChain(3, None)
    >>> scores = torch.tensor([[[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    >>> chain.best(scores, torch.tensor([2])).tolist()
    [[0, 2]]
    """

    bar_first: Float[Tensor, "tags"]
    bar_between: Float[Tensor, "tags tags"]
    bar_last: Float[Tensor, "tags"]

    def __init__(self, num_tags: int, legal: Legal | None):
        super().__init__()
        self.first, self.last = nn.Parameter(torch.zeros(num_tags)), nn.Parameter(torch.zeros(num_tags))
        self.between = nn.Parameter(torch.zeros(num_tags, num_tags))
        if legal is None:
            alike = np.ones(num_tags, dtype=bool)
            legal = Legal(alike, np.ones((num_tags, num_tags), dtype=bool), alike)
        if legal.between.shape != self.between.shape:
            raise ShapeError(f"legal is for {len(legal.between)} tags, the chain has {num_tags}")
        if not (legal.first & legal.between.diagonal() & legal.last).any():
            raise ConfigError(
                "no tag may be repeated from the first word to the last, so some lengths have no legal sequence: train "
                "on data with a tag for words outside spans, or allow all sequences (output.legal = false)"
            )
        # 0 where a tag may stand, else minus infinity
        for name, keep in zip(("bar_first", "bar_between", "bar_last"), legal, strict=True):
            bars = torch.tensor(np.where(keep, 0.0, -np.inf), dtype=torch.get_default_dtype())
            self.register_buffer(name, bars, persistent=False)

    def forward(self, scores: Scores, tags: Words, lens: Lens, label_smoothing: float) -> Float[Tensor, ""]:
        with uncast(scores):
            read, count = wide(zeroed_beyond(scores, lens)), scores.shape[-1]
            agreeing = F.one_hot(tags.clamp(0, count - 1), count).bool() | ~_has_tag(tags, count)[..., None]
            # one recursion for both sums: over all sequences, and over those that agree with the tags
            both = torch.cat([read, read.masked_fill(~agreeing, -torch.inf)])
            partition, gold = self.log_partition(both, torch.cat([lens, lens])).chunk(2)
            loss = partition - (1 - label_smoothing) * gold
            return (loss - label_smoothing * self._mean_score(read, lens)).sum()

    def best(self, scores: Scores, lens: Lens) -> Words:
        backpointers: list[Tensor] = []

        def strongest(steps: Tensor) -> Tensor:
            values, places = steps.max(1)
            backpointers.append(places)
            return values

        with uncast(scores):
            read = wide(zeroed_beyond(scores, lens))
            rows = self._rows(read, lens, strongest, self._barred())
            if not rows:
                return lens.new_zeros(scores.shape[:2])
            tag = (rows[-1] + self.last + self.bar_last).argmax(1)
        path = [tag]
        for place, origins in reversed(list(enumerate(backpointers, 1))):
            tag = torch.where(place < lens, origins.gather(1, tag[:, None])[:, 0], tag)
            path.append(tag)
        return torch.stack(path[::-1], 1).masked_fill(~_inside(scores, lens), 0)

    def probabilities(self, scores: Scores, lens: Lens) -> Scores:
        with uncast(scores):
            read = wide(zeroed_beyond(scores, lens))
            before = self._rows(read, lens, _summed, self._barred())
            if not before:
                return read
            # log of the summed scores of what can follow each tag, from the last word to the first
            between, last = self.between + self.bar_between, self.last + self.bar_last
            behind = [last.expand_as(before[0])]
            for place in range(len(before) - 1, 0, -1):
                step = torch.logsumexp(between + (read[:, place] + behind[-1])[:, None, :], 2)
                behind.append(torch.where((place < lens)[:, None], step, last))
            # the sum over the tags of a word is Z at every word
            together = torch.stack(before, 1) + torch.stack(behind[::-1], 1)
            return zeroed_beyond(together.softmax(-1), lens)

    def log_partition(self, scores: Scores, lens: Lens) -> Float[Tensor, "batch"]:
        """log Z of each sentence, over all sequences of tags, legal or not; 0 for no words.

        Args:
            scores: finite, or minus infinity for a tag that a word cannot have; one tag at least is left.
        """
        rows = self._rows(scores, lens, _summed, (self.first, self.between))
        if not rows:
            return scores.sum((1, 2))
        return zeroed(torch.logsumexp(rows[-1] + self.last, 1), lens > 0)

    def _rows(
        self, scores: Tensor, lens: Tensor, reduce: Callable[[Tensor], Tensor], transitions: tuple[Tensor, Tensor]
    ) -> list[Tensor]:
        """The recursion over the words: for each of them the reduced score of what ends there in each tag.

        Beyond its last word a sentence keeps the row of that.
        """
        first, between = transitions
        rows: list[Tensor] = []
        for place, row in enumerate(scores.unbind(1)):
            if not rows:
                rows.append(first + row)
                continue
            step = reduce(rows[-1][:, :, None] + between) + row
            rows.append(torch.where((place < lens)[:, None], step, rows[-1]))
        return rows

    def _barred(self) -> tuple[Tensor, Tensor]:
        return self.first + self.bar_first, self.between + self.bar_between

    def _mean_score(self, scores: Tensor, lens: Tensor) -> Tensor:
        """The mean of s(x, y) over all sequences: every tag at every word, every transition, equally often."""
        ends = zeroed((self.first.mean() + self.last.mean()).expand(len(lens)), lens > 0)
        return scores.mean(-1).sum(1) + ends + self.between.mean() * (lens - 1).clamp(min=0)


def _has_tag(tags: Tensor, num_tags: int) -> Tensor:
    return (tags >= 0) & (tags < num_tags)


def _inside(scores: Tensor, lens: Tensor) -> Tensor:
    return torch.arange(scores.shape[1], device=lens.device) < lens[:, None]


Place = Literal["before", "after"]


class PoolingConfig(TransformConfig):
    """How subwords become words."""

    kind: Literal["mean", "first"] = Field("mean", description="the mean of a word's tokens, or the first of them")
    place: Place = Field("after", description="before the encoder, which then reads words, or after it")


class OutputConfig(Config):
    """How the tags of a sentence are chosen."""

    kind: Literal["softmax", "crf"] = Field("softmax", description="each word alone, or all together by a CRF")
    legal: bool = Field(False, description="choose only what the scheme of spans allows; for a CRF")

    @model_validator(mode="after")
    def _legal_is_of_a_chain(self) -> "OutputConfig":
        if self.legal and self.kind != "crf":
            raise ValueError('legal is about neighbours, which softmax does not see: set output.kind = "crf"')
        return self


class TokenTagger(nn.Module):
    """head(dropout(pooling(encoder(dropout(E[token]))))), or with the pooling before the encoder.

    Args:
        place: where the pooling stands.
        around: how many tokens stand before and behind the words of every sentence.
        tagging: chooses tags by the scores that `forward` gives, and has the loss.
        dropout: on the embeddings, and on what the head reads.
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        encoder: TokenEncoder,
        pooling: Pooling,
        head: nn.Linear,
        tagging: Tagging,
        place: Place,
        dropout: float,
        around: tuple[int, int] = (0, 0),
    ):
        super().__init__()
        self.around = around
        self.embedding, self.encoder, self.pooling, self.head = embedding, encoder, pooling, head
        self.tagging, self.place, self.dropout = tagging, place, Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "batch length"], pieces: Words) -> Scores:
        """Scores of the tags of every word, which `tagging` reads: logits where it takes each word alone.

        Args:
            pieces: how many tokens each word has, 0 where there is no word.
        """
        x, lens, first = self.embedding(tokens), pieces.sum(1) + sum(self.around), self.around[0]
        if self.place == "before":
            words = self.encoder(self.dropout(self.pooling(x[:, first:], pieces)), (pieces > 0).sum(1))
        else:
            words = self.pooling(self.encoder(self.dropout(x), lens)[:, first:], pieces)
        # what is said beyond the last word means nothing: it shall not be NaN
        words = self.pooling.transform(zeroed(words, (pieces > 0)[..., None]))
        logits: Tensor = self.head(self.dropout(words))
        return logits


def build_token_tagger(
    config: EncoderConfig,
    pooling: PoolingConfig,
    vocab_size: int,
    num_tags: int,
    tagging: Tagging | None = None,
    around: tuple[int, int] = (0, 0),
) -> TokenTagger:
    """The model of a configuration.

    Args:
        tagging: how tags are chosen; None: each word alone.
        around: how many tokens stand before and behind the words of every sentence.

    >>> import torch
    >>> from headwise.models.token_encoders import WindowConfig
    >>> model = build_token_tagger(WindowConfig(d_model=8, d_ff=16), PoolingConfig(), 11, 3)
    >>> model(torch.tensor([[4, 5, 6]]), torch.tensor([[1, 2]])).shape
    torch.Size([1, 2, 3])
    """
    encoder, embedding = config.encoder(), nn.Embedding(vocab_size, input_width(config))
    pool, head = POOLINGS[pooling.kind](), nn.Linear(encoder.width, num_tags)
    pool.transform = pooling.transform_layer(encoder.width, norm_above(config))
    model = TokenTagger(
        embedding,
        encoder,
        pool,
        head,
        tagging or Independent(),
        pooling.place,
        config.dropout,
        around,
    )
    initialize_with_cells(model, config.initializer)
    return model
