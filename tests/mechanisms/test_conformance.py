"""Every mechanism, score, normalizer, mask and position keeps every promise that it makes; exceptions are listed."""

from functools import cache

import pytest
from conformance_subjects import OPTIONS, SUBJECTS

from headwise.attention import normalizers
from headwise.attention.masks import MASKS
from headwise.certify import certify, invariants
from headwise.certify.mask_family import SAMPLES

# numbers are tried here; that annotations are kept to is tried everywhere else, and takes most of the time
pytestmark = pytest.mark.usefixtures("untyped")

# {subject: {invariant: why it does not hold}}; each of these must truly fail, or its line has to go
SKIPPED: dict[str, dict[str, str]] = {
    "sinkhorn": {
        "layer": "the bias of its outer layer, which the paper has, cancels in the first balancing of columns"
    },
}
# what a score or a normalizer may break; the rest, which is of the mechanism around it, is tried in the long run
PARTS = ("A1", "A2", "A3", "A4", "A8", "A12", "A13", "A19", "A20", "A23", "A24", "types", "strips", "shown")
# invariants of a kind of subject
NUMBERS = {"mechanism": 34, "score": 34, "normalizer": 34, "mask": 6, "position": 8}


def kind_of(name):
    return name.partition(" ")[0] if name.partition(" ")[0] in NUMBERS else "mechanism"


def params():
    for name, make in SUBJECTS.items():
        for one in invariants(make()):
            long = kind_of(name) in ("score", "normalizer") and one.id not in PARTS
            yield pytest.param(name, one.id, id=f"{name}-{one.id}", marks=[pytest.mark.slow] if long else [])


PAIRS = list(params())


@cache
def subject(name):
    return SUBJECTS[name]()


@pytest.mark.parametrize(("name", "id"), PAIRS)
def test_it_keeps_its_promise(name, id):
    (verdict,) = certify(subject(name), only=[id], quick=True)
    if id in SKIPPED.get(name, {}):
        assert verdict.state == "fails", f"{name} {id} now {verdict.state}: take it off the list"
    else:
        assert verdict.state != "fails", f"{verdict.reason}\nin the case: {verdict.example}"


@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_is_left_untried(name):
    assert len(invariants(subject(name))) == NUMBERS[kind_of(name)]
    assert set(SKIPPED.get(name, {})) <= {one.id for one in invariants(subject(name))}


def test_the_list_of_exceptions_names_what_there_is():
    assert set(SKIPPED) <= set(SUBJECTS)


def test_every_mask_and_every_option_is_tried():
    assert set(SAMPLES) == set(MASKS)
    with_option = {name for name in normalizers.catalogue() if name not in normalizers.NORMALIZERS}
    assert with_option <= {option.partition(":")[0] for option in OPTIONS}


# what does not apply is a promise not made: a change here is a change of promises
APPLY = {
    "scored": 33,
    "differential": 27,
    "talking_heads": 26,
    "linear": 26,
    "performer": 26,
    "location_aware": 22,
    "retention": 23,
    "gated_linear": 24,
    "dense_synthesizer": 24,
    "random_synthesizer": 24,
    "reformer": 21,
    "linformer": 20,
    "nystrom": 20,
    "sinkhorn": 20,
}


@pytest.mark.parametrize("name", APPLY)
def test_as_many_promises_are_made_as_were(name):
    assert sum(one.applies(subject(name)) is None for one in invariants(subject(name))) == APPLY[name]
