"""What a decoder remembers between steps: the cache protocol, keys and values, states, earlier segments."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.errors import ShapeError, Unsupported


class Cache(ABC):
    """The memory of a decoding loop over `rows` = sentences x beams hypotheses, sentence by sentence.

    `length` is the number of steps taken, `sentences` how many are in the cache; `compiled` means that its decoder runs
    in C++ (`headwise.native`), so that a search may rank its logits there. The loop calls `expand` at most once,
    when the hypotheses of a sentence part (after the first step, which they share), `reorder` when hypotheses change
    places, and `keep` when finished sentences leave.
    """

    length: int = 0
    sentences: int
    compiled: bool = False

    @abstractmethod
    def expand(self, beams: int) -> None:
        """Every sentence becomes `beams` adjacent rows that share all steps so far."""

    @abstractmethod
    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        """Row i continues what row `index[i]` was; an index stays inside its sentence."""

    @abstractmethod
    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        """Only these sentences stay, in this order, each with all its beams."""

    def state_bytes(self) -> int:
        """Bytes of what is remembered of all rows, without the room that is kept free for more.

        Raises: Unsupported where a cache does not count them.
        """
        raise Unsupported(f"{type(self).__name__} does not count its bytes: it defines no state_bytes")


def bytes_per_token(
    heads: int, head_dim: int, kv_heads: int, item: int, latent: int | None = None, turned: int = 0
) -> dict[str, int]:
    """What a layer's cache keeps of a token: of all heads, of these key heads, of one, and of a latent vector.

    Args:
        item: bytes of a number.
        latent: width of the vector that keys and values are made of; None: there is none.
        turned: columns beside it that position turns.

    >>> bytes_per_token(128, 128, 8, 2, 512, 64)  # DeepSeek-V3's sizes
    {'MHA': 65536, 'GQA-8': 4096, 'MQA': 512, 'latent 512+64': 1152}
    """
    kv_counts = {"MHA": heads, f"GQA-{kv_heads}": kv_heads, "MQA": 1}
    if kv_heads in (1, heads):
        del kv_counts[f"GQA-{kv_heads}"]
    sizes = {name: 2 * count * head_dim * item for name, count in kv_counts.items()}
    return sizes if latent is None else {**sizes, f"latent {latent}+{turned}": (latent + turned) * item}


# hypotheses of a sentence that may lie side by side: each step compares each of them with the keys of all
SIDE_BY_SIDE = 64


class Ancestry:
    """Which stored step each beam descends from, as a bias on scores: 0 for an ancestor, minus infinity for others.

    Beams of one sentence lie side by side on the key axis and are never copied when hypotheses change places: only
    this table of (beams, steps x beams) is reordered. One table serves every layer. It grows with the square of the
    beams: more than `SIDE_BY_SIDE` get rows of their own instead (`Kept.shares_beams`).
    """

    def __init__(self, batch: int, beams: int, shared: int, device: torch.device):
        self.batch, self.beams, self.shared, self.used = batch, beams, shared, shared
        self._own = torch.full((beams, beams), float("-inf"), device=device).fill_diagonal_(0.0)
        self._table = torch.empty(batch, beams, shared + 16 * beams, device=device)
        # steps before the hypotheses parted are everybody's ancestors
        self._table[:, :, :shared] = 0.0

    def step(self) -> Float[Tensor, "batch 1 beams keys"]:
        """Adds the keys of a new step, each seen by its own beam, and returns the bias over all keys."""
        end = self.used + self.beams
        if end > self._table.shape[-1]:
            self._table = grown(self._table, -1, end)
        self._table[:, :, self.used : end] = self._own
        self.used = end
        return self._table[:, :, :end].unsqueeze(1)

    def positions(self) -> Int[Tensor, "keys"]:
        """The position of every stored key."""
        keys = torch.arange(self.used, device=self._table.device)
        return torch.where(keys < self.shared, keys, self.shared + (keys - self.shared) // self.beams)

    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        # a new table, since a record may hold the old one
        self._table = self._table.flatten(0, 1).index_select(0, index).unflatten(0, (self.batch, self.beams))

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        self._table = self._table.index_select(0, sentences)
        self.batch = sentences.shape[0]


class Kept(ABC):
    """What one attention layer keeps between steps.

    With `shares_beams` the hypotheses of a sentence are told apart by an `Ancestry`; without it every hypothesis has
    its own row, which moves with it. `columns` are the last inputs of a layer's convolution, (rows, taps - 1, width).
    """

    shares_beams: bool
    beams: int
    columns: Tensor | None

    @abstractmethod
    def change(self, rows: Callable[[Tensor], Tensor]) -> None:
        """Puts what `rows` makes of each tensor in its place."""

    @abstractmethod
    def state_bytes(self) -> int:
        """Bytes of what is kept, without free room."""

    def expand(self, beams: int) -> None:
        """The hypotheses of a sentence part: each gets what they shared so far."""
        if not self.shares_beams:
            self.beams = beams
            self.change(lambda tensor: tensor.repeat_interleave(beams, dim=0))

    def reorder(self, index: Int[Tensor, "rows"]) -> None:
        """Row i continues what row `index[i]` was."""
        if not self.shares_beams:
            self.change(lambda tensor: tensor.index_select(0, index))

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        """Only these sentences stay."""
        rows = rows_of(sentences, self.beams)
        self.change(lambda tensor: tensor.index_select(0, rows))


@dataclass(slots=True)
class KeyValues(Kept):
    """Keys and values of one attention layer, each (rows, kv_heads, capacity, dim).

    Preallocated and grown by doubling. `used` counts the stored keys. With `fixed` the content is complete
    (cross-attention) and is only read. Without `shares_beams` the rows are copied when hypotheses part, for
    mechanisms that cannot tell them apart by a bias. `gates` lie beside the keys, for a mechanism that takes some; they
    are the queries where it asks for those.
    """

    keys: Tensor | None = None
    values: Tensor | None = None
    used: int = 0
    fixed: bool = False
    shares_beams: bool = True
    beams: int = 1
    columns: Tensor | None = None
    gates: Tensor | None = None

    def append(
        self, key: Float[Tensor, "rows kv_heads new head_dim"], value: Float[Tensor, "rows kv_heads new value_dim"]
    ) -> tuple[Tensor, Tensor]:
        """Stores new keys and values behind the old ones and returns views of all of them."""
        end = self.used + key.shape[2]
        if torch.compiler.is_exporting():
            # a program has no room to grow into: it is given keys, and gives more of them
            self.keys = key if self.keys is None else torch.cat([self.keys, key], 2)
            self.values = value if self.values is None else torch.cat([self.values, value], 2)
            self.used = end
            return self.keys, self.values
        self.keys = _with_room(self.keys, key, key.shape, end)
        self.values = _with_room(self.values, value, value.shape, end)
        # several times as fast as brackets, four times a layer and step
        self.keys.narrow(2, self.used, key.shape[2]).copy_(key)
        self.values.narrow(2, self.used, key.shape[2]).copy_(value)
        self.used = end
        return self.read()

    def make_room(self, like: Tensor, shape: tuple[int, int, int, int]) -> None:
        """Room for keys and values of this shape behind the old ones, for who writes them there; `used` counts them."""
        self.used += shape[2]
        self.keys = _with_room(self.keys, like, shape, self.used)
        self.values = _with_room(self.values, like, shape, self.used)

    def append_gates(self, gates: Float[Tensor, "rows heads new width"]) -> Float[Tensor, "rows heads key_len width"]:
        """Stores the gates of the keys that were appended last and returns those of all keys."""
        assert self.keys is not None
        start, room = self.used - gates.shape[2], self.keys.shape[2]
        if self.gates is None:
            self.gates = gates.new_empty(*gates.shape[:2], room, gates.shape[3])
        elif self.gates.shape[2] < room:
            self.gates = grown(self.gates, 2, room)
        self.gates.narrow(2, start, gates.shape[2]).copy_(gates)
        return self.gates.narrow(2, 0, self.used)

    def fill(
        self,
        key: Float[Tensor, "batch kv_heads memory_len head_dim"],
        value: Float[Tensor, "batch kv_heads memory_len value_dim"],
    ) -> None:
        """Stores the projected memory of a cross-attention, once."""
        self.keys, self.values, self.used, self.fixed = key, value, key.shape[2], True

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values, (batch, kv_heads, key_len, dim) each."""
        assert self.keys is not None
        assert self.values is not None
        return self.keys.narrow(2, 0, self.used), self.values.narrow(2, 0, self.used)

    def change(self, rows: Callable[[Tensor], Tensor]) -> None:
        if self.keys is not None and self.values is not None:
            self.keys, self.values = rows(self.keys), rows(self.values)
        self.gates = None if self.gates is None else rows(self.gates)
        self.columns = None if self.columns is None else rows(self.columns)

    def state_bytes(self) -> int:
        parts = [] if self.keys is None else [*self.read(), *_present(self.columns)]
        parts += [] if self.gates is None else [self.gates.narrow(2, 0, self.used)]
        return sum(part.nbytes for part in parts)


