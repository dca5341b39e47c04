"""Forecasts on tiny series: from files to windows, losses, scores against baselines, run folders and back."""

import json

import numpy as np
import pytest
import torch
from life import baselines_of, batch_of, built_of, fitted, restored, scores_of, task_of

from headwise.config import build
from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError, Unsupported
from headwise.tasks import registry
from headwise.tasks.series.data import Series, Window
from headwise.tasks.series.forecast import Forecast, ForecastConfig
from headwise.tasks.task import Assets, Given

ATTENTION = {"kind": "attention", "d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "dropout": 0.0}
STEPWISE = {
    "kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 1, "dropout": 0.0, "position": "rotary",
}  # fmt: skip


def rows(count=120, scale=1.0, shift=0.0):
    """A zigzag of period four with a slope, and half of it."""
    zigzag = [(step % 4) + step / 40 for step in range(count)]
    return [(scale * value + shift, value / 2) for value in zigzag]


def write(path, values, heading="x,y"):
    path.write_text("\n".join([heading, *(",".join(repr(float(cell)) for cell in row) for row in values)]) + "\n")


@pytest.fixture
def make(tmp_path):
    write(tmp_path / "s.csv", rows())

    def made(model=ATTENTION, data=None, **fields):
        values = {"data": {"train": str(tmp_path / "s.csv")} | (data or {}), "model": model, "length": 6, "horizon": 3}
        return task_of("forecast", values | fields)

    return made


def test_is_found_by_name_and_tells_baselines(make):
    assert registry.task_type("forecast") is Forecast
    notes = make(data={"season": 4}).assets.notes
    assert "train: 84 steps in 1 series, 76 windows" in notes
    assert "valid: 12 steps in 1 series, 10 windows" in notes
    # four steps further on the slope has risen by a tenth; the history holds the season
    (told,) = (note for note in notes if note.startswith("test: MSE"))
    assert "season 0.005953" in told
    assert "last" in told
    assert "the windows of training do not determine the linear baseline; it is held towards zero (ridge)" in notes


def test_an_encoder_is_validated_by_one_pass(make):
    task = make()
    model, passes = built_of(task).eval(), []
    hook = model.register_forward_hook(lambda *_: passes.append(1))
    batch = batch_of(task, "valid")
    with torch.no_grad():
        found = task.summarise(task.measure(model, [batch]))
        hook.remove()
        loss = float(task.loss(model, batch)) / batch.num_tokens
    assert len(passes) == 1
    assert found["loss"] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("model", [ATTENTION, STEPWISE])
def test_loss_and_scores_by_hand(make, model):
    task = make(model, data={"targets": ["y"]})
    built = built_of(task).eval()
    train, valid = (batch_of(task, part) for part in ("train", "valid"))
    with torch.no_grad():
        if model is ATTENTION:
            wanted = (built(valid.rows[:, :6]) - valid.rows[:, 6:, [1]]).square().sum()
            assert (train.num_counted, train.num_tokens, valid.num_tokens) == (3, 76 * 3, 10 * 3)
        else:
            said = built.predict_next(valid.rows[:, :-1])
            wanted = (said[:, -3:] - valid.rows[:, -3:]).square().sum()
            assert (train.num_counted, train.num_tokens, valid.num_tokens) == (8, 76 * 8 * 2, 10 * 3 * 2)
        torch.testing.assert_close(task.loss(built, valid), wanted)
    scores, predictor = scores_of(task, built), task.predictor(built)
    examples = task.examples(task.config, "valid")
    values = np.array(rows())[:, [1]]
    assert [one.place for one in examples] == list(range(84, 94))
    told = np.stack([predictor.predict(Series("", ("x", "y"), np.array(rows())[: one.place]))[0] for one in examples])
    gold = np.stack([values[one.place : one.place + 3] for one in examples])
    found = predictor.evaluate(examples)
    assert found["mae"] == pytest.approx(np.abs(told - gold).mean())
    assert found["mse"] == pytest.approx(np.square((told - gold) / task.scaling.units).mean())
    before = np.stack([values[one.place - 1 : one.place] for one in examples])
    beside = baselines_of(task, built, examples)
    assert beside["last value"]["mae"] == pytest.approx(np.abs(before - gold).mean())
    assert {name: scores[name] for name in ("mse", "mae")} == pytest.approx(
        {name: found[name] for name in ("mse", "mae")}, rel=1e-4
    )
    assert list(scores) == [metric.name for metric in task.metrics]
    with pytest.raises(DataError, match="there is nothing to score"):
        predictor.evaluate([])
    with pytest.raises(DataError, match=r"the series: place 5 has no 6 steps before it and 3 from it on; leave it out"):
        predictor.evaluate([Window(examples[0].series, 5)])


@pytest.mark.parametrize("model", [ATTENTION, STEPWISE])
def test_shifted_and_scaled_series_have_shifted_and_scaled_forecasts(make, model, tmp_path):
    one = make(model)
    write(tmp_path / "s.csv", rows(scale=50.0, shift=1e4))
    two = make(model)
    built = built_of(one).eval()
    first, second = (task.predictor(built).predict(str(tmp_path / "s.csv"))[0] for task in (one, two))
    # the file that both read is the second one
    write(tmp_path / "s.csv", rows())
    (first,) = one.predictor(built).predict(str(tmp_path / "s.csv"))
    np.testing.assert_allclose(second[:, 0], 50 * first[:, 0] + 1e4, rtol=1e-4)
    assert not np.allclose(first[:, 0], first[0, 0])


@pytest.mark.parametrize("model", [ATTENTION, STEPWISE])
def test_only_the_latest_steps_of_each_series_count(make, model):
    task = make(model)
    predictor = task.predictor(built_of(task).eval())
    values = np.array(rows())
    changed = values.copy()
    changed[:-6] = 77.0
    one, two = (Series(name, ("x", "y"), found) for name, found in (("a", values), ("b", changed)))
    alone = predictor.predict(one)[0]
    np.testing.assert_allclose(predictor.predict([two, one, one])[0], alone, rtol=1e-5)
    np.testing.assert_allclose(predictor.predict([two, one, one])[2], alone, rtol=1e-5)
    changed[-6] = 78.0
    assert not np.allclose(predictor.predict(two)[0], alone)


@pytest.mark.parametrize("model", [ATTENTION, STEPWISE])
def test_more_steps_read_what_was_told(make, model):
    task = make(model, data={"targets": ["y", "x"]})
    predictor = task.predictor(built_of(task).eval())
    values = np.array(rows())
    (seven,) = predictor.predict(Series("", ("x", "y"), values), predictor.options({"steps": 7}))
    steps = values
    for _ in range(3):
        (told,) = predictor.predict(Series("", ("x", "y"), steps))
        steps = np.concatenate((steps, told[:, ::-1]))
    np.testing.assert_allclose(seven, steps[120:127, ::-1], rtol=1e-4)
    assert predictor.predict(Series("", ("x", "y"), values), 2)[0].shape == (2, 2)
    assert predictor.options({}) is None
    with pytest.raises(ConfigError, match="this model has no option --beam: remove it"):
        predictor.options({"beam_size": 3, "steps": 2})
    fewer = make(model, data={"targets": ["y"]})
    with pytest.raises(ConfigError, match=r"tells 3 steps, and not all columns that it reads, .* ask for at most 3"):
        fewer.predictor(built_of(fewer)).options({"steps": 4})
    with pytest.raises(ConfigError, match=r"steps \(100,001\) must be at most 100,000; forecast that many at a time"):
        predictor.options({"steps": 100_001})
    with pytest.raises(ConfigError, match=r"steps \(0\) must be 1 or more"):
        predictor.predict(Series("", ("x", "y"), values), 0)


@pytest.mark.parametrize("model", [{**ATTENTION, "d_model": 16}, {**STEPWISE, "d_model": 16}])
def test_it_learns_what_comes_next(make, model, tmp_path):
    write(tmp_path / "s.csv", [(step % 4, (step % 4) ** 2) for step in range(120)])
    task = make(model)
    learned, examples = fitted(task, 120, Limits(400), 1e-2), task.examples(task.config, "test")
    scores = task.predictor(learned).evaluate(examples)
    assert scores["mse"] < 0.02 * baselines_of(task, learned, examples)["last value"]["mse"]


def test_numbers_files_and_names_are_read(make, tmp_path):
    task = make()
    predictor = task.predictor(built_of(task).eval())
    one = predictor.parse("1 2; 3,4 ;5, -6e-1;")
    assert one.values.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, -0.6]]
    with pytest.raises(DataError, match=r"the series is too short \(3\): the model reads 6 steps; give it that many"):
        predictor.predict(one)
    for text, message in [
        ("1 2; 3", r"'3': no such file, and no 2 numbers for x, y; give a file, or rows such as '1 2; 3 4'"),
        ("none.csv", r"'none.csv': no such file, and no 2 numbers for x, y"),
        (
            "1 two",
            r"'two' is no number; write it with digits and a point, such as -0.5 or 1e-3 \(or give the name of a",
        ),
        ("", r"'': no such file"),
    ]:
        with pytest.raises(ConfigError, match=message):
            predictor.parse(text)
    several = "id,y,x\n" + "".join(f"{name},{step},0\n" for step in range(7) for name in "ab")
    (tmp_path / "t.csv").write_text(several)
    named = make(data={"series": "id", "train": str(tmp_path / "t.csv"), "test_fraction": 0.0, "valid_fraction": 0.0},
                 length=2, horizon=1)  # fmt: skip
    reader = named.predictor(built_of(named).eval())
    assert [found.name for found in reader.read(tmp_path / "t.csv")] == ["a", "b"]
    assert reader.parse(f"{tmp_path / 't.csv'}#b").name == "b"
    with pytest.raises(ConfigError, match=r"t.csv holds 2 series; say which one, as .*t.csv#NAME: a, b"):
        reader.parse(str(tmp_path / "t.csv"))
    # a name may hold what stands before that of a series; a series that is not there is not another one
    (tmp_path / "t#b.csv").write_text("".join(line for line in several.splitlines(keepends=True) if line[0] != "b"))
    assert reader.parse(str(tmp_path / "t#b.csv")).name == "a"
    (tmp_path / "t#b.csv").replace(tmp_path / "t.csv")
    with pytest.raises(ConfigError, match=r"t.csv holds 1 series; say which one, as .*t.csv#NAME: a"):
        reader.parse(f"{tmp_path / 't.csv'}#b")
    (tmp_path / "u.csv").write_text("id,y,x\na,1,0\na,2,0\n")
    assert reader.parse(str(tmp_path / "u.csv")).name == "a"
    with pytest.raises(ConfigError, match=r"u.csv holds 1 series; say which one, as .*u.csv#NAME: a"):
        reader.parse(f"{tmp_path / 'u.csv'}#b")
    with pytest.raises(ConfigError, match=r"s.csv holds one series, which has no name; leave #b out"):
        predictor.parse(f"{tmp_path / 's.csv'}#b")
    (tmp_path / "s#b.csv").write_text("x,y\n7,8\n")
    assert predictor.parse(str(tmp_path / "s#b.csv")).values.tolist() == [[7.0, 8.0]]
    alone = make(data={"columns": ["y"]})
    assert alone.predictor(built_of(alone)).parse("1 2,3").values.ravel().tolist() == [1.0, 2.0, 3.0]


