"""What every hypothesis must obey: lengths, banned tokens, repeated n-grams and forced beginnings."""

import math
from collections.abc import Sequence
from ctypes import c_int64
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise import native
from headwise.caches import Cache
from headwise.decoding.hypotheses import LENGTH_PENALTY
from headwise.errors import ConfigError, Diverged, ShapeError

# when the beam search of a sentence ends before its maximum length
Stopping = Literal["full", "estimate", "bound"]


@dataclass(frozen=True, eq=False)
class Constraints:
    """The rules of one search, one entry a sentence where they differ between sentences. Made by `constraints`.

    A forced beginning comes before every other rule: its tokens may be banned or repeated. The first `certain` of them
    are written with probability 1. `stopping` is that of `DecodingConfig`.
    """

    bos_id: Int[np.ndarray, "sentences"]
    eos_id: int
    min_len: Int[np.ndarray, "sentences"]
    max_len: Int[np.ndarray, "sentences"]
    no_repeat_ngram: int
    banned: list[int]
    prefix: list[list[int]]
    length_penalty: float
    certain: int = 0
    stopping: Stopping = "full"

    @property
    def sentences(self) -> int:
        return len(self.max_len)

    # counted once a search, not once a step

    @cached_property
    def longest(self) -> int:
        """The length of the longest hypothesis."""
        return int(self.max_len.max(initial=0))

    @cached_property
    def forbidden(self) -> Int[np.ndarray, "banned"]:
        """The tokens that no hypothesis has."""
        return np.array(self.banned, dtype=np.int64)

    @cached_property
    def early_until(self) -> int:
        """The step from which no end is too early."""
        return int(self.min_len.max(initial=0))

    @cached_property
    def forced_until(self) -> int:
        """The step from which no token is forced."""
        return max(map(len, self.prefix), default=0)

    def keep(self, sentences: Int[np.ndarray, "kept"]) -> "Constraints":
        """The rules of these sentences only."""
        prefix = [self.prefix[sentence] for sentence in sentences]
        columns = {name: getattr(self, name)[sentences] for name in ("bos_id", "min_len", "max_len")}
        return replace(self, prefix=prefix, **columns)

    def check_cache(self, cache: Cache) -> None:
        """Raises: ConfigError if the cache has another number of sentences."""
        started = getattr(cache, "sentences", self.sentences)
        if started != self.sentences:
            raise ConfigError(f"max_len is for {self.sentences} sentences, but the decoder was started with {started}")

    def check_ids(self, vocab: int) -> None:
        """Raises: ConfigError for token ids beyond a vocabulary of this size."""
        if vocab < 2:
            raise ConfigError("a vocabulary needs the end of sentence and at least one more token")
        ids = [*self.banned, self.eos_id, *self.bos_id.tolist(), *(token for tokens in self.prefix for token in tokens)]
        if wrong := [token for token in ids if not 0 <= token < vocab]:
            raise ConfigError(f"token {wrong[0]} is outside the vocabulary of {vocab} tokens")


def constraints(
    max_len: Sequence[int],
    *,
    bos_id: int | Sequence[int],
    eos_id: int,
    min_len: int | Sequence[int] = 0,
    no_repeat_ngram: int = 0,
    banned: Sequence[int] = (),
    prefix: Sequence[Sequence[int]] | None = None,
    length_penalty: float = LENGTH_PENALTY,
) -> Constraints:
    """What greedy search, beam search and sampling have in common, checked and spread over the sentences.

    Args:
        max_len: of each sentence the most tokens of a hypothesis, prefix included; one that has them all needs no end
            of sentence
        bos_id: the token that the first step reads, one for all sentences or one each
        min_len: fewest tokens, prefix included, one number for all sentences or one each
        no_repeat_ngram: no n-gram of this many tokens occurs twice in a hypothesis; 0 is off
        prefix: forced first tokens of each sentence; their log-probabilities count
        length_penalty: 0 ranks by log-probability, 1 by its mean over tokens; greedy search and sampling only report
            the score
    Raises: ConfigError for lengths that contradict each other or the prefix, or another number of sentences.

    >>> rules = constraints([5, 8], bos_id=0, eos_id=1, min_len=2)
    >>> rules.sentences, rules.longest, rules.min_len.tolist()
    (2, 8, [2, 2])
    """
    sentences = len(max_len)
    for name, value in (("bos_id", bos_id), ("min_len", min_len), ("prefix", prefix)):
        if value is not None and not isinstance(value, int) and len(value) != sentences:
            raise ConfigError(f"the number of sentences is not clear: max_len {sentences}, {name} {len(value)}")
    if no_repeat_ngram < 0:
        raise ConfigError(f"no_repeat_ngram ({no_repeat_ngram}) must be 0 (off) or more")
    first, shortest, longest = (np.full(sentences, value, np.int64) for value in (bos_id, min_len, max_len))
    forced = [list(tokens) for tokens in prefix] if prefix is not None else [[] for _ in range(sentences)]
    for sentence, (low, high, tokens) in enumerate(zip(shortest.tolist(), longest.tolist(), forced, strict=True)):
        _check_lengths(f"sentence {sentence}", low, high, len(tokens))
        if eos_id in tokens:
            raise ConfigError(f"sentence {sentence}: the prefix contains the end of sentence ({eos_id})")
    return Constraints(first, eos_id, shortest, longest, no_repeat_ngram, list(banned), forced, length_penalty)


