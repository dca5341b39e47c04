"""Target tokens a CPU second in training, Headwise beside Marian of Hugging Face and PyTorch's Transformer.

    python -m benchmarks.training --shape tiny
    python -m benchmarks.training --shape base --rounds 6 --json base.json
    python -m benchmarks.training --quick

Every system has a process and one thread of its own, and all take turns on the same batches.
"""

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any, Protocol

import torch

from benchmarks import rates
from benchmarks.corpus import Corpus, training_corpus
from benchmarks.peers import huggingface
from benchmarks.peers.loop import LABEL_SMOOTHING, LEARNING_RATE, PlainLoop
from benchmarks.peers.torch_transformer import TorchTransformer
from benchmarks.shapes import QUICK, SHAPES, Shape
from benchmarks.tables import print_table, ratio, spread, write_json
from benchmarks.workers import Answer, Workers, serve
from headwise import runtime
from headwise.data.batches import PairBatch
from headwise.data.files import data_cache
from headwise.layers.loss import output_loss
from headwise.models.transformer import build_transformer
from headwise.tasks.text.writer import real_states
from headwise.training import numerics
from headwise.training.optimizers import build_optimizer, learning_rate, set_learning_rate
from headwise.training.recipe import TrainingConfig

PEERS = {"marian": "Marian", "torch": "nn.Transformer"}
WARM_UP = 2


@dataclass(frozen=True)
class System:
    """What one worker runs; `tuned`: under Headwise's machine settings."""

    kind: str
    precision: str = "fp32"
    tuned: bool = False

    @property
    def name(self) -> str:
        """As the tables call it."""
        if self.kind == "headwise":
            return f"Headwise {self.precision}"
        return f"{PEERS[self.kind]} {self.precision}{', our settings' if self.tuned else ''}"


class Trainer(Protocol):
    """Anything that learns from a batch and gives the loss a token."""

    def step(self, batch: PairBatch) -> float: ...


