"""What holds for every task: batches say what single inputs say, losses add up, runs resume to the same bits."""

import builtins
import contextlib
import dataclasses
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from life import built_of, trained_and_resumed
from tiny_tasks import CASES, Tiny

from headwise.attention.masks import Window
from headwise.config import build
from headwise.data.sources import Limits
from headwise.errors import HeadwiseError, Unsupported
from headwise.explain.explanation import Explained, Explanation
from headwise.explain.reel import Reel
from headwise.explain.trace_formats import FORMS, format_trace
from headwise.explorer.traces import axes as axes_of
from headwise.explorer.traces import traced
from headwise.predictors.intervals import compare_scores
from headwise.predictors.predictor import Predictor
from headwise.predictors.rows import Rows
from headwise.predictors.watched_heads import steps
from headwise.records import Narrow, edit
from headwise.records.watching import layers
from headwise.runs.film import Film
from headwise.service.loaded import LoadedRun
from headwise.tasks import registry
from headwise.tasks.task import Task

NAMES = sorted(CASES)


@dataclasses.dataclass(frozen=True)
class Life:
    """A run that nobody interrupted, one that was resumed, and the scores of both."""

    case: Tiny
    task: Task
    one: Predictor
    two: Predictor
    scores: dict[str, float]

    @property
    def items(self):
        """The inputs of the case, parsed."""
        return [self.one.parse(text) for text in self.case.inputs]


@pytest.fixture(scope="module", params=NAMES)
def run(request, tmp_path_factory):
    """A run of each task, trained in one go and in two."""
    folder = tmp_path_factory.mktemp("run")
    before = os.getcwd()
    os.chdir(folder)
    try:
        case = CASES[request.param]
        recipe = case.whole(folder, 6)
        kind = registry.task_type(case.task)
        names = [metric.name for metric in kind.metrics]
        one, two, scores = trained_and_resumed(recipe, folder, names)
        config = build(kind.config_type, {key: recipe[key] for key in case.recipe}, "recipe")
        yield Life(case, kind(config, kind.prepare(config)), one, two, scores)
    finally:
        os.chdir(before)


def test_its_baselines_are_scored_by_the_names_of_its_metrics(run):
    examples = run.task.examples(run.task.config, "valid")
    found = [*run.one.baselines(examples), *type(run.task).baselines(run.task.config, run.one, examples)]
    metrics = {metric.name for metric in run.task.metrics}
    assert all(one.scores.keys() & metrics for one in found)
    assert bool(found) == (run.case.task not in ("translate", "dialogue", "transcribe"))
    assert len({one.name for one in found}) == len(found)


def test_every_task_of_the_package_is_here():
    assert {case.task for case in CASES.values()} == set(registry.task_names())


def test_a_resumed_run_predicts_the_same(run):
    assert_close(run.one.predict(run.items), run.two.predict(run.items), exact=True)


FILMED = {"classify", "dialogue", "language-model", "masked-lm", "summarise", "tag", "translate", "graph-regress"}


def test_where_there_are_inputs_to_name_a_film_is_recorded(run):
    # the resumed run has one, and is the other's equal all the same
    steps = Film.read(Path("part")).steps
    if run.case.task in FILMED and any(layers(run.two.model)):
        assert steps == [0, 2, 3, 4, 6]
        assert Reel("part").curves(next(iter(Reel("part").layers))).shape[:2] == (5, 5)
    if not any(layers(run.two.model)):
        assert steps == []


def test_a_loaded_run_has_the_scores_of_its_last_validation(run):
    of_examples(run)
    told = run.one.evaluate(run.task.examples(run.task.config, "valid"))
    common = run.scores.keys() & told.keys()
    assert common
    assert {name: told[name] for name in common} == pytest.approx({name: run.scores[name] for name in common}, rel=1e-4)


