"""Where nodes of a small graph are drawn: as far from each other as they are in steps, the same on every call."""

import numpy as np
from jaxtyping import Bool, Float

_ROUNDS = 150
# how much farther apart parts are drawn that nothing joins
_APART = 1.5


def layout(joined: Bool[np.ndarray, "nodes nodes"]) -> Float[np.ndarray, "nodes 2"]:
    """Places in the unit square: distances in the plane near to numbers of steps, by stress majorization.

    Costs nodes^3 once and nodes^2 in each of 150 rounds: for a hundred nodes or so. Nothing is drawn at random.

    Args:
        joined: which nodes have an edge, in whatever direction.

    Source: Gansner et al. 2005, "Graph drawing by stress majorization", eq. 8, with weights distance^-2, begun at
        classical scaling (Torgerson 1952).

    >>> path = layout(np.eye(3, k=1, dtype=bool))
    >>> bool(abs(np.linalg.norm(path[0] - path[2]) - 2 * np.linalg.norm(path[0] - path[1])) < 1e-3)
    True
    """
    count = len(joined)
    if count < 2:
        return np.full((count, 2), 0.5)
    apart = steps(joined | joined.T)
    near = np.divide(1.0, apart**2, out=np.zeros_like(apart), where=apart > 0)
    fixed = np.linalg.pinv(np.diag(near.sum(1)) - near)
    places = _scaled(apart)
    for _ in range(_ROUNDS):
        lengths = np.linalg.norm(places[:, None] - places, axis=-1)
        pull = -np.divide(near * apart, lengths, out=np.zeros_like(apart), where=lengths > 1e-9)
        places = fixed @ ((pull - np.diag(pull.sum(1))) @ places)
    low, high = places.min(0), places.max(0)
    return 0.5 + (places - (low + high) / 2) / max(1e-9, float((high - low).max()))


def steps(joined: Bool[np.ndarray, "nodes nodes"]) -> Float[np.ndarray, "nodes nodes"]:
    """How many edges lead from node to node at least; somewhat more than the most where none do.

    >>> steps(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)).tolist()
    [[0.0, 1.0, 2.5], [1.0, 0.0, 2.5], [2.5, 2.5, 0.0]]
    """
    count = len(joined)
    found = np.full((count, count), np.inf)
    reached = np.eye(count, dtype=bool)
    for step in range(count):
        found[reached & np.isinf(found)] = step
        wider = reached | (reached.astype(np.float32) @ joined > 0)
        if (wider == reached).all():
            break
        reached = wider
    farthest = found[np.isfinite(found)].max(initial=0.0)
    return np.where(np.isinf(found), farthest + _APART, found)


def _scaled(apart: Float[np.ndarray, "nodes nodes"]) -> Float[np.ndarray, "nodes 2"]:
    """Classical scaling, in which nodes that are alike lie a little apart, on a spiral."""
    count = len(apart)
    middle = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * middle @ apart**2 @ middle)
    places = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    # an eigenvector is known but for its sign
    largest = np.abs(places).argmax(0)
    places = places * np.where(places[largest, np.arange(2)] < 0, -1.0, 1.0)
    turn = np.arange(count) * np.pi * (3 - np.sqrt(5))
    spiral = np.stack([np.cos(turn), np.sin(turn)], 1) * np.sqrt(np.arange(count) + 0.5)[:, None]
    return places + 0.05 * spiral / np.sqrt(count)
