"""Every error has its exit code; an unknown name is answered with the nearest one."""

import pytest

from headwise import errors

CODES = {
    "HeadwiseError": 1,
    "ConfigError": 2,
    "ShapeError": 2,
    "Unsupported": 2,
    "Untrusted": 2,
    "DataError": 3,
    "CheckpointError": 4,
    "MachineError": 5,
    "OutOfMemory": 5,
    "Diverged": 6,
    "RunBusy": 7,
}


def test_exit_codes():
    kinds = {
        name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)
    }
    # a warning ends nothing
    assert issubclass(kinds.pop("QuotingWarning"), UserWarning)
    assert {name: kind.exit_code for name, kind in kinds.items()} == CODES
    assert all(issubclass(kind, errors.HeadwiseError) for kind in kinds.values())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fuzed", "unknown kernel 'fuzed'; did you mean 'fused'?"),
        ("Plain", "unknown kernel 'Plain'; did you mean 'plain'?"),
        ("zzz", "unknown kernel 'zzz'; known: eager, fused, plain"),
        ("", "unknown kernel ''; known: eager, fused, plain"),
    ],
)
def test_unknown_names(name, message):
    assert errors.unknown("kernel", name, ["plain", "fused", "eager"]) == message
    # whatever it is asked with, order does not matter
    assert errors.unknown("kernel", name, dict.fromkeys(["eager", "fused", "plain"])) == message


def test_of_very_many_known_names_the_first_are_told():
    told = errors.unknown("node", "zzz", [f"n{number:04}" for number in range(3000)])
    assert told.endswith("n0078, n0079 and 2,920 more")
