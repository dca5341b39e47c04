"""Programs of every task: equal to the run, of any size, or refused by name."""

import json

import numpy as np
import pytest
import torch
from life import steps
from tiny_tasks import CASES
from torch import nn

from headwise.attention.call import Call
from headwise.attention.mechanisms.scored import Scored
from headwise.cli.main import main
from headwise.errors import CheckpointError, ConfigError, Unsupported
from headwise.export import formats
from headwise.export.answers import alike, subject_of
from headwise.export.parity import Parity
from headwise.export.programs import Interface, Listed, Program, Traced, refuse_loops
from headwise.tasks.graphs.encoders import MeanConfig
from headwise.training.recipe import read_recipe
from headwise.training.train import train

REFUSED = {
    "translate, recurrent": r"model.kind = 'recurrent'",
    "regress": r"model.kind = 'rnn'",
    "language-model, with memory": r"model.memory_len = 6",
    "word-vectors": "table of vectors",
    "word-vectors, cbow": "table of vectors",
}
# one of each way to be called; the others are those of `slow`
ALL = [name for name in CASES if name not in REFUSED]


@pytest.fixture
def run_of(tmp_path, monkeypatch):
    def trained(name, **changed):
        monkeypatch.chdir(tmp_path)
        values = {**CASES[name].whole(tmp_path, 2), **changed, "training": steps(2)}
        train(read_recipe(values), tmp_path / "run")
        return tmp_path / "run"

    return trained


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_onnxruntime_answers_as_the_run_does(run_of, tmp_path, name, untyped):
    pytest.importorskip("onnxscript")
    parity = formats.export(run_of(name), "onnx", tmp_path / "out")
    assert parity.identical + parity.ties == parity.compared > 0
    assert parity.largest_difference <= 1e-5
    assert parity.metrics["onnx"] == pytest.approx(
        {name: parity.metrics["headwise"][name] for name in parity.metrics["onnx"]}, abs=1e-4, nan_ok=True
    )
    meta = json.loads((tmp_path / "out" / "meta.json").read_bytes())
    assert meta["task"] == CASES[name].task
    assert all((tmp_path / "out" / part["file"]).is_file() for part in meta["programs"].values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["caption", "graph-regress", "rank"])
def test_programs_of_pytorch_answer_as_the_run_does(run_of, tmp_path, name, untyped):
    options = {"attention": name != "rank"}
    parity = formats.export(run_of(name), "torch", tmp_path / "out", options=options)
    assert parity.identical == parity.compared > 0
    assert formats.check(tmp_path / "out").identical == parity.identical
    interfaces = json.loads((tmp_path / "out" / "meta.json").read_bytes())["programs"]
    assert any(part["attention"] for part in interfaces.values()) == options["attention"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["retention", "linear", "differential"])
