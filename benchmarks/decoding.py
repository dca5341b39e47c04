"""Sentences a CPU second in translation: Headwise, `generate` of Hugging Face and CTranslate2 with equal weights.

    python -m benchmarks.decoding --shape tiny            # fresh weights; every batch held to its longest reference
    python -m benchmarks.decoding --run runs/multi30k     # a trained run: held to lengths, then free to end
    python -m benchmarks.decoding --quick

Headwise and CTranslate2 run in float32 and in 8 bits. The peers get the weights converted, and must give the same
logits in float32 before anything is timed. Every system has a process and one thread of its own, and all take turns on
the same sentences.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.corpus import Corpus, read_texts, training_corpus
from benchmarks.decoders import LOGITS, WEIGHTS, check_logits, work
from benchmarks.peers import engine, huggingface
from benchmarks.shapes import QUICK, SHAPES
from benchmarks.tables import print_table, ratio, spread, write_json
from benchmarks.workers import Answer, Workers
from headwise import metrics, runtime
from headwise.config import read_toml
from headwise.data.buckets import token_batches
from headwise.data.files import data_cache
from headwise.data.tokenizers import Tokenizer
from headwise.layers.inference import has_int8
from headwise.models.protocols import Seq2Seq
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.training.loading import load
from headwise.training.recipe import read_recipe

# (beams, sentences a batch, batches a round)
CASES = [(5, 1, 12), (5, 32, 1), (1, 1, 12), (1, 32, 1)]
LOGITS_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Subject:
    """What decodes: a model, its configuration, and sentences as its tokenizer reads them."""

    model: Seq2Seq
    config: TransformerConfig
    corpus: Corpus
    tokenizer: Tokenizer | None = None
    references: list[str] = field(default_factory=list)


@dataclass
class Measured:
    """One system's rounds in one case."""

    name: str
    sentences_per_cpu_s: list[float] = field(default_factory=list)
    ms_per_step: list[float] = field(default_factory=list)
    outputs: dict[int, list[int]] = field(default_factory=dict)
    peak_mib: float = 0.0


def fresh(shape: TransformerConfig, data: Path, vocab: int, limit: int | None) -> Subject:
    """A model with its first weights, and the test sentences, or synthetic ones."""
    corpus, tokenizer = training_corpus(data, vocab, limit)
    texts = read_texts(data, "test_2016_flickr", limit)
    if tokenizer is not None and texts is not None:
        corpus = Corpus.encoded(*texts, tokenizer, f"test_2016_flickr from {data}")
    torch.manual_seed(0)
    model = build_transformer(shape, corpus.vocab_size, corpus.vocab_size, joint=True)
    return Subject(model.eval(), shape, corpus)


def trained(run: Path, data: Path) -> Subject:
    """The model of a run folder and the test sentences. Exits with a message if they do not belong together."""
    texts = read_texts(data, "test_2016_flickr")
    if texts is None:
        raise SystemExit(f"{data}: no test_2016_flickr.en.gz and .de.gz; --run needs real sentences, give --data")
    config = getattr(read_recipe(read_toml(run / "config.toml")), "model", None)
    if not isinstance(config, TransformerConfig):
        raise SystemExit(f"{run}: is no translator with a Transformer")
    translator = load(run)
    tokenizer = translator.target_tokenizer
    if translator.source_tokenizer is not tokenizer:
        raise SystemExit(f"{run}: has a vocabulary for each side; the comparison needs a joint one")
    corpus = Corpus.encoded(*texts, tokenizer, f"test_2016_flickr from {data}")
    return Subject(translator.model.eval(), config, corpus, tokenizer, texts[1])


def prepare(subject: Subject, folder: Path) -> None:
    """Writes what the workers read: sentences, weights under both systems' names, and logits to check them by."""
    subject.corpus.save(folder)
    own = {name: tensor.detach().clone() for name, tensor in subject.model.state_dict().items()}
    save_file(own, folder / WEIGHTS["headwise"])
    save_file(huggingface.weights(subject.model), folder / WEIGHTS["marian"])
    batch = check_logits(subject.corpus)
    with torch.inference_mode():
        save_file({"logits": subject.model(batch.src, batch.src_lens, batch.tgt_in)}, folder / LOGITS)


