"""What a mechanism computes between query, key and value and its output, as named stages with formulas and numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor

from headwise.attention import scores
from headwise.attention.call import Call, per_head
from headwise.attention.normalizers import Normalizer, Tempered
from headwise.attention.precision import wide

Rule = Literal[
    "linear", "dot", "additive", "quotient", "product", "sum", "mask", "normalizer", "share", "mix", "rotation", "norm",
    "join", "formula",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Working:
    """How each number of a stage is made of numbers of stages before it, so that it can be worked by hand.

    With x the stage, i its row, j its column and f a feature; a, b, ... are the stages of `of`:

    | rule | x_ij |
    |---|---|
    | `linear` | sum_f a_if W_jf + b_j, with W and b among the parameters, `matrix` and `bias` |
    | `dot` | `factor` (1 if absent) sum_f a_if b_jf |
    | `additive` | sum_f `vector`_f tanh(a_if + b_jf); with `slope` LeakyReLU of that slope in place of tanh |
    | `quotient` | a_ij / `divisor` |
    | `product`, `sum` | a_ij b_ij, a_ij + b_ij + ... |
    | `mask` | a_ij, or minus infinity |
    | `normalizer` | that of this `name`, over row i of a |
    | `share` | a_ij / sum_k a_ik; with `reach` over the keys k <= i + `reach`, and 0 beyond |
    | `mix` | sum_k a_ik b_kj |
    | `rotation` | `cos`_ij a_ij + `sin`_ij a_ip, where p = `partner`_j |
    | `norm` | `gain`_j (a_ij - mean) / sqrt(variance + `eps`) + `shift`_j over row i; with `mean` false the mean is 0 |
    | `join` | a_if, the columns from `first` on; the other columns are those of other heads |
    | `formula` | as the formula of the stage says, of the rows of a, b, ...; its terms are not listed |

    Args:
        of: names of stages.
        numbers: what a rule has besides, by the names above.
    """

    rule: Rule
    of: tuple[str, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Stage:
    """One intermediate of an attention.

    Args:
        name: as textbooks call it.
        symbol, formula: LaTeX; how it follows from the stages before it.
        axes: what rows, and columns, are: "queries", "keys", "features" or a word of the mechanism's own.
        values: numbers with a leading axis for the batch and one for the heads.
        text: what happens, in a sentence.
        working: how its numbers are made.
    """

    name: str
    symbol: str
    formula: str
    axes: tuple[str, ...]
    values: Float[Tensor, "batch heads ..."]
    text: str = ""
    working: Working | None = None


PAIRS = ("queries", "keys")


def definition(call: Call) -> list[Stage]:
    """The stages of `Scored`: products, scale, what positions and a bias add, the mask, the normalizer.

    The last one equals the weights of the kernel `plain`, by the same operations in the same order.

    >>> import torch
    >>> x = torch.eye(3).reshape(1, 1, 3, 3)
    >>> [step.name for step in definition(Call(x, x, x))]
    ['products', 'scaled', 'weights']
    """
    keep, clean = call.keep(), call.zero_unseen()
    query, key = wide(clean.query), wide(per_head(clean.key, clean.query.shape[1]))
    stages = _scores(call, query, key)
    total, added_up, summands = stages[-1].values, stages[-1].symbol, [stages[-1].name]
    if clean.bias is not None:
        added = clean.bias.to(total.dtype).expand_as(total)
        stages.append(Stage("bias", "B", r"B", PAIRS, added, "what position or caller adds to the scores"))
        total, added_up = total + added, f"{added_up} + B"
        summands.append("bias")
    if clean.relative is not None and clean.relative.has_bias():
        added = clean.relative.bias(*clean.shape[2:], clean.query_start).to(total.dtype).expand_as(total)
        stages.append(Stage("relative", "R", r"R_{ij} = r(j - i)", PAIRS, added, "what the distance of a pair adds"))
        total, added_up = total + added, f"{added_up} + R"
        summands.append("relative")
    if len(summands) > 1:
        text, working = "the scores with all that is added", Working("sum", tuple(summands))
        stages.append(Stage("biased", "S'", f"S' = {added_up}", PAIRS, total, text, working))
    if keep is not None:
        shown = keep.expand_as(total)
        text = "a pair that the mask forbids has no score: minus infinity"
        masked = total.masked_fill(~shown, -math.inf)
        formula = rf"M_{{ij}} = {stages[-1].symbol}_{{ij}} \text{{ if allowed, else }} -\infty"
        stages.append(Stage("masked", "M", formula, PAIRS, masked, text, Working("mask", (stages[-1].name,))))
    normalizer: Normalizer = clean.normalizer
    if isinstance(normalizer, Tempered):
        divisor, normalizer = normalizer.temperature, normalizer.normalizer
        formula, text = rf"T = {stages[-1].symbol} / {divisor:g}", f"divided by the temperature, {divisor:g}"
        working = Working("quotient", (stages[-1].name,), {"divisor": divisor})
        stages.append(Stage("tempered", "T", formula, PAIRS, stages[-1].values / divisor, text, working))
    name = normalizer.name
    text = f"{name} over the keys of each query: a row of shares" if name == "softmax" else f"{name} of each row"
    weights = clean.normalizer(total, keep)
    formula = rf"A = \operatorname{{{name.partition(':')[0].replace('_', ' ')}}}({stages[-1].symbol})"
    working = Working("normalizer", (stages[-1].name,), {"name": name})
    return [*stages, Stage("weights", "A", formula, PAIRS, weights, text, working)]


def _scores(call: Call, query: Tensor, key: Tensor) -> list[Stage]:
    score, name = call.score, type(call.score).__name__
    values = score(query, key)
    if type(score) is scores.ScaledDot:
        width, text = query.shape[-1], "each query times each key"
        working = Working("dot", ("query", "key"))
        stages = [Stage("products", "P", r"P = Q K^\top", PAIRS, query @ key.mT, text, working)]
        text = f"divided by the square root of their width, {width}"
        working = Working("quotient", ("products",), {"divisor": math.sqrt(max(1, width))})
        # by the score's own order of operations, so that it is the number that is used
        return [*stages, Stage("scaled", "S", rf"S = P / \sqrt{{{width}}}", PAIRS, values, text, working)]
    if score.is_dot():
        return _dot(call, query, key, values)
    if isinstance(score, scores.Additive | scores.GAT | scores.GATv2):
        return _added(score, query, key, values)
    formula, text = rf"S_{{ij}} = \operatorname{{{name}}}(q_i, k_j)", f"score {name}: a number for each pair"
    return [Stage("scores", "S", formula, PAIRS, values, text, Working("formula", ("query", "key")))]


def _added(score: Any, query: Tensor, key: Tensor, values: Tensor) -> list[Stage]:
    """A score that adds what it makes of query and key, bends the sum and weighs its features."""
    of, stages = ("query", "key"), []
    if not isinstance(score, scores.GATv2):
        parts = score.project(query, key)
        linear = [Working("linear", (name,), {"matrix": f"score {name}"}) for name in of]
        of = ("query part", "key part")
        stages = [
            Stage(of[0], "q'", r"q' = W_q q", ("queries", "features"), parts[0], "the query in the sum", linear[0]),
            Stage(of[1], "k'", r"k' = W_k k", ("keys", "features"), parts[1], "the key in the sum", linear[1]),
        ]
    numbers: dict[str, Any] = {"vector": score.vector()}
    name = "\\tanh" if isinstance(score, scores.Additive) else r"\operatorname{LeakyReLU}"
    if not isinstance(score, scores.Additive):
        numbers["slope"] = score.slope
    left, right = ("q'_i", "k'_j") if stages else ("q_i", "k_j")
    formula = rf"S_{{ij}} = v \cdot {name}({left} + {right})"
    text = f"score {type(score).__name__}: a number for each pair"
    return [*stages, Stage("scores", "S", formula, PAIRS, values, text, Working("additive", of, numbers))]


def _dot(call: Call, query: Tensor, key: Tensor, values: Tensor) -> list[Stage]:
    """A score that is a product, with what it makes of query and key where these are not multiplied themselves."""
    name, (turned, other, factor) = type(call.score).__name__, call.score.as_dot(query, key)
    of, stages = ("query", "key"), []
    if turned is not query or other is not key:
        of, text = ("score query", "score key"), f"what score {name} makes of it"
        stages = [
            Stage("score query", "Q'", r"Q' = q'(Q)", ("queries", "features"), turned, text),
            Stage("score key", "K'", r"K' = k'(K)", ("keys", "features"), other, text),
        ]
    formula, text = r"S = Q K^\top", "each query times each key"
    if stages or factor != 1.0:
        formula, text = r"S = c\, Q' K'^\top", f"score {name}: a product of what it makes of query and key"
    return [*stages, Stage("scores", "S", formula, PAIRS, values, text, Working("dot", of, {"factor": factor}))]
