"""How far attention looks: the mean distance between a query and the keys it attends to."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from headwise.errors import Unsupported
from headwise.explain.explanation import Explanation


def attended_distance(weights: Float[np.ndarray, "heads queries keys"]) -> Float[np.ndarray, "heads"]:
    """The mean over queries of sum over keys of weight |query - key|, in tokens, of each head.

    Source: Dosovitskiy et al. 2021, arXiv:2010.11929, figure 7 (in pixels there).

    >>> attended_distance(np.eye(3)[None, ::-1])
    array([1.33333333])
    """
    queries, keys = weights.shape[-2:]
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    found: np.ndarray = (weights * apart).sum(-1).mean(-1)
    return found


def distances(explanations: Iterable[Explanation]) -> dict[str, float]:
    """The distance attended to by each head of self-attention, mean over what was explained: "layer, head 0" -> tokens.

    Raises:
        Unsupported: nothing that was explained has self-attention.
    """
    sums: dict[str, list[float]] = {}
    layers = (found for one in explanations for found in one.layers.items())
    for name, layer in layers:
        found = attended_distance(layer.weights) if layer.kind == "self" else ()
        for head, distance in enumerate(found):
            sums.setdefault(f"{name}, head {head}", []).append(float(distance))
    if not sums:
        raise Unsupported("this model has no self-attention, so there are no distances; set model.kind to one that has")
    return {name: float(np.mean(values)) for name, values in sums.items()}