def test_a_language_model_of_another_mechanism_goes_on_from_its_past(run_of, tmp_path, mechanism, untyped):
    pytest.importorskip("onnxscript")
    sizes = {"kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 1, "mechanism": mechanism}
    parity = formats.export(run_of("language-model", model=sizes), "onnx", tmp_path / "out")
    assert parity.identical == parity.compared > 0


@pytest.mark.slow
def test_a_language_model_with_local_layers_reads_its_past_again(run_of, tmp_path, untyped):
    sizes = {"kind": "decoder", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 2}
    run = run_of("language-model", model={**sizes, "local_mask": "window:left=3,right=0", "local_layers": "lg"})
    parity = formats.export(run, "torch", tmp_path / "out")
    assert parity.identical == parity.compared > 0
    programs = json.loads((tmp_path / "out" / "meta.json").read_text())["programs"]
    assert "past_tokens" in [entry["name"] for entry in programs["decoder"]["inputs"]]


@pytest.mark.slow
def test_what_is_exported_is_checked_or_not_there(run_of, tmp_path, untyped, capsys, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    run, out = run_of("tag"), tmp_path / "out"
    assert main(["export", str(run), "--to", "onnx", "--attention", "--quantization", "int8", str(out)]) == 0
    graph = onnx.load(out / "model.onnx")
    assert {node.op_type for node in graph.graph.node} & {"MatMulInteger", "DynamicQuantizeLinear"}
    # axes have names; weights are outputs that need not be asked for
    assert [dim.dim_param for dim in graph.graph.input[0].type.tensor_type.shape.dim] == ["batch", "length"]
    assert _weights_sum_to_one(out)
    (out / "model.onnx").write_bytes(b"no graph")
    assert main(["export", "--check", str(out)]) == 4
    assert "model.onnx: cannot be read" in capsys.readouterr().err
    (out / "meta.json").write_text(
        '{"programs": {"model": {"file": "../elsewhere.onnx", "inputs": [], "outputs": [], "attention": []}}}'
    )
    with pytest.raises(CheckpointError, match="no program of this folder"):
        formats.check(out)
    monkeypatch.setattr(
        "headwise.export.onnx.OnnxSession.run",
        lambda self, tensors: [torch.ones(len(tensors[0]), tensors[1].shape[1], 3)],
    )
    with pytest.raises(CheckpointError, match="outputs of the model differ by up to"):
        formats.export(run, "onnx", tmp_path / "other")
    assert not [path for path in tmp_path.iterdir() if "other" in path.name]


def _weights_sum_to_one(folder):
    """Of a batch of another size than any of the proof."""
    library = pytest.importorskip("onnxruntime")
    session = library.InferenceSession(str(folder / "model.onnx"))
    feed = {"tokens": np.full((1, 1), 5), "pieces": np.ones((1, 1), np.int64)}
    _, *weights = session.run(None, feed)
    return weights and all(layer.shape == (1, 2, 1, 1) and np.allclose(layer.sum(-1), 1) for layer in weights)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_what_loops_is_refused_by_its_key(run_of, tmp_path, name, format):
    if format == "onnx":
        pytest.importorskip("onnxscript")
    with pytest.raises(Unsupported, match=REFUSED[name]):
        formats.export(run_of(name), format, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_task_of_no_texts_is_refused_by_formats_of_texts(run_of, tmp_path):
    with pytest.raises(Unsupported, match="task tag cannot be exported to this format"):
        formats.export(run_of("tag"), "ctranslate2", tmp_path / "out")


def test_options_are_those_of_the_format(run_of, tmp_path):
    pytest.importorskip("onnxscript")
    run = run_of("image-classify")
    with pytest.raises(ConfigError, match="format torch has no option quantization"):
        formats.export(run, "torch", tmp_path / "out", options={"quantization": "int8"})
    with pytest.raises(ConfigError, match="unknown quantization 'int4'"):
        formats.export(run, "onnx", tmp_path / "out", options={"quantization": "int4"})
    with pytest.raises(Unsupported, match="no attention whose weights could be outputs: remove --attention"):
        formats.export(run, "onnx", tmp_path / "out", options={"attention": True})


def test_searches_are_compared_in_float32(run_of):
    subject = subject_of(run_of("translate"), None, None)
    assert subject.predictor.twin().choice(subject.model, "int8").precision == "fp32"


def test_what_draws_is_compared_greedily(run_of):
    drawn = {"method": "sample", "max_len": 6}
    subject = subject_of(run_of("dialogue", decoding=drawn), None, None, everything=True)
    answers = [subject.search(subject.cases()[:2]) for _ in range(2)]
    assert alike(*answers, 0.0)
    assert subject.predictor.translator.decoding.method == "greedy"


class _Doubled(Traced):
    def forward(self, tensors):
        return (2 * tensors[0],)


class _Fixed(Traced):
    def forward(self, tensors):
        return (tensors[0] + torch.arange(len(tensors[0])),)


def test_a_program_serves_any_size():
    rows = {"rows": ("batch", "length")}
    program, interface = Program("model", _Doubled(), {"rows": torch.ones(1, 5)}, rows, ("output",)).trace()
    for shape in ((1, 1), (2, 0), (3, 7), (4, 4)):
        (output,) = program.module()([torch.ones(shape)])
        assert output.shape == shape
    assert Interface.of(json.loads(json.dumps(interface.described()))) == interface
    assert interface.empty("rows", 3).shape == (3, 0)


def test_a_program_of_one_size_is_refused():
    program = Program("model", _Fixed(), {"rows": torch.ones(4)}, {"rows": ("length",)}, ("output",))
    with pytest.raises(Unsupported, match="PyTorch cannot trace this model for any length"):
        program.trace()


def test_loops_are_found_wherever_they_stand():
    refuse_loops({"model.mechanism": "scored", "model.segment": None, "data.kind": "rows", "model.memory_len": 0})
    with pytest.raises(Unsupported, match=r"output.decoder.mechanism = 'location_aware:3'; encoder.segment = 4"):
        refuse_loops({"output.decoder.mechanism": "location_aware:3", "encoder.segment": 4})


def test_listed_edges_are_a_mask():
    edges = torch.tensor([[0, 2, 1], [0, 1, 2]])
    x = torch.randn(1, 2, 3, 5)
    table = torch.zeros(3, 3, dtype=torch.bool)
    table[edges[1], edges[0]] = True
    listed = Scored(kernel="plain")(Call(x, x, x, mask=Listed(edges)))
    torch.testing.assert_close(listed, Scored(kernel="plain")(Call(x, x, x, mask=table[None, None])))


def test_a_mean_over_neighbours_is_the_same_in_a_program(untyped):
    from headwise.attention.masks import Edges

    encoder = MeanConfig(d_model=4).encoder(3, 2).train(False)

    class Mean(Traced):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def forward(self, tensors):
            return (self.encoder(tensors[0], Listed(tensors[1])),)

    edges, features = torch.tensor([[1, 2, 0], [0, 0, 2]]), torch.randn(4, 3)
    axes = {"features": ("nodes", ""), "edges": ("", "edges")}
    program, _ = Program("model", Mean(), {"features": features, "edges": edges}, axes, ("output",)).trace()
    (output,) = program.module()([features, edges])
    # a node that hears of none has zeros
    torch.testing.assert_close(output, encoder(features, Edges(edges, 4)).detach())


@pytest.mark.parametrize(
    ("own", "their", "same"),
    [
        (0.5, 0.5000004, True),
        (0.5, 0.51, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("-inf"), float("-inf"), True),
        ("a", "b", False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": [1.0]}, {"a": [1.0]}, True),
        (np.array([1.0, 2.0]), np.array([1.0, 2.000001]), True),
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.array([1]), np.array([1, 1]), False),
        ([], [], True),
    ],
)
def test_answers_are_alike(own, their, same):
    assert alike(own, their, 1e-5) is same


@pytest.mark.parametrize(
    ("metric", "ours", "theirs", "message"),
    [
        ("bleu", 30.0, 29.8, None),
        ("bleu", 30.0, 29.6, "BLEU is 29.6 in place of 30"),
        ("accuracy", 0.9, 0.895, None),
        ("accuracy", 0.9, 0.88, "accuracy is 0.88 in place of 0.9 (at most 0.01 lower)"),
        ("wer", 5.0, 6.5, "WER is 6.5 in place of 5 (at most 1 higher)"),
        ("mse", 2.0, 2.01, None),
        ("mse", 2.0, 2.1, "mse is 2.1 in place of 2 (at most 0.02 higher)"),
        ("distinct1", 1.0, 0.0, None),
    ],
)
def test_a_quantized_model_may_lose_a_point(metric, ours, theirs, message):
    metrics = {"headwise": {metric: ours}, "onnx": {metric: theirs}}
    parity = Parity("onnx", "run", "", "test", {}, 1, 0, 0, 1.0, 1e-5, metrics, {}, {}, quantized=True)
    assert parity.failures() == ([] if message is None else [message if "(" in message else parity.failures()[0]])
    assert message is None or message in parity.failures()[0]


def test_parts_that_hold_no_attention_stay_in_a_stand_in():
    from headwise.export.stand_ins import _bare

    model = nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"mechanism": Scored()}))
    bare = _bare(model)
    assert [type(part) for part in bare.modules()] == [nn.Sequential, nn.Linear, nn.ModuleDict]
    assert bare[0].weight is model[0].weight
    assert "mechanism" in model[1]