def test_every_score_of_rows_is_that_of_the_predictor(run, tmp_path):
    of_examples(run)
    examples = run.task.examples(run.task.config, "valid")
    scores, rows = run.one.evaluate_each(examples)
    assert scores == pytest.approx(run.one.evaluate(examples), nan_ok=True)
    own = {name: rows.value(name) for name in rows.metrics}
    assert own == pytest.approx({name: scores[name] for name in own}, rel=1e-5, nan_ok=True)
    rows.save(tmp_path / "rows.jsonl")
    read = Rows.read(tmp_path / "rows.jsonl")
    assert {name: read.value(name) for name in read.metrics} == pytest.approx(own, nan_ok=True)
    # another model of the same task is asked the same
    compared = compare_scores(read.resampled(), run.two.evaluate_each(examples).rows.resampled())
    assert compared["difference"] == pytest.approx(0, abs=1e-6)


def test_what_a_decoder_keeps_is_counted_where_there_is_one(run):
    of_examples(run)
    examples = run.task.examples(run.task.config, "valid")
    writes = type(run.one).state_bytes is not Predictor.state_bytes
    assert writes == (type(run.one).draft is not Predictor.draft)
    if writes:
        assert run.one.state_bytes(examples) >= run.one.state_bytes(examples[:1]) > 0
    else:
        with pytest.raises(Unsupported, match="keeps nothing from step to step"):
            run.one.state_bytes(examples)


def test_a_validation_of_few_examples_is_of_those_that_it_selects(run):
    of_examples(run)
    source = run.task.source("valid", Limits(99, examples=3))
    with torch.no_grad():
        told = run.task.summarise(run.task.measure(run.one.model, source.once()))
    examples = run.task.select(run.task.examples(run.task.config, "valid"), 3)
    found = run.one.evaluate(examples)
    common = told.keys() & found.keys()
    assert common
    # `summarise` of the loss of a caption counts all that are drawn, `evaluate` all of an image
    common -= {"loss", "perplexity", "accuracy"} if run.case.task == "caption" else set()
    assert {name: found[name] for name in common} == pytest.approx({name: told[name] for name in common}, rel=1e-4)


def test_inputs_side_by_side_do_not_hear_of_each_other(run):
    one, items = run.one, run.items
    single = [one.predict([item])[0] for item in items]
    assert_close(one.predict(items), single)
    assert_close(one.predict([*items[::-1], items[0]]), [*single[::-1], single[0]])
    assert list(one.predict([])) == []
    for item, output in zip(items, single, strict=True):
        (line,) = one.write(item, output, "json")
        json.loads(line)
        assert one.write(item, output, "text")


def test_only_what_says_so_opens_a_file_that_an_input_names(run, tmp_path):
    path = tmp_path / "there"

    def parsed():
        try:
            return type(run.one.parse(str(path)))
        except HeadwiseError as error:
            return str(error)

    before = parsed()
    path.write_text("1 2\n")
    assert run.one.reads == ("text" if parsed() == before else "file")


def test_losses_of_single_examples_add_up(run):
    of_examples(run)
    model = built_of(run.task).eval()

    def total(**limits):
        source = run.task.source("valid", Limits(**limits))
        found = [(run.task.loss(model, batch).item(), batch.num_tokens) for batch in source.once()]
        return math.fsum(loss for loss, _ in found), sum(count for _, count in found)

    with torch.no_grad():
        together, alone = total(tokens=10_000), total(tokens=10_000, sentences=1)
    assert together[1] == alone[1]
    assert together[0] == pytest.approx(alone[0], rel=1e-5)


def test_a_loss_over_nothing_is_no_number(run):
    # zero would be the best of all losses, and the model of that validation would be kept
    if run.case.task not in ("graph-regress", "language-model", "rank", "regress"):
        # of the others every example counts
        assert math.isnan(run.task.summarise({})["loss"])