def rounds_of(corpus: Corpus, size: int, batches: int, rounds: int) -> list[list[list[int]]]:
    """For each round its batches: sentences of like length together, as everyone translates a file."""
    every = token_batches(corpus.lengths, max_tokens=1 << 30, max_sentences=size, shuffle=False)
    full = [batch for batch in every if len(batch) == size] or every
    # evenly over all lengths
    order = sorted(range(len(full)), key=lambda number: (number * 0.6180339887) % 1.0)
    return [[full[order[(start * batches + place) % len(full)]] for place in range(batches)] for start in range(rounds)]


def measure(workers: Workers, subject: Subject, case: tuple[int, int, int], rounds: int, held: bool) -> list[Measured]:
    """All systems in turn on the same batches; the first round warms up and is not counted."""
    beams, size, batches = case
    measured = [Measured(worker.name) for worker in workers.all]
    for number, chosen in enumerate(rounds_of(subject.corpus, size, batches, rounds + 1)):
        for worker, result in zip(workers.all, measured, strict=True):
            answer = worker.ask("decode", beams=beams, batches=chosen, held=held)
            result.peak_mib = answer["peak_mib"]
            if number == 0:
                continue
            sentences = [index for batch in chosen for index in batch]
            result.sentences_per_cpu_s.append(len(sentences) / answer["cpu_s"])
            result.ms_per_step.append(1e3 * answer["cpu_s"] / answer["steps"])
            result.outputs |= dict(zip(sentences, answer["outputs"], strict=True))
    return measured


def rows_of(measured: list[Measured], subject: Subject, label: str, held: bool) -> list[list[str]]:
    """The lines of a table for one case."""
    ours, rows = measured[0], []
    for result in measured:
        row = [label, result.name, spread(result.sentences_per_cpu_s, 1)]
        row += [f"{ratio(own.sentences_per_cpu_s, result.sentences_per_cpu_s):.2f}" for own in own_systems(measured)]
        row += [f"{statistics.median(result.ms_per_step):.2f}", f"{result.peak_mib:,.0f}"]
        if not held:
            same = sum(result.outputs[index] == tokens for index, tokens in ours.outputs.items())
            row += [f"{same / len(ours.outputs):.0%}", f"{bleu(result, subject):.2f}"]
        rows.append(row)
    return rows


def own_systems(measured: list[Measured]) -> list[Measured]:
    """Those of Headwise."""
    return [result for result in measured if result.name.startswith("Headwise")]


def bleu(result: Measured, subject: Subject) -> float:
    """sacreBLEU of the sentences that were timed."""
    assert subject.tokenizer is not None
    texts = [subject.tokenizer.decode(tokens) for tokens in result.outputs.values()]
    return metrics.bleu(texts, [subject.references[index] for index in result.outputs]).value


def compare(workers: Workers, subject: Subject, cases: list[tuple[int, int, int]], rounds: int, held: bool) -> Answer:
    """One table: every case with lengths held, or free."""
    if held:
        print("same lengths: every batch is held to the length of its longest reference\n")
    else:
        print("same weights, free to end each sentence; equal: outputs like Headwise's; BLEU of the timed sentences\n")
    rows, kept = [], {}
    for beams, size, batches in cases:
        label = f"beam {beams}" if beams > 1 else "greedy"
        label = f"{label}, batch {size}"
        measured = measure(workers, subject, (beams, size, batches), rounds, held)
        rows += rows_of(measured, subject, label, held)
        kept[label] = [{**asdict(result), "outputs": None} for result in measured]
    owned = [f"{result.name} to it" for result in own_systems(measured)]
    header = ["case", "system", "sentences / CPU s", *owned, "ms / step", "peak MiB"]
    print_table([*header, *([] if held else ["equal", "BLEU"])], rows)
    return kept