class Ours:
    """The step of Headwise's training loop: loss over real tokens, norm, check, clipping, scheduled fused AdamW."""

    def __init__(self, shape: Shape, vocab_size: int, bf16: bool):
        self.config = TrainingConfig(learning_rate=LEARNING_RATE, schedule="constant", warmup_steps=0)
        self.model = build_transformer(shape.config(), vocab_size, vocab_size, joint=True).train()
        self.optimizer = build_optimizer(self.model, self.config)
        self.parameters = list(self.model.parameters())
        self.steps, self.bf16 = 0, bf16

    def step(self, batch: PairBatch) -> float:
        """One update; returns the loss a token."""
        self.steps += 1
        set_learning_rate(self.optimizer, learning_rate(self.config, self.steps))
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            hidden, targets = real_states(self.model, batch, batch.tgt_in)
            loss = output_loss(self.model.decoder.output, hidden, targets, LABEL_SMOOTHING) / batch.num_tokens
        loss.backward()
        gradients = numerics.gradients(self.parameters)
        value, norm = numerics.read_together(loss.detach(), numerics.global_norm(gradients))
        assert math.isfinite(value + norm)
        numerics.clip(self.parameters, norm, self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return value


def trainer(system: System, shape: Shape, vocab_size: int) -> Trainer:
    """A new model of this shape in the training loop of its system."""
    bf16 = system.precision == "bf16"
    torch.manual_seed(0)
    if system.kind == "headwise":
        return Ours(shape, vocab_size, bf16)
    if system.kind == "torch":
        return PlainLoop(TorchTransformer(shape, vocab_size), bf16)
    return PlainLoop(huggingface.MarianLogits(huggingface.build(shape.config(), vocab_size)), bf16)


def work(job: dict[str, Any]) -> None:
    """The worker's side: trains on the batches that the parent names."""
    system, shape = System(**job["system"]), Shape(**job["shape"])
    torch.set_num_threads(1)
    settings = runtime.apply(1) if system.tuned else None
    corpus = Corpus.load(Path(job["corpus"]))
    batches = corpus.batches(job["batch_tokens"])
    learner = trainer(system, shape, corpus.vocab_size)

    def step(batch: int) -> Answer:
        started = process_time()
        # padding the rows to tensors is part of everyone's step
        made = corpus.batch(batches[batch % len(batches)])
        loss = learner.step(made)
        return {"cpu_s": process_time() - started, "tokens": made.num_tokens, "loss": loss}

    def products(rows: int) -> Answer:
        return {"rates": rates.best_rates(shape.d_model, shape.d_ff, rows)}

    def about() -> Answer:
        return {"settings": settings and f"float32 products {settings.products}: {settings.reason}"}

    serve({"step": step, "products": products, "about": about})


@dataclass
class Measured:
    """One system's rounds."""

    name: str
    tokens_per_cpu_s: list[float]
    losses: list[float]
    peak_mib: float = 0.0
    settings: str | None = None


@dataclass
class Setting:
    """What all groups of a call share."""

    shape: Shape
    corpus: Corpus
    folder: Path
    batch_tokens: int
    rounds: int

    def flop_per_token(self) -> float:
        """Operations a real target token over the batches that are timed."""
        batches = self.corpus.batches(self.batch_tokens)
        chosen = [self.corpus.batch(batches[number % len(batches)]) for number in self.numbers()]
        flop = sum(self.shape.training_flop(batch, self.corpus.vocab_size) for batch in chosen)
        return flop / sum(batch.num_tokens for batch in chosen)

    def numbers(self) -> range:
        """The batches that are timed, one a round."""
        return range(WARM_UP, WARM_UP + self.rounds)


def measure(systems: Sequence[System], setting: Setting) -> tuple[list[Measured], dict[str, list[float]]]:
    """Runs some systems in turn, batch by batch; also the rates of matrix products of each round."""
    shared = {"shape": asdict(setting.shape), "corpus": str(setting.folder), "batch_tokens": setting.batch_tokens}
    jobs = [{"name": system.name, "system": asdict(system), **shared} for system in systems]
    measured = [Measured(system.name, [], []) for system in systems]
    products: dict[str, list[float]] = {"fp32": [], "bf16": []}
    with Workers("benchmarks.training", jobs) as workers:
        for worker, result in zip(workers.all, measured, strict=True):
            result.settings = worker.ask("about")["settings"]
            for batch in range(WARM_UP):
                worker.ask("step", batch=batch)
        for batch in setting.numbers():
            for worker, result in zip(workers.all, measured, strict=True):
                answer = worker.ask("step", batch=batch)
                result.tokens_per_cpu_s.append(answer["tokens"] / answer["cpu_s"])
                result.losses.append(answer["loss"])
                result.peak_mib = answer["peak_mib"]
            # the first is Headwise, which has the fast settings
            for name, rate in workers.all[0].ask("products", rows=setting.batch_tokens)["rates"].items():
                products[name].append(rate)
    return measured, products


def report(title: str, measured: list[Measured], products: dict[str, list[float]], setting: Setting) -> Answer:
    """Prints a group of systems with all ratios and ceilings; returns the figures."""
    peers = [result for result in measured if not result.name.startswith("Headwise")]
    flop = setting.flop_per_token()
    print(f"{title}\n")
    rows = []
    for result in measured:
        ratios = [f"{ratio(result.tokens_per_cpu_s, peer.tokens_per_cpu_s):.2f}" for peer in peers]
        loss = f"{statistics.mean(result.losses):.2f}"
        rows.append([result.name, spread(result.tokens_per_cpu_s), *ratios, f"{result.peak_mib:,.0f}", loss])
    print_table(["system", "tok / CPU s", *(f"to {peer.name}" for peer in peers), "peak MiB", "loss"], rows)
    for result in measured:
        if result.settings:
            print(f"{result.name}: {result.settings}")
    ceilings = {}
    for precision in sorted({result.name.split()[1] for result in measured if result not in peers}, reverse=True):
        rate = statistics.median(products[precision])
        ceiling = 1e9 * rate / flop
        most = {peer.name: ceiling / statistics.median(peer.tokens_per_cpu_s) for peer in peers}
        told = ", ".join(f"{value:.2f} times {name}" for name, value in most.items())
        print(f"ceiling {precision}: {rate:,.0f} GFLOP / CPU s in products, so {ceiling:,.0f} tok / CPU s", end="")
        print(f" if all else were free: {told}" if told else " if all else were free")
        ceilings[precision] = {"gflop_per_cpu_s": rate, "tok_per_cpu_s": ceiling, "ratios": most}
    print(flush=True)
    return {"title": title, "systems": [asdict(result) for result in measured], "ceilings": ceilings}


def groups(precisions: Sequence[str], peers: Sequence[str], settings: Sequence[str]) -> dict[str, list[System]]:
    """Which systems run side by side; few enough that all fit into memory."""
    ours = {precision: System("headwise", precision, tuned=True) for precision in precisions}
    found = {}
    if "default" in settings:
        found["peers at their defaults"] = [*ours.values(), *(System(peer) for peer in peers)]
    if "same" in settings and peers:
        for precision in precisions:
            tuned = [System(peer, precision, tuned=True) for peer in peers]
            found[f"peers with the same machine settings, {precision}"] = [ours[precision], *tuned]
    return found


def usable(peers: Sequence[str]) -> list[str]:
    """The peers that are installed; says which are not."""
    if "marian" in peers and not huggingface.installed():
        print(f"{PEERS['marian']}: {huggingface.SKIPPED}\n")
        return [peer for peer in peers if peer != "marian"]
    return list(peers)


def listed(text: str) -> list[str]:
    """The parts of `a,b`; none of an empty text."""
    return [part for part in text.split(",") if part]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--precision", type=listed, default="fp32,bf16", help="fp32, bf16 or both; default: both")
    parser.add_argument("--peers", type=listed, default="marian,torch", help="marian, torch, both or ''; default: both")
    parser.add_argument("--settings", type=listed, default="default,same", help="of the peers; default: default,same")
    parser.add_argument("--rounds", type=int, default=8, help="batches that are timed; default: 8")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="padded target tokens; default: 4096")
    parser.add_argument("--vocab", type=int, default=8000, help="size of the joint BPE; default: 8000")
    parser.add_argument("--data", type=Path, help="folder of Multi30k; default: multi30k in $HEADWISE_DATA")
    parser.add_argument("--quick", action="store_true", help="a model of no use, to see that everything runs")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compares what the command line asks for, or is a worker."""
    chosen = options(arguments)
    if chosen.worker:
        work(json.loads(chosen.worker))
        return
    shape, rounds, tokens, vocab, limit = SHAPES[chosen.shape], chosen.rounds, chosen.batch_tokens, chosen.vocab, None
    if chosen.quick:
        shape, rounds, tokens, vocab, limit = QUICK, 2, 256, 200, 300
    corpus, _ = training_corpus(chosen.data or data_cache() / "multi30k", vocab, limit)
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(shape, corpus, Path(folder), tokens, rounds)
        corpus.save(setting.folder)
        print(f"{'quick' if chosen.quick else chosen.shape}: {shape}")
        print(f"{corpus.origin}; {len(corpus.sources):,} pairs, vocabulary {corpus.vocab_size:,}")
        print(f"batches of {tokens:,} padded target tokens, {len(corpus.batches(tokens))} an epoch;", end=" ")
        print(f"{setting.flop_per_token() / 1e6:,.1f} MFLOP a target token; {runtime.processor()}; one thread\n")
        tables = [
            report(title, *measure(systems, setting), setting)
            for title, systems in groups(chosen.precision, usable(chosen.peers), chosen.settings).items()
        ]
    about = {"shape": asdict(shape), "data": corpus.origin, "vocab_size": corpus.vocab_size, "batch_tokens": tokens}
    write_json(chosen.json, {**about, "torch": torch.__version__, "tables": tables})


if __name__ == "__main__":
    main()
