"""The table of costs and advice from it: known powers between sizes, refusals, what a stream keeps."""

import math

import pytest

from headwise.compare.measured import Measurement, add_to_table, advise, estimate, measure, read_table, state_bytes
from headwise.compare.subjects import subject
from headwise.errors import ConfigError, DataError


def row(name, length, width, seconds, peak=1000, processor="p", **facts):
    times = [seconds, 2 * seconds, 1.5 * seconds]
    return Measurement(
        name=name, kernel="", length=length, width=width, device="cpu", processor=processor, threads=1, operations=1,
        seconds=times, peak_bytes=peak, state_bytes=None, release="0", **facts,
    )  # fmt: skip


def grid(name, seconds, lengths=(64, 256), widths=(16, 64), peak=lambda n, d: 100 * n):
    return [row(name, n, d, seconds(n, d), peak(n, d)) for n in lengths for d in widths]


QUADRATIC = grid("scored", lambda n, d: 1e-9 * n * n * d)
LINEAR = grid("linear", lambda n, d: 1e-9 * n * d * d, peak=lambda n, d: 10 * d * d)


def test_a_power_is_met_between_the_sizes():
    # powers are lines in logarithms, in both sizes at once
    for length, width in ((64, 16), (100, 16), (64, 30), (128, 32), (256, 64)):
        found = estimate(QUADRATIC, length, width)
        assert found.seconds == pytest.approx(1e-9 * length**2 * width)
        assert found.peak_bytes == pytest.approx(100 * length)
        assert found.measured == ((length, width) in ((64, 16), (256, 64)))
        assert min(found.draws) == pytest.approx(found.seconds)


@pytest.mark.parametrize(
    ("length", "width", "message"),
    [(63, 16, "63 tokens lie outside"), (64, 65, "a width of 65"), (257, 99, "257 tokens")],
)
def test_outside_of_what_was_measured_is_refused(length, width, message):
    with pytest.raises(ConfigError, match=f"scored: {message}"):
        estimate(QUADRATIC, length, width)
    with pytest.raises(ConfigError, match=r"measure it: headwise complexity .* --fixed"):
        advise(QUADRATIC, length, width, 1 << 30)


def test_the_fastest_that_fits_comes_first_and_others_say_why_not():
    # n < d: attention is faster; n > d: the linear form
    short = advise([*QUADRATIC, *LINEAR], 64, 64, 1 << 30)
    assert [found.name for found in advise([*QUADRATIC, *LINEAR], 256, 16, 1 << 30).fits] == ["linear", "scored"]
    assert {found.name for found in short.fits} == {"scored", "linear"}
    tight = advise([*QUADRATIC, *LINEAR], 256, 16, 5000)
    assert [found.name for found in tight.fits] == ["linear"]
    assert tight.refused["scored"] == "needs 25,600 bytes, and there are 5,000"
    assert advise([*QUADRATIC, *LINEAR], 256, 16, 10).fits == []


def test_a_stream_is_judged_by_what_it_keeps():
    rows = [*QUADRATIC, *LINEAR, *grid("cnn", lambda n, d: 1e-9)]
    found = advise(rows, 256, 16, 2000, streaming=True)
    assert [one.name for one in found.fits] == ["linear"]
    assert found.refused["cnn"] == "needs all tokens at once"
    assert found.refused["scored"].startswith(f"keeps {2 * 256 * 16 * 4:,} bytes")


def test_the_front_is_drawn_from_the_rounds():
    # of the same least time, and less memory: the other is on the front only where its draw is the faster one
    rows = [*grid("a", lambda n, d: 1.0, peak=lambda n, d: 10), *grid("b", lambda n, d: 1.0, peak=lambda n, d: 9)]
    front = advise(rows, 100, 20, 100).front
    assert front["b"] == 1.0
    assert 0.0 < front["a"] < 0.5
    assert advise([*QUADRATIC, *LINEAR], 256, 16, 1 << 30).front == {"scored": 0.0, "linear": 1.0}


def test_an_empty_table_and_another_device_say_how_to_measure():
    for table in ([], QUADRATIC):
        with pytest.raises(ConfigError, match="nothing was measured on cuda; measure it: headwise complexity"):
            advise(table, 64, 16, 1, device="cuda")


def test_the_latest_measurement_of_a_size_counts(tmp_path):
    path = tmp_path / "m.jsonl"
    add_to_table(path, [row("scored", 64, 16, 1.0), row("linear", 64, 16, 1.0)])
    add_to_table(path, [row("scored", 64, 16, 2.0), row("scored", 64, 16, 9.0, processor="q")])
    table = read_table(path)
    assert [(one.name, one.processor, one.seconds[0]) for one in table] == [
        ("scored", "p", 2.0), ("linear", "p", 1.0), ("scored", "q", 9.0)
    ]  # fmt: skip
    path.write_text("{}\n")
    with pytest.raises(DataError, match=r"m\.jsonl:1: is no measurement"):
        read_table(path)
    assert read_table(tmp_path / "none") == []


def test_a_measurement_has_every_cost():
    found = measure(subject("scored"), 32, 8, rounds=2)
    assert (found.operations, len(found.seconds)) == (4 * 32 * 32 * 8, 2)
    assert min(found.seconds) > 0
    assert found.state_bytes == 2 * 32 * 8 * 4
    assert found.kernel in ("fused", "plain")


@pytest.mark.parametrize("name", ["linear", "retention", "gated_linear", "rnn", "gru", "lstm", "causal-cnn"])
def test_what_has_a_fixed_state_keeps_the_same_at_every_length(name):
    assert state_bytes(subject(name), 10, 16) == state_bytes(subject(name), 10_000, 16) > 0


def test_keys_and_values_grow_with_the_length():
    for name in ("scored", "plain", "talking_heads"):
        assert state_bytes(subject(name), 1000, 16) == 1000 * 2 * 16 * 4
    assert state_bytes(subject("nystrom"), 10, 16) is None
    assert math.isfinite(state_bytes(subject("lstm"), 1, 4))