def test_what_is_shown_of_attention_sums_to_one(run, tmp_path):
    try:
        found = run.one.explain(run.items[-1])
    except Unsupported:
        pytest.skip("there is no attention to look at")
    assert isinstance(found, Explained)
    if isinstance(found, Explanation):
        assert found.row_error < 1e-5
    assert found.source
    assert found.lines()
    (path,) = found.write(tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_every_layer_says_which_pairs_its_mask_forbids(run):
    """No weight of a softmax is zero but where a mask forbids it, here one that leaves nothing but two neighbours."""
    narrowed = [Narrow(layer, Window(1, 1)) for layer in layers(run.one.model)]
    try:
        with edit(run.one.model, *narrowed):
            found = run.one.explain(run.items[-1])
    except Unsupported:
        pytest.skip("there is no attention to look at")
    if not isinstance(found, Explanation):
        pytest.skip("it shows labels alone")
    for name, layer in found.layers.items():
        if layer.kind == "tags" or name == "pooling":
            continue
        allowed = np.ones(layer.weights.shape, bool) if layer.allowed is None else layer.allowed
        np.testing.assert_array_equal(np.broadcast_to(allowed, layer.weights.shape), layer.weights > 0)


def test_an_example_of_the_data_is_an_input(run):
    parts = (run.task.examples(run.task.config, part) for part in ("test", "train"))
    example = next(part[0] for part in parts if part)
    try:
        item = run.one.input_of(example)
    except Unsupported:
        assert run.one.given == "text"
        return
    (output,) = run.one.predict([item])
    assert run.one.write(item, output, "json")


def test_the_explorer_shows_every_run_that_attends(run):
    item = run.items[-1]
    loaded = LoadedRun(run.case.task, run.case.task, run.one, (), "weights")
    try:
        explained = run.one.explain(item)
        found = traced(loaded, item, None, "the last input")
    except Unsupported:
        pytest.skip("there is no attention to look at")
    axes = axes_of(found)["axes"]
    for group in found.groups:
        shapes = {found.weights(layer).shape for layer in group.layers}
        assert shapes == {(group.heads, len(group.queries), len(group.keys))}
        assert axes[group.name]["keys"]["kind"] in ("tokens", "patches", "nodes", "frames", "steps")
    attended = [name for name, layer in explained.layers.items() if layer.kind != "tags"]
    assert not attended or sum(len(group.layers) for group in found.groups) >= 1


def test_the_steps_of_every_layer_end_in_the_weights_that_are_shown(run):
    text = run.case.inputs[-1]
    try:
        found = run.one.explain(run.one.parse(text))
    except Unsupported:
        pytest.skip("there is no attention to look at")
    if not isinstance(found, Explanation):
        with pytest.raises(Unsupported, match="no attention"):
            steps(run.one, run.one.parse(text), None)
        return
    for name, layer in found.layers.items():
        if name not in layers(run.one.model):
            continue
        for head in range(len(layer.weights)):
            told = steps(run.one, run.one.parse(text), None, name, head)
            weights = told["weights"].values
            assert told["output"].values.shape[0] == len(weights)
            if weights.shape == layer.weights[head].shape:
                np.testing.assert_allclose(weights, layer.weights[head], atol=1e-6)
            for form in FORMS:
                assert format_trace(told, form)


@pytest.mark.filterwarnings("ignore")
def test_what_reads_texts_opens_no_file_that_a_text_names(run, tmp_path, monkeypatch):
    """A service takes texts from anybody."""
    if run.one.reads == "file":
        pytest.skip("it reads files")
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    for owner in (builtins, io):
        monkeypatch.setattr(owner, "open", lambda *given, **named: pytest.fail(f"{given} was opened"))
    for text in (str(tmp_path / "secret.csv"), f"{tmp_path / 'secret.csv'}#secret", str(tmp_path), "/etc/passwd"):
        with contextlib.suppress(HeadwiseError):
            run.one.predict([run.one.parse(text)])


def of_examples(run):
    """Skips a run whose batches go on from each other, so that their number changes what is read."""
    if run.task.source("valid", Limits(99)).examples() is None:
        pytest.skip("what is read before is carried on")


def assert_close(one, two, exact=False):
    """The same texts, labels and shapes; numbers that are equal, or equal within rounding."""
    assert type(one) is type(two)
    if dataclasses.is_dataclass(one):
        one, two = dataclasses.astuple(one), dataclasses.astuple(two)
    if isinstance(one, float):
        assert one == two if exact else one == pytest.approx(two, rel=1e-4, abs=1e-5)
    elif isinstance(one, Mapping):
        assert set(one) == set(two)
        for key, value in one.items():
            assert_close(value, two[key], exact)
    elif isinstance(one, Sequence) and not isinstance(one, str):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_close(a, b, exact)
    elif hasattr(one, "shape"):
        assert_close(one.tolist(), two.tolist(), exact)
    else:
        assert one == two
