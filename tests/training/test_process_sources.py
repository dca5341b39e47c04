"""Two and three processes learn what one does from every kind of source, and the same ones learn the same bits."""

import pytest
import torch
from process_checks import HERE, ended, started
from process_sources import SOURCES, trained, written

from headwise.runs.checkpoints import Checkpoints

# an operation that is summed in another order, 50 times over
TOLERANCE = {"float32": 1e-4, "float64": 1e-12}


# without rotation, a bias of all keys adds the same to every score of a query, which softmax does not feel: its
# gradient is rounding alone, and Adam makes steps of that
UNFELT = {"stream": "self_attention.projection.bias"}


def weights_of(run):
    saved = Checkpoints(run).read(Checkpoints(run).entries()[0])
    return {name: saved.file(name)[0] for name in saved.tensor_files}


def loss_of(run):
    """The last one on the validation data, which the published average was chosen by."""
    return Checkpoints(run).finished()["metrics"]["loss"]


def felt(source, name, tensor):
    """A tensor without the bias of keys, where no output feels it."""
    if not tensor.ndim or not name.endswith(UNFELT.get(source, "nothing")):
        return tensor
    query, _, value = tensor.chunk(3)
    return torch.cat([query, value])


def largest(one, other, source=None):
    """The largest difference of weights, averages and the means of the optimizer."""
    found = 0.0
    assert one.keys() == other.keys()
    for file in one:
        assert one[file].keys() == other[file].keys()
        for name, tensor in one[file].items():
            apart = felt(source, name, tensor).double() - felt(source, name, other[file][name]).double()
            found = max([found, *apart.abs().flatten().tolist()])
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    written(folder)
    return folder


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    """The weights of one process, by type."""
    from headwise.tasks import registry

    kept = {}

    def make(dtype):
        if dtype not in kept:
            folder = tmp_path_factory.mktemp(dtype)
            before, former = torch.get_default_dtype(), registry.task_type
            torch.set_default_dtype(getattr(torch, dtype))
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.chdir(data)
                    trained(SOURCES, "auto", folder)
            finally:
                torch.set_default_dtype(before)
                registry.task_type = former
            kept[dtype] = {name: (weights_of(folder / name), loss_of(folder / name)) for name in SOURCES}
        return kept[dtype]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize("world", [2, 3])
def test_every_source_gives_the_weights_of_one_process(tmp_path, data, alone, world, kind, dtype):
    found = ended(started(world, [str(HERE / "process_sources.py")], kind, dtype, data, tmp_path), 1800)
    assert [code for code, _, _ in found] == [0] * world, found
    weights = {name: weights_of(tmp_path / name) for name in SOURCES}
    apart = {name: largest(weights[name], alone(dtype)[name][0], name) for name in SOURCES}
    assert max(apart.values()) <= TOLERANCE[dtype], apart
    losses = {name: loss_of(tmp_path / name) - alone(dtype)[name][1] for name in SOURCES}
    assert max(map(abs, losses.values())) <= TOLERANCE[dtype], losses
    # the same processes, twice, with random numbers of each
    if dtype == "float32":
        twice = {name: [weights_of(tmp_path / again / name) for again in ("one", "two")] for name in SOURCES}
        assert {name: largest(*found) for name, found in twice.items()} == dict.fromkeys(SOURCES, 0.0)
        # which they drew: other weights than without
        assert all(largest(weights[name], twice[name][0]) > 0.0 for name in SOURCES)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_is_not_compared_has_a_gradient_of_rounding_alone(alone, dtype):
    for source, end in UNFELT.items():
        optimizer = alone(dtype)[source][0]["optimizer.safetensors"]
        squares = [
            tensor.chunk(3) for name, tensor in optimizer.items() if "exp_avg_sq:" in name and name.endswith(end)
        ]
        assert squares
        rounding = torch.finfo(getattr(torch, dtype)).eps
        for query, key, value in squares:
            assert float(key.sqrt().max()) < rounding < 1e-3 < float(torch.cat([query, value]).sqrt().min())
