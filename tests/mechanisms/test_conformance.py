"""Every mechanism, score, normalizer, mask and position keeps every promise that it makes; exceptions are listed."""

from functools import cache

import pytest

from headwise import positions
from headwise.attention import mechanisms, normalizers, scores
from headwise.attention.masks import MASKS
from headwise.attention.mechanisms.linear import Hedgehog, Linear, Rectified
from headwise.attention.mechanisms.linformer import Linformer
from headwise.attention.mechanisms.nystrom import Nystrom, ValueConvolution
from headwise.attention.mechanisms.random_synthesizer import RandomSynthesizer
from headwise.attention.mechanisms.reformer import Reformer
from headwise.attention.mechanisms.sinkhorn import Sinkhorn
from headwise.testing import Subject, certify, invariants, resolve
from headwise.testing.masks import SAMPLES

# where a short input fills no default: a name and its build from (heads, dropout)
SMALL = {
    "linear, hedgehog": lambda heads, dropout: Linear(Hedgehog(4)),
    "linear, rectified": lambda heads, dropout: Linear(Rectified(4, 5)),
    "linformer, rank 2": lambda heads, dropout: Linformer(96, 2, dropout=dropout),
    "nystrom, 2 landmarks": lambda heads, dropout: Nystrom(2, residual=ValueConvolution(heads, 3)),
    "random_synthesizer, fixed": lambda heads, dropout: RandomSynthesizer(heads, 96, learned=False, dropout=dropout),
    "reformer, chunks of 2": lambda heads, dropout: Reformer(4, 96, chunk=2, dropout=dropout),
    "sinkhorn, blocks of 2": lambda heads, dropout: Sinkhorn(4, 96, 2, dropout=dropout),
}
# normalizers that are named with an option
OPTIONS = ("entmax:1.3", "top_k:2", "scalable:0.43", "sigmoid:-1.5", "sinks")
FAMILIES = {
    "mechanisms": mechanisms.names(),
    # another name of additive
    "scores": [name for name in scores.SCORES if name != "concat"],
    "normalizers": (*normalizers.NORMALIZERS, *OPTIONS),
    "masks": MASKS,
    "positions": positions.names(),
}
NAMES = [*SMALL, *(f"{family}.{name}" for family, names in FAMILIES.items() for name in names)]
# what a score, a normalizer or a small build may break; the rest is of the mechanism around it
PARTS = ("weights", "empty", "hidden", "gradients", "kernels", "huge", "types")
# {name: {invariant: why it does not hold}}; each of these must truly fail, or its line has to go
SKIPPED = {
    "mechanisms.sinkhorn": {
        "layer": "the bias of its outer layer, which the paper has, cancels in the first balancing of columns"
    },
    "normalizers.relu2": {"huge": "the square of a score of 1e30 is beyond float32, and its infinities cancel"},
}


@cache
def subject(name):
    return Subject(name, SMALL[name]) if name in SMALL else resolve(name)


def wanted(name):
    return () if name.startswith(("mechanisms.", "masks.", "positions.")) else PARTS


@pytest.mark.parametrize("name", NAMES)
def test_it_keeps_its_promises(name):
    verdicts = list(certify(subject(name), only=wanted(name), quick=True))
    failed = {verdict.id: f"{verdict.reason} in {verdict.example}" for verdict in verdicts if verdict.state == "fails"}
    assert failed.keys() == SKIPPED.get(name, {}).keys(), failed
    assert len(verdicts) == len(wanted(name) or invariants(subject(name)))


def test_every_mask_and_every_option_is_tried():
    assert set(SAMPLES) == set(MASKS)
    with_option = set(normalizers.catalogue()) - set(normalizers.NORMALIZERS)
    assert with_option <= {option.partition(":")[0] for option in OPTIONS}


# what does not apply is a promise not made: a change here is a change of promises
PROMISES = {
    "scored": 22,
    "differential": 20,
    "talking_heads": 20,
    "linear": 20,
    "performer": 20,
    "retention": 19,
    "gated_linear": 19,
    "based": 20,
    "hedgehog": 20,
    "cosformer": 19,
    "delta_rule": 19,
    "gated_delta": 19,
    "kimi_delta": 19,
    "mamba2": 19,
    "log_linear": 19,
    "hgrn2": 19,
    "mlstm": 19,
    "rwkv6": 19,
    "rwkv7": 19,
    "dense_synthesizer": 19,
    "random_synthesizer": 19,
    "reformer": 17,
    "location_aware": 17,
    "linformer": 16,
    "nystrom": 16,
    "sinkhorn": 16,
    "forgetting": 18,
    "moba": 18,
    "multi_token": 18,
    "inverted": 17,
    "lightning_indexer": 17,
    "native_sparse": 18,
    "path": 18,
    "selective": 18,
    "stick_breaking": 18,
}


def test_as_many_promises_are_made_as_were():
    made = {}
    for name in mechanisms.names():
        one = subject(f"mechanisms.{name}")
        tried = [
            each for each in invariants(one) if each.applies(one) is None and next(iter(each.cases(one, True)), None)
        ]
        made[name] = len(tried)
    assert made == PROMISES