def test_rows_that_are_written(make):
    task = make()
    predictor = task.predictor(built_of(task).eval())
    told = np.array([[1.0, -2.5], [1 / 3, 4.0]])
    plain = Series("", ("x", "y"), np.zeros((2, 2)))
    assert predictor.write(plain, told, "text") == ["+1\t1\t-2.5", "+2\t0.333333\t4"]
    timed = Series("a\tb", ("x", "y"), np.zeros((2, 2)), np.array([0.0, 5.0]))
    assert predictor.write(timed, told, "text")[0].endswith("\t10\t1\t-2.5")
    (line,) = predictor.write(timed, told, "json")
    assert json.loads(line) == {
        "series": "a\tb", "time": ["10", "15"], "forecast": {"x": [1.0, 1 / 3], "y": [-2.5, 4.0]}
    }  # fmt: skip
    assert task.samples(predictor.model)[0].startswith("x: ")
    assert make(num_shown=0).samples(predictor.model) == []


@pytest.mark.parametrize(
    ("pooling", "names"),
    [
        ({"kind": "attention"}, ["encoder.encoder.blocks.0.self_attention", "pooling.attention"]),
        ({"kind": "max"}, ["pooling", "encoder.encoder.blocks.0.self_attention"]),
        ({"kind": "cls"}, ["encoder.encoder.blocks.0.self_attention"]),
        ({"kind": "last"}, ["encoder.encoder.blocks.0.self_attention"]),
    ],
)
def test_explain_shows_the_steps_of_the_history(make, pooling, names, tmp_path):
    task = make(pooling=pooling)
    predictor = task.predictor(built_of(task).eval())
    found = predictor.explain(str(tmp_path / "s.csv"))
    assert list(found.layers) == names
    assert found.row_error < 1e-6
    front = ["<cls>"] * (pooling["kind"] == "cls")
    assert all(layer.keys == [*front, "-5", "-4", "-3", "-2", "-1", "0"] for layer in found.layers.values())
    assert found.draw.reads == {"cls": 0, "last": -1}.get(pooling["kind"])
    assert found.source == "the series, steps 112 to 117"
    # the last three steps are held back, so that the forecast can be compared
    (told,) = predictor.predict(Series("", ("x", "y"), np.array(rows())[:117]))
    np.testing.assert_allclose(found.draw.ahead, told)
    np.testing.assert_allclose(found.draw.truth, np.array(rows())[117:])
    np.testing.assert_allclose(found.draw.past, np.array(rows())[111:117])
    assert found.write(tmp_path / "drawn", every=True)
    short = predictor.explain(Series("", ("x", "y"), np.array(rows())[:8]))
    assert short.draw.truth is None
    with pytest.raises(ConfigError, match="the forecast of a series cannot be given here"):
        predictor.explain(str(tmp_path / "s.csv"), "1 2")


