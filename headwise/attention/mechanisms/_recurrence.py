"""The base of every mechanism that is a recurrence over tokens: it says what the terms are, and this does the rest."""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, per_head
from headwise.attention.mechanisms import _fla
from headwise.attention.mechanisms._fla import Choice, Run
from headwise.attention.mechanisms._masks import Keys, hidden, parts
from headwise.attention.mechanisms._scan import Output, Terms, scan, step
from headwise.attention.mechanisms.mechanism import Facts, Recurrent, State
from headwise.attention.precision import uncast, wide
from headwise.attention.stages import PAIRS, Stage, Working

# of those that fade: a memory runs from a key to later queries
FADING = Facts(
    family="recurrence",
    time="n d^2",
    memory="n d + d^2",
    recurrent=True,
    honours="keys",
    bidirectional=False,
    causal=True,
    cache="shared",
)
# of those whose features stand for the exponential
KERNEL = replace(FADING, family="kernel", bidirectional=True, cross=True)


class Recurrence(Recurrent, ABC):
    """S_i = (I - e_i r_i^T) diag(a_i) S_(i-1) + k_i v_i^T, out_i = q_i S_i, made of a call by `terms`.

    Time is linear in length, in chunks of 64. Decoding keeps S, key width x value width numbers a head, then what
    `terms` keeps. A hidden key neither adds, erases nor fades. Weights may be negative and do not sum to 1 unless they
    are `normalised`. There are no weights to drop: a model's dropout does not act. Sums are float32 or wider.

    Raises:
        ShapeError: other heads, or keys of another width, than it was built for.
        Unsupported: any mask but `Causal()`, alone or with padding of keys (padding alone too where nothing fades); a
            bias; relative positions; no gates where it takes some.
    """

    facts = FADING
    # the least log decay that `terms` can give
    floor: ClassVar[float] = float("-inf")
    # whether outputs are divided by the sum of their weights, q_i . sum_j k_j
    normalised: ClassVar[bool] = False
    # whether a token's output is made of the state before its own key
    late: ClassVar[bool] = False
    # whether the position of a hidden key still fades the others
    hidden_fade: ClassVar[bool] = False
    # why fla computes no call of this mechanism
    fla_refusal: ClassVar[str | None] = None
    # "auto", or the kernel to insist on for more than one token: "chunks" or "fla"
    kernel: str = "auto"

    @abstractmethod
    def terms(self, call: Call, past: State, keys: Keys | None) -> tuple[Terms, State]:
        """The terms of a call, and what later calls have to know of these tokens.

        Args:
            call: in float32 or wider, without a mask; under a causal one there is a key for each position up to the
                last query. Queries count from `query_start`, keys from 0, both from the tokens before where there is a
                past.
            past: what the last call returned; () before the first token.
            keys: those that exist; None: all. Keys, decays and reads of others are zeroed behind this.
        """

    def finish(self, output: Output, terms: Terms) -> Float[Tensor, "batch heads length _"]:
        """The output of each token from that of the recurrence; the terms lie beside it."""
        return divided(output) if self.normalised else output

    def whole(self, terms: Terms, run: Run) -> Output:
        """The outputs of the recurrence over whole sequences; `run` computes it."""
        return run(terms, None)[0]

    def advance(self, terms: Terms, sums: Tensor | None, run: Run) -> tuple[Output, Tensor]:
        """The outputs of new tokens, and S after them; None: nothing was before."""
        if sums is None or torch.compiler.is_compiling() or terms.query.shape[2] != 1:
            return run(terms, sums)
        return step(terms, sums)

    def plan(self, call: Call) -> Choice:
        """Which kernel computes the causal form of a call, and why the other does not; nothing is computed.

        Raises: Unsupported for what the facts exclude, or if `kernel` cannot compute it.

        >>> from headwise.attention.masks import Causal
        >>> from headwise.attention.mechanisms.delta_rule import DeltaRule
        >>> x, gates = torch.ones(2, 3, 500, 8), torch.ones(2, 3, 500, 1)
        >>> print(DeltaRule().plan(Call(x, x, x, mask=Causal(), gates=gates)))
        kernel   chunks: products of matrices in chunks of 64 tokens
        not      fla: the tensors are on cpu, and fla's kernels are for a GPU
        """
        self.require(call)
        query, key, value = (wide(x[:, :, :1]) for x in (call.query, call.key, call.value))
        gates = None if call.gates is None else wide(call.gates[:, :, :1])
        first = replace(call, query=query, key=key, value=value, gates=gates, mask=None, query_start=0)
        terms = self._spread(self.terms(first, (), None)[0])
        return self._choice(terms, call.value.dtype, call.query_start + call.shape[2])

    def _choice(self, terms: Terms, dtype: torch.dtype, length: int) -> Choice:
        return _fla.choose(self.kernel, terms, length, dtype, self.fla_refusal)

    def _run(self, terms: Terms, dtype: torch.dtype) -> Run:
        if self._choice(terms, dtype, terms.query.shape[2]).kernel == "fla":
            return partial(_fla.scan, floor=self.floor, dtype=dtype)
        return partial(scan, floor=self.floor)

    def compute(self, call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
        with uncast(call.query):
            terms, causal = self._visible(call)
            if not causal:
                # the query heads of a group are rows of their key head
                rows = terms.query.unflatten(1, (terms.key.shape[1], -1))
                sums = (rows @ (terms.key.mT @ terms.value).unsqueeze(2)).flatten(1, 2)
                return self.finish(sums, terms).to(call.value.dtype)
            start = call.query_start
            if start:
                terms = terms._replace(query=F.pad(terms.query, (0, 0, start, 0)))
            output = self.whole(_delayed(terms, None)[0] if self.late else terms, self._run(terms, call.value.dtype))
            return self.finish(output, terms)[:, :, start:].to(call.value.dtype)

    def resume(self, call: Call, state: State | None) -> tuple[Float[Tensor, "batch heads new value_dim"], State]:
        """The output of new tokens; the state is S, (batch, heads, features, value_dim), then what else is kept."""
        self.require_terms(call)
        with uncast(call.query):
            sums, past = (None, ()) if state is None else (state[0], state[1:])
            query, key, value = wide(call.query), wide(call.key), wide(call.value)
            own, kept = (past[:3], past[3:]) if self.late else ((), past)
            gates = None if call.gates is None else wide(call.gates)
            new = replace(call, query=query, key=key, value=value, gates=gates)
            terms, kept = self.terms(new, kept, None)
            terms = self._spread(terms)
            read, own = _delayed(terms, own or None) if self.late else (terms, ())
            output, sums = self.advance(read, sums, self._run(read, call.value.dtype))
            return self.finish(output, terms).to(call.value.dtype), (sums, *own, *kept)

    def compute_stages(self, call: Call) -> list[Stage]:
        """The terms of each token, then the weights; of a normalised one products and their shares."""
        with uncast(call.query):
            terms, causal = self._visible(call)
        if self.normalised and terms.log_decay is None and terms.read is None:
            return _share_stages(terms, call, self.weights(call), causal)
        named = [
            ("query vectors", r"\hat{Q}", "what reads the state", "query", ("queries", "features"), terms.query),
            ("key vectors", r"\hat{K}", "where the state takes up a value", "key", ("keys", "features"), terms.key),
            ("log decays", r"\log a", "what is left of the state; 0: all", "key", ("keys", "gates"), terms.log_decay),
            ("read vectors", "R", "what is read of the state to be erased", "key", ("keys", "features"), terms.read),
            ("erase vectors", "E", "where that is taken off", "key", ("keys", "features"), terms.erase),
        ]
        heads = call.shape[1]
        stages = [
            Stage(name, symbol, symbol, axes, per_head(values, heads), text, Working("formula", (source,)))
            for name, symbol, text, source, axes, values in named
            if values is not None
        ]
        text = "what each value counts for each query; the state is never unrolled like this when it runs"
        working = Working("formula", ("query vectors", "key vectors"))
        return [*stages, Stage("weights", "A", r"O = A V", PAIRS, self.weights(call), text, working)]

    def _visible(self, call: Call) -> tuple[Terms, bool]:
        """The terms of a clean call, zero where no key exists, and whether later keys are hidden."""
        query, key, value, causal, keys = parts(call)
        gates = None if call.gates is None else hidden(wide(call.gates)[:, :, : key.shape[2]], keys)
        missing = call.query_start + query.shape[2] - key.shape[2] if causal else 0
        if missing:
            # queries behind the last key
            keys = torch.ones_like(key[:1, :1, :, 0], dtype=torch.bool) if keys is None else keys
            keys, fill = F.pad(keys, (0, missing)), (0, 0, 0, missing)
            key, value, gates = F.pad(key, fill), F.pad(value, fill), None if gates is None else F.pad(gates, fill)
        call = replace(call, query=query, key=key, value=value, mask=None, gates=gates)
        terms = self._spread(self.terms(call, (), keys)[0])
        decay, read = terms.log_decay, terms.read
        if decay is not None and not self.hidden_fade:
            decay = hidden(decay, keys)
        read = None if read is None else hidden(read, keys)
        return terms._replace(key=hidden(terms.key, keys), log_decay=decay, read=read), causal

    def _spread(self, terms: Terms) -> Terms:
        """The terms with a column of ones if the outputs are divided, and per head where something fades or goes."""
        if self.normalised:
            terms = terms._replace(value=F.pad(terms.value, (0, 1), value=1.0))
        if terms.log_decay is None and terms.read is None:
            return terms
        heads = terms.query.shape[1]
        return terms.map(lambda x: per_head(x, heads))


def divided(sums: Output) -> Float[Tensor, "batch heads query_len _"]:
    """Weighted sums over their weights; exactly 0, with zero gradient, where there is no weight."""
    weight = sums.detach()[..., -1:]
    limits = torch.finfo(sums.dtype)
    # the inverse of a smaller weight (8e-25 in float32) would overflow in the gradient
    empty = weight < limits.tiny / limits.eps**2
    # brought to weights of 1 first, so that the gradient does not square the inverse either
    shares = sums * weight.masked_fill(empty, 1.0).reciprocal().masked_fill(empty, 0.0)
    return shares[..., :-1] * shares[..., -1:].masked_fill(empty, 1.0).reciprocal()


def _delayed(terms: Terms, before: State | None) -> tuple[Terms, State]:
    """The terms with key, value and decay of the token before, and those of the last one; None: nothing was before."""
    assert terms.log_decay is not None
    moved, last = [], []
    for number, x in enumerate((terms.key, terms.value, terms.log_decay)):
        whole = F.pad(x, (0, 0, 1, 0)) if before is None else torch.cat((before[number], x), 2)
        moved.append(whole[:, :, :-1])
        last.append(whole[:, :, -1:])
    return terms._replace(key=moved[0], value=moved[1], log_decay=moved[2]), tuple(last)


def _share_stages(terms: Terms, call: Call, weights: Tensor, causal: bool) -> list[Stage]:
    """The features of queries and keys, their products, and the shares of these."""
    key, phi = per_head(terms.key, call.shape[1]), (r"\phi(Q)", r"\phi(K)")
    text = "features in place of the exponential"
    of_query, of_key = Working("formula", ("query",)), Working("formula", ("key",))
    first = Stage("query features", phi[0], phi[0], ("queries", "phi"), terms.query, text, of_query)
    text = "the same of the keys; 0 where hidden"
    second = Stage("key features", phi[1], phi[1], ("keys", "phi"), key, text, of_key)
    formula, text = r"P = \phi(Q)\,\phi(K)^\top", "never made when it runs: it sums keys"
    working = Working("dot", ("query features", "key features"))
    products = Stage("products", "P", formula, PAIRS, terms.query @ key.mT, text, working)
    formula = r"A_{ij} = P_{ij} / \textstyle\sum_k P_{ik}"
    text = "each product divided by the sum of its row" + (" up to the query" if causal else "")
    working = Working("share", ("products",), {"reach": call.query_start} if causal else {})
    return [first, second, products, Stage("weights", "A", formula, PAIRS, weights, text, working)]
