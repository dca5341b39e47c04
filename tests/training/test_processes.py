"""Two and three processes learn what one does, and end as one run: weights, scores, log, checkpoints."""

import json
import os
import pickle
import re
import signal
import time
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch
from process_checks import HERE, ended, started, trained
from torch import nn
from torch.testing import assert_close

from headwise.errors import CheckpointError, ConfigError, DataError, Diverged, HeadwiseError, MachineError, RunBusy
from headwise.processes import Alone, Group, launched, process_group, together
from headwise.runs.checkpoints import Checkpoints
from headwise.training.parallel import check, kind_of
from headwise.training.recipe import TrainingConfig
from headwise.training.signals import stopped_by

# a start of several processes takes seconds of each
SLOW = pytest.mark.slow
SCRIPT = [str(HERE / "process_checks.py")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process makes of a case."""
    from headwise.tasks import registry

    folder, kept = tmp_path_factory.mktemp("alone"), {}
    former, dtype = registry.task_type, torch.get_default_dtype()

    def make(name):
        if name not in kept:
            torch.set_default_dtype(torch.float64)
            try:
                kept[name] = (trained(name, folder / name).metrics, _weights(folder / name))
            finally:
                torch.set_default_dtype(dtype)
                registry.task_type = former
        return kept[name]

    return make


def _weights(run):
    saved = Checkpoints(run).read(Checkpoints(run).entries()[0])
    return {name: saved.file(name)[0] for name in saved.tensor_files}


OTHERS = ["plain", "few tokens", "again"]


@pytest.mark.parametrize(
    ("world", "kind", "names"),
    [
        (2, "ddp", ["gathered"]),
        pytest.param(2, "ddp", OTHERS, marks=SLOW),
        pytest.param(3, "ddp", ["gathered", *OTHERS], marks=SLOW),
        *(pytest.param(world, "fsdp", ["gathered", "again"], marks=SLOW) for world in (2, 3)),
    ],
)
def test_many_processes_learn_what_one_does(tmp_path, alone, world, kind, names):
    found = ended(started(world, SCRIPT, "cases", kind, ",".join(names), tmp_path))
    assert [code for code, _, _ in found] == [0] * world, found
    told = [json.loads(out) for _, out, _ in found]
    # every process knows the same scores
    assert all(one == told[0] for one in told)
    for name in names:
        metrics, weights = alone(name)
        assert told[0][name] == pytest.approx(metrics, abs=1e-12)
        assert_close(_weights(tmp_path / f"{name} {kind}"), weights, rtol=0, atol=1e-12)
    # one process writes and speaks
    assert "validation at step 50" in found[0][2]
    assert all(err == "" for _, _, err in found[1:])


@SLOW
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_the_same_processes_go_on_with_the_same_bits_and_others_with_the_same_sums(tmp_path, alone, kind):
    found = ended(started(2, SCRIPT, "resumed", kind, tmp_path))
    assert [code for code, _, _ in found] == [0, 0], found
    assert _bits(tmp_path / "parts") == _bits(tmp_path / "whole")
    saved = Checkpoints(tmp_path / "parts").newest(print)
    assert len(saved.json("trainer.json")["others"]) == 1
    # two, then one, then three
    for world, steps in ((1, 23), (3, 50)):
        found = ended(started(world, SCRIPT, "goes on", "auto" if world == 1 else kind, tmp_path / "others", steps))
        assert [code for code, _, _ in found] == [0] * world, found
    assert "not bit-exact from here: the run began on" in found[0][2]
    assert f"'processes': 3, 'parallel': '{kind}'" in found[0][2]
    assert_close(_weights(tmp_path / "others"), alone("gathered")[1], rtol=0, atol=1e-12)


def _bits(run):
    saved = Checkpoints(run).entries()[0].path
    return {path.name: path.read_bytes() for path in saved.glob("*.safetensors")}


@SLOW
@pytest.mark.parametrize("victim", [0, 2])
def test_a_process_that_dies_ends_the_others_with_a_clear_line(tmp_path, victim):
    processes = started(3, SCRIPT, "long", "ddp", tmp_path / "run")
    _until(lambda: Checkpoints(tmp_path / "run").entries(), processes)
    os.kill(processes[victim].pid, signal.SIGKILL)
    found = ended(processes, 60)
    assert [code for code, _, _ in found] == [-9 if rank == victim else 5 for rank in range(3)], found
    step = Checkpoints(tmp_path / "run").newest(print).facts["step"]
    told = "".join(err for _, _, err in found)
    # the first process keeps what the roll is called by; who is slow to answer is named beside the one that is gone
    gone = "process (2 or )?3 of 3 is gone" if victim else "the connection to another of 3 processes is lost"
    assert re.search(f"error: {gone}; everything up to step {step} is saved: run the same command to resume", told), (
        told
    )
    found = ended(started(2, SCRIPT, "goes on", "ddp", tmp_path / "run", step + 4))
    assert [code for code, _, _ in found] == [0, 0], found


@pytest.mark.slow
def test_a_signal_to_one_process_stops_and_saves_all(tmp_path):
    processes = started(2, SCRIPT, "long", "ddp", tmp_path / "run")
    _until(lambda: Checkpoints(tmp_path / "run").entries(), processes)
    os.kill(processes[1].pid, signal.SIGTERM)
    found = ended(processes)
    assert [code for code, _, _ in found] == [143, 143], found
    step = Checkpoints(tmp_path / "run").newest(print).facts["step"]
    assert f"stopped by SIGTERM after step {step}; everything is saved" in found[0][2]
    # told by the first alone
    assert found[1][2] == ""


def _until(reached, processes):
    while not reached():
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.05)


def test_settings_that_do_not_fit():
    made = Alone(), Group(1, 2, 1, None)
    kinds = {
        (kind, place): kind_of(TrainingConfig(parallel=kind), made[place])
        for kind in ("auto", "ddp", "fsdp")
        for place in (0, 1)
    }
    assert list(kinds.values()) == ["none", "ddp", "ddp", "ddp", "fsdp", "fsdp"]
    assert kind_of(TrainingConfig(parallel="none"), made[0]) == "none"
    with pytest.raises(ConfigError, match=r"training.offload is for training.parallel = 'fsdp', not 'none'; leave"):
        kind_of(TrainingConfig(offload=True), made[0])
    with pytest.raises(ConfigError, match=r"model: '1' normalises over the examples of a batch, of which each of 2"):
        check(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), made[1])
    check(nn.BatchNorm1d(2), made[0])


@pytest.mark.parametrize(
    ("here", "told"),
    [([0, 1], "process 3 of 3 is gone"), ([0], "process 2 or 3 of 3 is gone"), (None, "the connection")],
)
def test_who_does_not_answer_may_be_the_one_that_is_gone(monkeypatch, here, told):
    monkeypatch.setattr("headwise.processes._ROLL_CALL_S", 0.01)
    store = None if here is None else torch.distributed.HashStore()
    for rank in here or ():
        store.set(f"here/{rank}", "here")
    group = Group(0, 3, 0, None, store)
    assert group.gone(RuntimeError("gloo: Connection closed by peer")).startswith(told)
    assert group.gone(RuntimeError("size mismatch")) is None


def test_inside_a_step_a_silent_process_is_waited_for_less_long(monkeypatch):
    waits = []
    store = torch.distributed.HashStore()
    monkeypatch.setattr(torch.distributed, "all_gather", lambda found, own, group: waits.append(group))
    monkeypatch.setattr(torch.distributed, "all_gather_object", lambda found, value, group: waits.append(group))
    # the default group of another program may be for GPUs alone
    for group in (Group(0, 2, 0, "patient", store), Group(0, 2, 0, "patient")):
        group.numbers(1.0)
        group.gather("a")
    assert waits == [None, "patient", "patient", "patient"]
    with process_group("cpu", alone_too=True) as processes:
        groups = torch.distributed.group.WORLD, processes.control
        minutes = [group._get_backend(torch.device("cpu")).options._timeout.total_seconds() / 60 for group in groups]
    assert minutes == [10, 30]


@pytest.mark.parametrize("kind", [ConfigError, DataError, MachineError, CheckpointError, Diverged, RunBusy])
def test_errors_are_told_to_other_processes(kind):
    found = pickle.loads(pickle.dumps(kind("x.txt:3: what is wrong")))
    assert (type(found), str(found)) == (kind, "x.txt:3: what is wrong")
    stopped = pickle.loads(pickle.dumps(stopped_by(signal.SIGTERM)))
    assert (stopped.exit_code, str(stopped)) == (143, "stopped by SIGTERM")


@pytest.mark.parametrize("place", [("one", "2", "0"), ("2", "2", "0"), ("0", "0", "0"), ("0", "2", "-1")])
def test_a_launcher_that_makes_no_sense(monkeypatch, place):
    for name, value in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), place, strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(
        ConfigError, match=r"the launcher's variables make no sense: RANK=.*; unset them, or start with"
    ):
        launched()


@pytest.mark.slow
def test_wrong_starts_are_refused_once(tmp_path):
    found = ended(started(2, SCRIPT, "cases", "none", "plain", tmp_path))
    assert [code for code, _, _ in found] == [2, 2]
    assert "training.parallel = 'none', but 2 processes were started" in found[0][2]
    assert found[1][2] == ""
    (tmp_path / "plain ddp").mkdir()
    (tmp_path / "plain ddp" / "diary.txt").write_text("mine")
    found = ended(started(2, SCRIPT, "cases", "ddp", "plain", tmp_path))
    assert [code for code, _, _ in found] == [2, 2]
    assert "is not empty and is not a run folder" in found[0][2]
    # told by the first alone
    assert found[1][2] == ""


@pytest.mark.parametrize(
    ("files", "codes", "told"),
    [
        pytest.param(("a", "a"), [3, 3], ["a", ""], marks=SLOW),
        pytest.param(("a", "b"), [3, 3], ["a", "b"], marks=SLOW),
        pytest.param(("-", "b", "b"), [5, 3, 3], ["", "b", ""], marks=SLOW),
    ],
)
def test_an_error_of_data_is_said_once(tmp_path, files, codes, told):
    found = ended(started(len(files), SCRIPT, "wrong", "ddp", tmp_path / "run", *files))
    assert [code for code, _, _ in found] == codes, found
    assert [err for _, _, err in found] == [f"error: {name}: there is no such file\n" if name else "" for name in told]


@SLOW
def test_what_diverges_is_said_by_the_first(tmp_path):
    found = ended(started(2, SCRIPT, "diverges", "ddp", tmp_path / "run"))
    assert [code for code, _, _ in found] == [6, 6], found
    assert found[0][2].count("error: training diverged") == 1
    assert found[1][2] == ""


@pytest.mark.parametrize(
    ("texts", "reported"),
    [
        (["wrong", "wrong", "wrong"], [False, True, True]),
        (["wrong", "other", "wrong"], [False, False, True]),
        ([None, "wrong", None], [True, False, True]),
    ],
)
def test_what_all_do_together_fails_in_all_and_is_reported_where_it_failed(texts, reported):
    class Told(Alone):
        def gather(self, value):
            return [None if text is None else f"DataError: {text}" for text in texts]

    for rank, text in enumerate(texts):

        def work(text=text):
            if text is not None:
                raise DataError(text)

        processes = Told()
        processes.rank, processes.world = rank, len(texts)
        with pytest.raises(HeadwiseError, match=text or "another process failed: DataError: wrong") as failed:
            together(processes, work)
        assert failed.value.reported == reported[rank]


@pytest.mark.slow
def test_two_processes_answer_as_one(tmp_path, monkeypatch):
    from headwise.cli.main import main

    small = (
        "model.d_model=16 model.d_ff=16 model.num_heads=2 training.max_steps=3 training.valid_limit=8 data.limit=200"
    )
    run, texts = tmp_path / "run", tmp_path / "texts.txt"
    texts.write_text("".join(f"i am {'very ' * (place % 7)}cold .\n" for place in range(90)))
    lines = [f"train phrasebook {small} --run-folder {run}"]
    asked = [f"predict {run} --file {texts} --batch 40 --scores", f"evaluate {run} --limit 20 --json"]
    found = ended(started(2, SCRIPT, "verbs", *lines, *asked))
    assert [code for code, _, _ in found] == [0, 0], found
    assert found[1][1] == ""
    with redirect_stdout(StringIO()) as own:
        assert [main(line.split()) for line in asked] == [0, 0]
    assert own.getvalue() == found[0][1].partition(f"headwise explain {run} INPUT\n")[2]
    assert own.getvalue().count("\n") == 91


@SLOW
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_checkpoint_that_the_disk_refuses_half_way_holds_nobody_up(tmp_path, alone, kind):
    found = ended(started(2, SCRIPT, "refused", kind, tmp_path / "run"))
    assert [code for code, _, _ in found] == [0, 0], found
    assert "checkpoint of step 25 not saved, to be tried again at the next" in found[0][2]
    assert_close(_weights(tmp_path / "run"), alone("gathered")[1], rtol=0, atol=1e-12)


@SLOW
@pytest.mark.parametrize(("kind", "rank"), [("ddp", 0), ("fsdp", 0), ("fsdp", 1)])
def test_a_disk_that_takes_no_more_of_one_process_ends_all(tmp_path, kind, rank):
    run = tmp_path / "run"
    found = ended(started(2, SCRIPT, "full", kind, run, rank), 60)
    assert [code for code, _, _ in found] == [5, 5], found
    assert re.search(rf"error: {run}/state/step-00000010: no space left: [\d,]+ bytes are needed", found[0][2])
    # told by the first alone
    assert found[1][2] == ""
    assert not list(run.rglob("*.tmp"))
    assert [entry.step for entry in Checkpoints(run).entries()] == [5]
    assert Checkpoints(run).newest(pytest.fail).facts["step"] == 5
    found = ended(started(2, SCRIPT, "goes on", kind, run, 12))
    assert [code for code, _, _ in found] == [0, 0], found
    assert Checkpoints(run).newest(pytest.fail).facts["step"] == 12


@SLOW
def test_each_process_keeps_its_part(tmp_path):
    found = ended(started(3, SCRIPT, "parts", "fsdp"))
    assert [code for code, _, _ in found] == [0, 0, 0], found
    kept, totals = zip(*[json.loads(out) for _, out, _ in found], strict=True)
    # weights and the two means of Adam: every number once, and none has more than a row of each tensor too many
    assert sum(kept) == totals[0] == totals[1] == totals[2]
    assert max(kept) < totals[0] / 3 * 1.25