def test_explain_shows_what_each_step_of_a_forecast_looks_at(make, tmp_path):
    task = make(STEPWISE)
    predictor = task.predictor(built_of(task).eval())
    found = predictor.explain(str(tmp_path / "s.csv"))
    (layer,) = found.layers.values()
    assert (layer.queries, layer.keys[-3:]) == (["+1", "+2", "+3"], ["0", "+1", "+2"])
    assert layer.weights.shape == (2, 3, 8)
    # a step sees what was told before it and no more
    assert (layer.weights[:, 0, 6:] == 0).all()
    assert (layer.weights[:, 1, 7:] == 0).all()
    assert (layer.weights[:, 2] > 0).all()


def test_a_model_without_attention_says_so(make, tmp_path):
    task = make({"kind": "rnn", "d_model": 4, "hidden_dim": 4})
    with pytest.raises(Unsupported, match=r"a forecaster with these or with model.kind=decoder"):
        task.predictor(built_of(task).eval()).explain(str(tmp_path / "s.csv"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data": {"train": "s.csv", "season": 7}}, r"data.season \(7\) must be at most length \(6\): its baseline"),
        ({"model": {**STEPWISE, "position": "learned", "max_len": 8}}, r"model.max_len \(8\) must be at least length"),
        ({"model": {"kind": "cnn"}, "pooling": {"kind": "cls"}}, 'pooling.kind = "cls" needs a first place'),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_keys_that_do_not_fit(fields, message):
    values = {"data": {"train": "s.csv"}, "model": ATTENTION, "length": 6, "horizon": 3} | fields
    with pytest.raises(ConfigError, match=message):
        build(ForecastConfig, values, "recipe")


def test_files_of_a_run_go_on_with_other_data(make, tmp_path):
    task = make()
    write(tmp_path / "s.csv", rows(scale=9.0))
    given = Forecast.prepare_with(task.config, Given(task.assets.files))
    assert given.files == task.assets.files
    assert Forecast.prepare(task.config).files != task.assets.files
    assert restored(task, built_of(task).eval()).predict(str(tmp_path / "s.csv"))[0].shape == (3, 2)
    write(tmp_path / "s.csv", rows(), "x,z")
    with pytest.raises(DataError, match=r"the series: unknown column 'y'; .*; the model reads it"):
        Forecast.prepare_with(task.config, Given(task.assets.files))


@pytest.mark.parametrize("name", ["columns.json", "linear.npy"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\x93NUMPY", None])
def test_damaged_files_are_named(make, name, content):
    task = make()
    files = {**task.assets.files, name: content}
    if content is None:
        del files[name]
    with pytest.raises(CheckpointError, match=rf"{name}.*; restore it from a copy of the run"):
        Forecast(task.config, Assets(files))


def test_parts_without_windows(make):
    task = make(data={"valid_fraction": 0.0})
    assert task.source("valid", Limits(99)) is None
    assert task.examples(task.config, "valid") == []
    assert make(data={"valid_fraction": 0.0, "test_fraction": 0.0}).examples(task.config, "train")


def test_a_file_of_its_own_without_windows_is_named(make, tmp_path):
    task = make()
    write(tmp_path / "short.csv", rows(8))
    data = task.config.data.model_copy(update={"test": str(tmp_path / "short.csv")})
    with pytest.raises(
        DataError, match=r"short.csv: no window of 9 steps, .*its longest series has 8; give more steps"
    ):
        task.examples(task.config.model_copy(update={"data": data}), "test")


def test_an_autoregression_is_a_baseline(make):
    task = make(data={"season": 4})
    examples = task.examples(task.config, "test")
    found = baselines_of(task, built_of(task), examples)
    assert list(found)[:3] == ["last value", "season", "linear"]
    (name,) = list(found)[3:]
    # a tenth more than four steps before
    assert name in ("AR(4)", "AR(5)", "AR(6)")
    assert found[name]["mse"] < 1e-6
