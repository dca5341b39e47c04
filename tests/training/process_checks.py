"""What each of several processes does in test_processes.py: `python process_checks.py CASE FOLDER`."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "tasks"), str(HERE.parent / "data"), str(HERE.parent)]

# of each case: changes of [training], and of the toy itself
CASES = {
    "plain": ({}, {}),
    "gathered": ({"accumulate": 3, "ema_decay": 0.9}, {}),
    "few tokens": ({"accumulate": 2}, {"without_tokens": 9}),
    "again": ({"recompute": True, "optimizer": "sgd"}, {}),
}


def made(name, kind="auto", dropout=0.0, **more):
    """The recipe of a case."""
    import training_toy

    changes, fields = CASES[name]
    training = {"max_steps": 50, "validate_every": 25, "parallel": kind, **changes, **more}
    return training_toy.recipe(training, dropout=dropout, examples=40, width=8, **fields)


def started(world, script, *arguments, **environment):
    """Starts these processes as a launcher would; returns them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    # set by commands that a test ran before; the script has its folder on the path
    common.pop("PYTHONSAFEPATH", None)
    common |= {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", **environment}
    return [
        subprocess.Popen(
            [sys.executable, *script, *map(str, arguments)],
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def ended(processes, seconds=300):
    """(exit code, output, errors) of each."""
    found = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        found.append((process.returncode, out, err))
    return found


def trained(name, folder, kind="auto", **options):
    """Trains a case."""
    import training_toy

    from headwise.training.train import train

    training_toy.install()
    return train(made(name, kind, **options), folder)


def _cases(kind, names, folder):
    """Each case by itself."""
    done = {name: trained(name, Path(folder) / f"{name} {kind}", kind).metrics for name in names.split(",")}
    print(json.dumps(done))


def _resumed(kind, folder):
    """A run, the same in two parts with other random numbers in each process, and a part of a third."""
    for name, steps in (("whole", 20), ("parts", 7), ("parts", 20), ("others", 8)):
        options = {"dropout": 0.0 if name == "others" else 0.2, "max_steps": steps}
        trained("gathered", Path(folder) / name, kind, **options)


def _goes_on(kind, folder, steps):
    trained("gathered", Path(folder), kind, max_steps=int(steps))


def _long(kind, folder):
    """More steps than anybody waits for, saved often."""
    trained("gathered", Path(folder), kind, max_steps=100_000, save_every=3)


def _killed(kind, folder, steps, told):
    """As `_long`, with a checkpoint after every step; tells its number to who ends it."""
    place = Path(told, f"{os.environ['RANK']}.pid")
    place.with_suffix(".tmp").write_text(str(os.getpid()))
    place.with_suffix(".tmp").rename(place)
    trained("gathered", Path(folder), kind, max_steps=int(steps), save_every=1)


def _refused(kind, folder):
    """The disk of the one process that writes, or of the last one, takes half a checkpoint, once."""
    import errno

    from headwise.runs.tensors import TensorFile

    real, calls = TensorFile.write_to, []
    # under fsdp each process writes one file of a checkpoint
    full = 1 if kind == "fsdp" and os.environ["RANK"] == "1" else 2 if kind == "ddp" else 0

    def refusing(self, sink):
        calls.append(self)
        if len(calls) == full:
            raise OSError(errno.ENOSPC, "no space left on device")
        real(self, sink)

    TensorFile.write_to = refusing
    trained("gathered", Path(folder), kind, max_steps=50)


def _full(kind, folder, rank):
    """From step 10 on, the operating system lets this process write the beginning of a file only."""
    import resource

    from headwise.runs.commits import Draft

    real = Draft.write

    def limited(self, name, content):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if os.environ["RANK"] == rank and self.final.name >= "step-00000010":
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            return real(self, name, content)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    Draft.write = limited
    trained("gathered", Path(folder), kind, max_steps=50, save_every=5, on_disk_full="stop")


def _wrong(kind, folder, *files):
    """Each process reads a file of its own, of which some are not there ("-": it reads nothing)."""
    import training_toy

    from headwise.errors import DataError

    name, real = files[int(os.environ["RANK"])], training_toy.ToyTask.__dict__["prepare"].__func__

    def prepare(kind, recipe):
        if name != "-":
            raise DataError(f"{name}: there is no such file")
        return real(kind, recipe)

    training_toy.ToyTask.prepare = classmethod(prepare)
    trained("plain", Path(folder), kind)


def _diverges(kind, folder):
    """Steps so large that nothing finite is left."""
    trained("plain", Path(folder), kind, learning_rate=1e200, warmup_steps=0, clip_norm=0)


def _parts(kind):
    """What the process keeps of a model and its optimizer, and how much there is in all."""
    import training_toy

    from headwise.processes import process_group
    from headwise.runs.tensors import local
    from headwise.training.optimizers import optimizer_tensors
    from headwise.training.parallel import Engine, share_of_step
    from headwise.training.recipe import read_recipe
    from headwise.training.session import Session

    training_toy.install()
    recipe = read_recipe(made("gathered", kind))
    with process_group("cpu", alone_too=True) as processes:
        session = Session(training_toy.toy(recipe), recipe, processes)
        engine = Engine(session.objective, session.kind, processes, session.device, None)
        share = share_of_step(session.source, 1, processes, session.device)
        with engine.passing(last=True):
            engine(share.batches[0]).backward()
        session.optimizer.step()
        kept = {**dict(session.model.named_parameters()), **optimizer_tensors(session.optimizer, session.model)}
        shared = [tensor for tensor in kept.values() if tensor.ndim]
        print(json.dumps([sum(local(one).numel() for one in shared), sum(one.numel() for one in shared)]))


def _verbs(*lines):
    """Lines of the command line, one after another."""
    from headwise.cli.main import main

    for line in lines:
        assert main(line.split()) == 0


if __name__ == "__main__":
    from headwise.errors import HeadwiseError

    torch.set_num_threads(1)
    work = {"cases": _cases, "resumed": _resumed, "goes on": _goes_on, "long": _long, "verbs": _verbs, "parts": _parts}
    work |= {"refused": _refused, "killed": _killed, "full": _full}
    work |= {"wrong": _wrong, "diverges": _diverges}
    work = work[sys.argv[1]]
    if work is not _verbs:
        torch.set_default_dtype(torch.float64)
    try:
        work(*sys.argv[2:])
    except HeadwiseError as error:
        if not getattr(error, "reported", False):
            print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
