"""Connectionist temporal classification: from the logits of every frame to a sequence of units, and back."""

import itertools
import math
from collections import defaultdict

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

BLANK = 0


def best_path(log_probs: Float[Tensor, "places outputs"]) -> list[int]:
    """The units of the likeliest path: repetitions are one, blanks (output 0) are nothing. O(places outputs).

    Source: Graves et al. 2006, "Connectionist Temporal Classification", section 3.2 (best path decoding).

    >>> best_path(torch.eye(3)[[1, 1, 0, 1, 2]])
    [1, 1, 2]
    """
    path = log_probs.argmax(-1).tolist()
    return [unit for unit, previous in zip(path, [BLANK, *path], strict=False) if unit not in (BLANK, previous)]


def prefix_beam(log_probs: Float[Tensor, "places outputs"], width: int) -> list[int]:
    """The likeliest row of units over all of its paths, as far as a beam of `width` prefixes sees.

    With a beam that holds every prefix it is exact. O(places width outputs).

    Source: Hannun et al. 2014, arXiv:1408.2873, algorithm 1, without a language model.
    """
    # of each prefix the log probability of the paths that end in a blank, and of those that end in its last unit
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    for row in log_probs.double().tolist():
        extended: defaultdict[tuple[int, ...], list[float]] = defaultdict(lambda: [-math.inf, -math.inf])
        for prefix, (blank, unit) in beams.items():
            both = _sum(blank, unit)
            same = extended[prefix]
            same[0] = _sum(same[0], both + row[BLANK])
            if prefix:
                same[1] = _sum(same[1], unit + row[prefix[-1]])
            for output in range(1, len(row)):
                # a repetition begins a unit anew only behind a blank
                previous = blank if prefix and output == prefix[-1] else both
                longer = extended[(*prefix, output)]
                longer[1] = _sum(longer[1], previous + row[output])
        best = sorted(extended.items(), key=lambda entry: (-_sum(*entry[1]), entry[0]))[:width]
        beams = {prefix: (blank, unit) for prefix, (blank, unit) in best}
    best_prefix, _ = max(beams.items(), key=lambda entry: _sum(*entry[1]))
    return list(best_prefix)


def fewest_places(units: list[int]) -> int:
    """Places that a row of units needs: one each, and a blank between equal ones.

    >>> fewest_places([3, 3, 4])
    4
    """
    return len(units) + sum(unit == following for unit, following in itertools.pairwise(units))


def occupancy(log_probs: Float[Tensor, "places outputs"], units: list[int]) -> Float[np.ndarray, "units places"]:
    """The probability that a path that reads `units` is at each of them at each place (blanks are left out).

    The forward-backward sums of all paths, taken as the gradient of their log probability.

    Source: Graves et al. 2006, "Connectionist Temporal Classification", eq. 14; Graves 2012, section 7.3.

    Raises: ValueError: more units than the places can hold.
    """
    if fewest_places(units) > len(log_probs):
        raise ValueError(f"{len(units)} units do not fit in {len(log_probs)} places")
    labels = [BLANK]
    for unit in units:
        labels += [unit, BLANK]
    # a separate column for every label, so that equal units have separate gradients
    with torch.enable_grad():
        # on the host, whose small steps are cheap
        emitted = log_probs.detach().cpu().double()[:, labels].requires_grad_()
        skip = torch.tensor([at > 1 and labels[at] not in (BLANK, labels[at - 2]) for at in range(len(labels))])
        alpha = torch.full((len(labels),), -torch.inf, dtype=torch.float64)
        alpha[:2] = 0.0
        alpha = torch.where(torch.arange(len(labels)) < 2, emitted[0], alpha)
        for row in emitted[1:]:
            nothing = alpha.new_full((1,), -1e30)
            stayed = torch.where(alpha.isneginf(), nothing, alpha)
            moved = torch.cat([nothing, stayed[:-1]])
            skipped = torch.where(skip, torch.cat([nothing, nothing, stayed[:-2]])[: len(labels)], nothing)
            alpha = torch.stack([stayed, moved, skipped]).logsumexp(0) + row
        (gradient,) = torch.autograd.grad(alpha[-2:].logsumexp(0), emitted)
    return gradient[:, 1::2].mT.numpy()


def _sum(first: float, second: float) -> float:
    """log(exp(first) + exp(second))."""
    high, low = max(first, second), min(first, second)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