def _check_lengths(where: str, low: int, high: int, forced: int) -> None:
    if high < 1 or low < 0:
        raise ConfigError(f"{where}: max_len ({high}) must be 1 or more, min_len ({low}) 0 or more")
    if low > high:
        raise ConfigError(f"{where}: min_len ({low}) is above max_len ({high})")
    if forced > high:
        raise ConfigError(f"{where}: the prefix has {forced} tokens, max_len allows {high}")


def compiled_continuations(
    logits: Float[Tensor, "rows vocab"],
    rules: Constraints,
    step: int,
    totals: Float[np.ndarray, "sentences beams"],
    k: int,
) -> tuple[Float[np.ndarray, "sentences k"], Int[np.ndarray, "sentences k"], Int[np.ndarray, "sentences k"]] | None:
    """`top.continuations` of `allowed_log_probs` in one pass in C++, to float32 rounding.

    None where a rule reads the tokens before, where a logit is NaN or infinity, or a row has none that is finite.
    """
    plain = logits.is_cpu and logits.dtype == torch.float32 and logits.shape[0] == totals.size
    library = native.build().library
    if not plain or library is None or rules.no_repeat_ngram or step < rules.forced_until:
        return None
    logits, forbidden = logits.contiguous(), rules.forbidden
    early = rules.min_len > step if step < rules.early_until else None
    numbers = (
        *(*totals.shape, logits.shape[1], k, logits.data_ptr(), totals.ctypes.data, len(forbidden)),
        *(forbidden.ctypes.data, rules.eos_id, 0 if early is None else early.ctypes.data),
    )
    shape = (len(totals), k)
    best = np.empty(shape), np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    places = [table.ctypes.data for table in best]
    return best if library.continuations((c_int64 * len(numbers))(*numbers), *places) else None


def allowed_log_probs(
    logits: Float[Tensor, "rows vocab"], histories: Sequence[tuple[Constraints, Int[np.ndarray, "_rows _steps"]]]
) -> Float[Tensor, "rows vocab"]:
    """Log-probabilities of the next token, at least in fp32; minus infinity where the rules forbid it.

    They are those of the model: what is forbidden does not raise the rest. So the sum over a hypothesis is what
    forced decoding of its tokens gives. A row without any finite logit is minus infinity throughout.

    Args:
        histories: of each search whose rows these are, one after another: its rules, and the tokens of its rows so far.
    Raises: ShapeError for another number of rows; Diverged if a logit is NaN or plus infinity.
    """
    rows = sum(len(history) for _, history in histories)
    if len(logits) != rows:
        raise ShapeError(f"the decoder returned {len(logits)} rows of logits for {rows} tokens")
    wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    # a new tensor, so the masks below may be written into it
    log_probs = wide.log_softmax(1)
    # the sum over a row is in each of its entries: one column shows every NaN
    finite, row = not math.isnan(log_probs[:, 0].sum().item()), 0
    for rules, history in histories:
        own = slice(row, row + len(history))
        if not finite:
            _clear_empty(wide[own], log_probs[own], history.shape[1] + 1)
        _forbid(log_probs[own], rules, history)
        row = own.stop
    return log_probs


def _clear_empty(logits: Tensor, log_probs: Tensor, step: int) -> None:
    empty = logits.amax(1) == float("-inf")
    if (log_probs[:, 0].isnan() & ~empty).any():
        raise Diverged(f"the model's logits are not finite (NaN or infinity) at step {step}")
    log_probs[empty] = float("-inf")


def _forbid(log_probs: Tensor, rules: Constraints, history: np.ndarray) -> None:
    step = history.shape[1]
    rows, tokens = _forced_tokens(rules, step, len(history)) if step < rules.forced_until else ([], [])
    saved = log_probs[rows, tokens] if rows else None
    if rules.banned:
        log_probs.index_fill_(1, torch.tensor(rules.banned, device=log_probs.device), float("-inf"))
    if step < rules.early_until:
        early = (rules.min_len > step).repeat(len(history) // rules.sentences)
        ends = log_probs[:, rules.eos_id]
        ends.fill_(-math.inf) if early.all() else ends.masked_fill_(torch.from_numpy(early).to(ends.device), -math.inf)
    if 0 < rules.no_repeat_ngram <= step:
        log_probs[_repeats(history, rules.no_repeat_ngram)] = float("-inf")
    if saved is not None:
        log_probs[rows] = float("-inf")
        log_probs[rows, tokens] = torch.zeros_like(saved) if step < rules.certain else saved


def _forced_tokens(rules: Constraints, step: int, rows: int) -> tuple[list[int], list[int]]:
    """The rows whose next token is forced, and that token."""
    beams = rows // rules.sentences
    forced = [(row, rules.prefix[row // beams][step]) for row in range(rows) if step < len(rules.prefix[row // beams])]
    return [row for row, _ in forced], [token for _, token in forced]


def _repeats(history: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and tokens that would repeat an n-gram of their hypothesis."""
    grams = np.lib.stride_tricks.sliding_window_view(history, size, axis=1)
    # their first size - 1 tokens are compared with the last ones; a one-gram has none, so each seen token matches
    ends = history[:, None, history.shape[1] - size + 1 :]
    rows, grams_at = (grams[:, :, :-1] == ends).all(-1).nonzero()
    return rows, grams[rows, grams_at, -1]