@dataclass(slots=True)
class States(Kept):
    """The state of one attention layer with a recurrent form: constant in length, one row a hypothesis."""

    tensors: tuple[Tensor, ...] | None = None
    shares_beams: bool = False
    beams: int = 1
    columns: Tensor | None = None

    def change(self, rows: Callable[[Tensor], Tensor]) -> None:
        if self.tensors is not None:
            self.tensors = tuple(map(rows, self.tensors))
        self.columns = None if self.columns is None else rows(self.columns)

    def state_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*(self.tensors or ()), *_present(self.columns)))


class Segments:
    """Inputs of one attention layer from earlier segments, which the next segment sees: Transformer-XL's recurrence.

    Keys and values of the past are projected again from these inputs, so the projections learn from them; nothing
    flows back into the segments themselves. With L layers and a memory of m tokens a token reaches L x m tokens back.

    Args:
        inputs: those kept so far, (batch, kept, d_model).
    Source: Dai et al. 2019, arXiv:1901.02860, section 3.2.

    >>> memory = Segments(3)
    >>> [memory.extend(torch.ones(1, 2, 8)).shape[1] for _ in range(3)]
    [2, 4, 5]
    """

    def __init__(self, length: int, inputs: Float[Tensor, "batch kept d_model"] | None = None):
        self.length = length
        self.inputs = inputs

    def extend(self, x: Float[Tensor, "batch new d_model"]) -> Float[Tensor, "batch all d_model"]:
        """The kept inputs, without a graph, followed by the new ones; the last `length` of them are kept.

        Raises: ShapeError if the kept ones are of another batch or width.
        """
        batch, _, width = x.shape
        if self.inputs is not None and self.inputs.shape[::2] != (batch, width):
            raise ShapeError(
                f"the memory of earlier segments is {tuple(self.inputs.shape)}, the new segment ({batch}, length,"
                f" {width}): keep the rows of both alike, or start with an empty memory"
            )
        # precision may change between two segments, as to validate
        both = x if self.inputs is None else torch.cat((self.inputs.to(x.dtype), x), dim=1)
        self.inputs = both[:, max(0, both.shape[1] - self.length) :].detach()
        return both


