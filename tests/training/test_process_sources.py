"""Two and three processes learn what one does from every kind of source, and the same ones learn the same bits."""

import pytest
import torch
from process_checks import HERE, ended, started
from process_sources import SOURCES, trained, written

from headwise.runs.checkpoints import Checkpoints

# an operation that is summed in another order, 50 times over
TOLERANCE = {"float32": 1e-4, "float64": 1e-12}


def weights_of(run):
    saved = Checkpoints(run).read(Checkpoints(run).entries()[0])
    return {name: saved.tensors[name][0] for name in saved.tensors}


def largest(one, other):
    """The largest difference of weights, averages and the means of the optimizer."""
    found = 0.0
    assert one.keys() == other.keys()
    for file in one:
        assert one[file].keys() == other[file].keys()
        for name, tensor in one[file].items():
            found = max([found, *(tensor.double() - other[file][name].double()).abs().flatten().tolist()])
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
            kept[dtype] = {name: weights_of(folder / name) for name in SOURCES}
        return kept[dtype]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize("world", [2, 3])
def test_every_source_gives_the_weights_of_one_process(tmp_path, data, alone, world, kind, dtype):
    found = ended(started(world, [str(HERE / "process_sources.py")], kind, dtype, data, tmp_path), 1800)
    assert [code for code, _, _ in found] == [0] * world, found
    apart = {name: largest(weights_of(tmp_path / name), alone(dtype)[name]) for name in SOURCES}
    assert max(apart.values()) <= TOLERANCE[dtype], apart
    if dtype == "float32":
        for name in ("bucketed", "token files"):
            assert largest(weights_of(tmp_path / "one" / name), weights_of(tmp_path / "two" / name)) == 0.0
