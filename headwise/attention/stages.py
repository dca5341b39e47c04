"""What a mechanism computes between query, key and value and its output, as named stages with formulas and numbers."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from headwise.attention import scores
from headwise.attention.call import Call, per_head
from headwise.attention.normalizers import Tempered
from headwise.attention.precision import wide


@dataclass(frozen=True, eq=False)
class Stage:
    """One intermediate of an attention.

    Args:
        name: as textbooks call it.
        symbol, formula: LaTeX; how it follows from the stages before it.
        axes: what rows, and columns, are: "queries", "keys", "features" or a word of the mechanism's own.
        values: numbers with a leading axis for the batch and one for the heads.
        text: what happens, in a sentence.
    """

    name: str
    symbol: str
    formula: str
    axes: tuple[str, ...]
    values: Float[Tensor, "batch heads ..."]
    text: str = ""


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
    total, added_up = stages[-1].values, stages[-1].symbol
    if clean.bias is not None:
        added = clean.bias.to(total.dtype).expand_as(total)
        stages.append(Stage("bias", "B", r"B", PAIRS, added, "what position or caller adds to the scores"))
        total, added_up = total + added, f"{added_up} + B"
    if clean.relative is not None and clean.relative.has_bias():
        added = clean.relative.bias(*clean.shape[2:], clean.query_start).to(total.dtype).expand_as(total)
        stages.append(Stage("relative", "R", r"R_{ij} = r(j - i)", PAIRS, added, "what the distance of a pair adds"))
        total, added_up = total + added, f"{added_up} + R"
    if stages[-1].name in ("bias", "relative"):
        stages.append(Stage("biased", "S'", f"S' = {added_up}", PAIRS, total, "the scores with all that is added"))
    if keep is not None:
        shown = keep.expand_as(total)
        text = "a pair that the mask forbids has no score: minus infinity"
        masked = total.masked_fill(~shown, -math.inf)
        formula = rf"M_{{ij}} = {stages[-1].symbol}_{{ij}} \text{{ if allowed, else }} -\infty"
        stages.append(Stage("masked", "M", formula, PAIRS, masked, text))
    name = clean.normalizer.name
    if isinstance(clean.normalizer, Tempered):
        name = clean.normalizer.normalizer.name
        cooled, temperature = stages[-1].values / clean.normalizer.temperature, f"{clean.normalizer.temperature:g}"
        formula = rf"T = {stages[-1].symbol} / {temperature}"
        stages.append(Stage("tempered", "T", formula, PAIRS, cooled, f"divided by the temperature, {temperature}"))
    text = f"{name} over the keys of each query: a row of shares" if name == "softmax" else f"{name} of each row"
    weights = clean.normalizer(total, keep)
    formula = rf"A = \operatorname{{{name.partition(':')[0].replace('_', ' ')}}}({stages[-1].symbol})"
    return [*stages, Stage("weights", "A", formula, PAIRS, weights, text)]


def _scores(call: Call, query: Tensor, key: Tensor) -> list[Stage]:
    score = call.score
    if type(score) is scores.ScaledDot:
        width = query.shape[-1]
        stages = [Stage("products", "P", r"P = Q K^\top", PAIRS, query @ key.mT, "each query times each key")]
        text = f"divided by the square root of their width, {width}"
        # by the score's own order of operations, so that it is the number that is used
        return [*stages, Stage("scaled", "S", rf"S = P / \sqrt{{{width}}}", PAIRS, score(query, key), text)]
    name = type(score).__name__
    if score.is_dot():
        formula, text = r"S = Q K^\top", "each query times each key"
        if type(score) is not scores.Dot or score.scale != 1.0:
            formula, text = r"S = c\, Q' K'^\top", f"score {name}: a product of what it makes of query and key"
    else:
        formula, text = rf"S_{{ij}} = \operatorname{{{name}}}(q_i, k_j)", f"score {name}: a number for each pair"
    return [Stage("scores", "S", formula, PAIRS, score(query, key), text)]