@dataclass(slots=True)
class AttentionStep:
    """What one attention layer gets for a cached call.

    `position` is the position of the first new token. With `beams` above 1 the new tokens are hypotheses that share
    one position, told apart by `ancestry` where the layer keeps them side by side; `key_positions` are then the
    positions of all stored keys. With one beam they are consecutive tokens of one sequence.
    """

    memory: KeyValues | States | Segments
    position: int
    ancestry: Float[Tensor, "batch 1 beams keys"] | None = None
    key_positions: Int[Tensor, "keys"] | None = None
    beams: int = 1


def _present(tensor: Tensor | None) -> tuple[Tensor, ...]:
    return () if tensor is None else (tensor,)


def rows_of(sentences: Int[Tensor, "kept"], beams: int) -> Int[Tensor, "rows"]:
    """The rows of these sentences, of which each has `beams` adjacent ones."""
    if beams == 1:
        return sentences
    return (sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten()


def _with_room(kept: Tensor | None, like: Tensor, shape: Sequence[int], needed: int) -> Tensor:
    """What is kept of so many keys, with room for `needed`; at first for twice as many keys of this shape."""
    if kept is None:
        return like.new_empty(*shape[:2], max(16, 2 * needed), shape[3])
    return grown(kept, 2, needed) if needed > kept.shape[2] else kept


def grown(tensor: Tensor, dim: int, needed: int) -> Tensor:
    """A copy with at least twice the room along `dim`; the new part is not initialised."""
    size = list(tensor.shape)
    old = size[dim]
    size[dim] = max(needed, 2 * old)
    larger = tensor.new_empty(size)
    larger.narrow(dim, 0, old).copy_(tensor)
    return larger
