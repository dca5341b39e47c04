"""Which pairs of a query and a key each mask and each mechanism brings together, as small pictures of one size."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import UInt8

from headwise.attention import masks, mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Mask
from headwise.explain.heads import thumbnails

LENGTH = 32
_WIDTH = 16


@dataclass(frozen=True)
class Pattern:
    """A picture: of a mask the pairs that may meet, of a mechanism what each value counts for a random input.

    Args:
        text: one line: of a mask what it is, of a mechanism its formula.
    """

    name: str
    kind: str
    text: str
    time: str
    memory: str


@cache
def patterns() -> tuple[tuple[Pattern, ...], UInt8[np.ndarray, "patterns length length"]]:
    """All of them, masks first, and their pictures; the same every time.

    >>> known, pictures = patterns()
    >>> int(pictures[[one.name for one in known].index("causal")].astype(bool).sum())
    528
    """
    pairs = [(Pattern(name, "mask", text, "", ""), _of_mask(mask)) for name, (text, mask) in _masks().items()]
    for name in mechanisms.names():
        facts = mechanisms.mechanism_type(name).facts
        pairs.append((Pattern(name, "mechanism", facts.formula, facts.time, facts.memory), _of_mechanism(name)))
    return tuple(pattern for pattern, _ in pairs), np.stack([picture for _, picture in pairs])


def _masks() -> dict[str, tuple[str, Mask]]:
    """By name, as it is written and as it is."""
    return {
        "causal": ("Causal()", masks.Causal()),
        "padding": ("Padding([20])", masks.Padding(torch.tensor([20]))),
        "prefix": ("Prefix([10])", masks.Prefix(torch.tensor([10]))),
        "window": ("Window(3, 3)", masks.Window(3, 3)),
        "causal window": ("Window(6, 0)", masks.Window(6, 0)),
        "dilated": ("Dilated(3, 3, 3)", masks.Dilated(3, 3, 3)),
        "strided": ("Strided(5)", masks.Strided(5)),
        "blocks": ("Blocks(8)", masks.Blocks(8)),
        "global": ("Global(2) | Window(2, 2)", masks.Global(2) | masks.Window(2, 2)),
        "bigbird": (f"BigBird({LENGTH}, 2, 3, 1, 1)", masks.BigBird(LENGTH, 2, 3, 1, 1)),
        "shifts": ("Shifts((-3,))", masks.Shifts((-3,))),
    }


def _of_mask(mask: Mask) -> np.ndarray:
    keep = mask.dense(1, 1, LENGTH, LENGTH, query_start=0, device=torch.device("cpu"))
    return keep.expand(1, 1, LENGTH, LENGTH)[0, 0].numpy().astype(np.uint8) * np.uint8(255)


def _of_mechanism(name: str) -> np.ndarray:
    kind = mechanisms.mechanism_type(name)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        mechanism = kind.sized(head_dim=_WIDTH, num_heads=2, max_len=LENGTH, dropout=0.0)
        query, value = (torch.randn(1, 2, LENGTH, _WIDTH) for _ in range(2))
        mechanism.train(False)
        mask = None if kind.facts.bidirectional else masks.Causal()
        gates = mechanism.gate_module(2 * _WIDTH, 2)
        own = None if gates is None else gates(query.transpose(1, 2).flatten(2))
        weights = mechanism.weights(Call(query, query, value, mask=mask, gates=own))
    sizes = weights[0, :1].abs().numpy()
    # what is small is still a pair that met
    picture: np.ndarray = np.maximum(thumbnails(sizes, LENGTH)[0], (sizes[0] > 0).astype(np.uint8))
    return picture