def jobs(subject: Subject, folder: Path, peer: bool) -> list[dict[str, Any]]:
    """The workers: Headwise, Hugging Face at its defaults and with the same machine settings, CTranslate2."""
    systems = [("Headwise", "headwise", True, "fp32")]
    if has_int8():
        systems.append(("Headwise int8", "headwise", True, "int8"))
    if peer and can_generate(subject):
        family = "HF Marian" if subject.config.norm_order == "post" else "HF Pegasus"
        systems += [(family, "marian", False, "fp32"), (f"{family}, our settings", "marian", True, "fp32")]
    if peer and has_engine(subject):
        systems += [("CTranslate2", "ctranslate2", False, "fp32"), ("CTranslate2 int8", "ctranslate2", False, "int8")]
    shared = {"folder": str(folder), "config": subject.config.model_dump(mode="json")}
    names = ("name", "kind", "tuned", "precision")
    return [{**dict(zip(names, system, strict=True)), **shared} for system in systems]


def has_engine(subject: Subject) -> bool:
    """Whether CTranslate2 can take part; says why if not."""
    why = engine.refusal(subject.config) if engine.installed() else engine.SKIPPED
    if why is not None:
        print(f"CTranslate2: {why}\n")
    return why is None


def can_generate(subject: Subject) -> bool:
    """Whether Hugging Face can take part; says why if not."""
    if not huggingface.installed():
        print(f"Hugging Face: {huggingface.SKIPPED}\n")
        return False
    why = huggingface.refusal(subject.config)
    if why is not None:
        print(f"Hugging Face: peer skipped: it cannot be this network: {why}\n")
    return why is None


def check(workers: Workers) -> None:
    """Says how far logits are apart. Exits if they are not the same network."""
    for worker in workers.all:
        answer = worker.ask("about")
        difference = answer["logits_difference"]
        print(f"{worker.name}: largest difference of logits {difference:.1e}", end="")
        print(f"; {answer['settings']}" if answer["settings"] else "")
        if difference > LOGITS_TOLERANCE and "int8" not in worker.name:
            raise SystemExit(f"{worker.name} does not compute the same network; nothing is timed")
    print(flush=True)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="tiny", help="of fresh weights")
    parser.add_argument("--norm", choices=("post", "pre"), default="post", help="of fresh weights; default: post")
    parser.add_argument("--run", type=Path, help="run folder of a trained translator instead; adds the free table")
    parser.add_argument("--rounds", type=int, default=8, help="rounds that are timed; default: 8")
    parser.add_argument("--vocab", type=int, default=8000, help="size of the joint BPE of fresh weights; default: 8000")
    parser.add_argument("--data", type=Path, help="folder of Multi30k; default: multi30k in $HEADWISE_DATA")
    parser.add_argument("--no-peer", action="store_true", help="Headwise alone")
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
    data = chosen.data or data_cache() / "multi30k"
    rounds, cases = (1, [(2, 1, 2), (1, 3, 1)]) if chosen.quick else (chosen.rounds, CASES)
    if chosen.run:
        subject = trained(chosen.run, data)
    else:
        shape, vocab, limit = (QUICK, 200, 300) if chosen.quick else (SHAPES[chosen.shape], chosen.vocab, None)
        subject = fresh(shape.config().model_copy(update={"norm_order": chosen.norm}), data, vocab, limit)
    sizes = {name: getattr(subject.config, name) for name in ("encoder_layers", "decoder_layers", "d_model", "d_ff")}
    name = chosen.run or ("quick" if chosen.quick else chosen.shape)
    print(f"{name}: {sizes}, norm {subject.config.norm_order}")
    print(f"{subject.corpus.origin}; vocabulary {subject.corpus.vocab_size:,}; {runtime.processor()}; one thread\n")
    tables = {}
    with tempfile.TemporaryDirectory() as name:
        prepare(subject, Path(name))
        with Workers("benchmarks.decoding", jobs(subject, Path(name), not chosen.no_peer)) as workers:
            check(workers)
            for held in (True, False) if chosen.run else (True,):
                tables["held" if held else "free"] = compare(workers, subject, cases, rounds, held)
    write_json(chosen.json, {"sizes": sizes, "data": subject.corpus.origin, "torch": torch.__version__, **tables})


if __name__ == "__main__":
    main()
