"""Writes docs/mechanisms.md: every mechanism trained alike on Shakespeare, `recall` and `lookup`, from kept records.

    python -m tools.mechanism_table --train FOLDER             # trains what docs/mechanisms.jsonl lacks, then the page
    python -m tools.mechanism_table --train FOLDER --only moba,path
    python -m tools.mechanism_table                            # the page alone

A side differs from the others in one key of the recipe. A side that fails is a record with the reason.
"""

import argparse
import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import torch

from headwise import runtime
from headwise.attention import mechanisms
from headwise.data.synthetic import UNTAGGED
from headwise.errors import HeadwiseError, ShapeError, Unsupported
from headwise.layers.loss import output_loss
from headwise.models.decoder_only import DecoderOnly
from headwise.tasks import generators
from headwise.training import recipes
from headwise.training.ledger import account_each
from headwise.training.loading import examples, load
from headwise.training.train import train

DOCS = Path(__file__).parents[1] / "docs"
RECORDS, PAGE = DOCS / "mechanisms.jsonl", DOCS / "mechanisms.md"
TIMES = (1, 2, 4)
SIZES = ("model.d_model=64", "model.d_ff=128", "model.num_heads=4", "model.dropout=0")
LANGUAGE_STEPS = 250
LANGUAGE = (
    *SIZES,
    "model.num_layers=2",
    "tokenizer.vocab_size=512",
    "show=['']",
    "show_len=1",
    "training.batch_tokens=1024",
    f"training.max_steps={LANGUAGE_STEPS}",
    f"training.validate_every={LANGUAGE_STEPS}",
)
# a convolution finds neighbours at any length, where a position scheme would have to extrapolate
DRAWN = (
    *SIZES,
    "model.encoder_layers=2",
    "model.position=none",
    "model.conv=4",
    "training.batch_tokens=512",
    "training.learning_rate=4e-3",
    "training.baseline_cpu_s=0",
)
# examples, symbols and steps of each drawn problem
PROBLEMS = {"lookup": (20_000, 26, 300), "recall": (10_000, 12, 150)}
_HALF, _WINDOWS, _ROUNDS = 64, 8, 9


def sides() -> dict[str, tuple[str, ...]]:
    """The settings of each side by its name: every mechanism, then the other keys of a layer, then positions."""
    named = {name: (f"model.mechanism={name}",) for name in ("scored", *mechanisms.names())}
    # reflections are its positions
    named["path"] = ("model.mechanism=path", "model.position=none")
    named["log_linear:base=gated_delta"] = ("model.mechanism=log_linear:base=gated_delta",)
    keys = ["normalizer=sigmoid", "normalizer=sinks", "gate=head", "gate=element", "value_residual=true"]
    keys += ["num_kv_heads=1"]
    schemes = ["none", "alibi", "fire", "kerple", "sandwich", "cope", "xpos", "rotary:columns=8"]
    keys += [f"position={scheme}" for scheme in schemes]
    named |= {key: (f"model.{key}",) for key in keys}
    # of the keys made small, only columns of their own can turn, and no convolution mixes them
    return named | {"latent=16": ("model.latent=16", "model.position=rotary:columns=8", "model.conv=0")}


def read(path: Path = RECORDS) -> dict[str, dict[str, Any]]:
    """Records by the names of their sides; of several of one side the last."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {record["side"]: record for record in map(json.loads, lines)}


def train_missing(folder: Path, only: Sequence[str], records: Path, say: Callable[[str], None] = print) -> None:
    """Trains each side that has no record, one after another, and appends its record; runs that ended are not repeated.

    Args:
        folder: of drawn data and runs.
        only: names of sides; empty: all. Those named are recorded anew.
    Raises: KeyError for a side that there is not.
    """
    runtime.apply(threads=1)
    data = draw(folder)
    known, wanted = read(records), {name: sides()[name] for name in only} if only else sides()
    for name, settings in wanted.items():
        if name in known and not only:
            continue
        record = measure(name, settings, folder, data)
        with records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        say(f"{name}: {record}")


def draw(folder: Path, problems: Mapping[str, tuple[int, int, int]] | None = None) -> dict[str, Path]:
    """The folder of each drawn problem, as one sequence with its answer, and inputs that are longer."""
    drawn = {}
    for problem, (count, symbols, _) in (problems or PROBLEMS).items():
        drawn[problem] = folder / problem
        options = {"symbols": symbols, "held_out": 500, "lengths": TIMES, "tagged": True}
        generators.make(problem, drawn[problem], 1, count, options)
    return drawn


def measure(side: str, settings: Sequence[str], folder: Path, data: Mapping[str, Path]) -> dict[str, Any]:
    """The record of a side: its scores and costs, and for what it cannot do the reason."""
    day, processor = str(datetime.datetime.now(datetime.UTC).date()), runtime.processor()
    record: dict[str, Any] = {"side": side, "settings": list(settings), "day": day, "processor": processor}
    tries = {"language": lambda: language(side, settings, folder)}
    for problem, drawn in data.items():
        tries[problem] = lambda problem=problem, drawn=drawn: exact(side, settings, folder, problem, drawn)
    reasons = {}
    for name, attempt in tries.items():
        try:
            record |= attempt()
        except (HeadwiseError, RuntimeError) as error:
            reasons[name] = plain(error)
    return record | ({"reasons": reasons} if reasons else {})


def plain(error: object) -> str:
    """The first clause of a message, without the file that it names.

    >>> plain("/a/recipe.toml: no such key; set another")
    'no such key'
    """
    clause = str(error).partition("\n")[0].partition(";")[0]
    return clause.partition(": ")[2] if clause.startswith("/") else clause


def language(side: str, settings: Sequence[str], folder: Path) -> dict[str, Any]:
    """Perplexity of the language model and of its n-gram baseline, the time of its steps, the bytes of its state."""
    baseline = folder / "runs" / "language-scored"
    if side != "scored" and not baseline.exists():
        _train_language((), baseline)
    run = folder / "runs" / f"language-{_file(side)}"
    # the n-gram model is the same for all
    _train_language(settings if side == "scored" else ["ngram=0", *settings], run)
    scored = account_each(run)
    rate, ratio = speed(scored.predictor.model, load(baseline).model)
    counted = next(iter(scored.row.baselines.values()), None)
    return {
        "perplexity": scored.row.scores["perplexity"],
        **({} if counted is None else {"ngram": counted["perplexity"]}),
        "parameters": scored.row.parameters,
        "speed": ratio,
        "tokens_per_cpu_s": rate,
        **_state(scored.predictor, scored.examples),
    }


def _train_language(settings: Sequence[str], run: Path) -> None:
    train(recipes.read("tiny-shakespeare", [*LANGUAGE, *settings]), run)


def speed(model: DecoderOnly, baseline: DecoderOnly) -> tuple[float, float]:
    """Tokens for a second of processor time, forward and backward, and how many times as many as of another model.

    Both take turns, as other work on the machine slows both; medians of the rounds.
    """
    rows = torch.randint(100, (_WINDOWS, 2 * _HALF + 1), generator=torch.Generator().manual_seed(0))
    spent: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS + 1):
        for one, times in zip((model, baseline), spent, strict=True):
            start = process_time()
            hidden = one.hidden(rows[:, :-1])
            output_loss(one.output, hidden.flatten(0, 1), rows[:, 1:].flatten()).backward()
            # the first fills caches
            times += [process_time() - start] if number else []
            one.zero_grad()
    tokens = rows[:, 1:].numel()
    return tokens / median(spent[0]), median(b / a for a, b in zip(*spent, strict=True))


def _state(predictor: Any, texts: Sequence[str]) -> dict[str, Any]:
    """What a decoder keeps after 128 tokens, and how much of it each of the last 64 added."""
    try:
        whole, half = (_kept(predictor, texts, tokens) for tokens in (2 * _HALF, _HALF))
    except Unsupported as error:
        return {"no_state": plain(error)}
    return {"state_bytes": whole, "token_bytes": (whole - half) / _HALF}


def _kept(predictor: Any, texts: Sequence[str], tokens: int) -> int:
    # the last token is not read yet
    predictor.length = tokens + 1
    return int(predictor.state_bytes(texts))


def exact(side: str, settings: Sequence[str], folder: Path, problem: str, drawn: Path) -> dict[str, Any]:
    """The share of answers that are completely right, on inputs of 1, 2 and 4 times the longest length of training."""
    files = [f"data.{split}={drawn / name}.tsv" for split, name in _SPLITS.items()]
    steps = PROBLEMS[problem][2]
    limits = [f"training.max_steps={steps}", f"training.validate_every={steps}"]
    run = folder / "runs" / f"{problem}-{_file(side)}"
    train(recipes.read("mqar", [*DRAWN, *files, *limits, *settings]), run)
    predictor, shares, reason = load(run), list[float | None](), {}
    for number in TIMES:
        rows = examples(run, "test", {"test": str(drawn / f"times-{number}.tsv")})
        try:
            shares.append(right(predictor.tag(rows), [row.tags for row in rows]))
        except ShapeError as error:
            shares.append(None)
            reason = {f"{problem}_longer": plain(error)}
    return {problem: shares, **reason}


_SPLITS = {"train": "train", "valid": "valid", "test": "times-1"}


def right(predicted: Iterable[Sequence[str]], answers: Iterable[Sequence[str]]) -> float:
    """The share of rows whose answers are all right.

    >>> right([["a", "7", "."], ["b", "1", "."]], [["-", "7", "."], ["-", "2", "."]])
    0.5
    """
    rows = [
        all(tag in (UNTAGGED, own) for own, tag in zip(row, tags, strict=True))
        for row, tags in zip(predicted, answers, strict=True)
    ]
    return sum(rows) / len(rows)


def _file(side: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in side)


_HEADING = """# Mechanisms side by side

Every mechanism, and every key of a layer that changes attention, trained alike: a side differs from `scored` in its key
alone. Models and budget are small: the table shows that each trains by one key, what it costs and how far it reaches,
not which is best; `headwise compare` ([experiments.md](experiments.md)) says that, with intervals. This page is made of
`docs/mechanisms.jsonl` by `make mechanism-table FOLDER=FOLDER`, which trains what has no record there.

* **perplexity**: recipe `tiny-shakespeare` with 2 layers of width 64, 4 heads, 512 pieces of words, rotary positions,
  {steps} steps of 1,024 tokens; per piece, on the test part. The 5-gram baseline, which counts the whole training text
  at once, has {ngram}: no side reaches it in this budget.
* **lookup, recall**: the share of 500 answers that are completely right, on inputs as long as the longest of training,
  twice and four times as long (6, 12, 24 pairs; 40, 80, 160 symbols): 2 causal layers of width 64 without positions,
  with `conv = 4`, {lookup} and {recall} steps.
* **speed**: tokens for a second of processor time, forward and backward, as a ratio to `scored`: the language models
  take turns in one process, on one thread, with 8 windows of 128 tokens.
* **state**: bytes that a decoder keeps of one sequence after 128 tokens, in both layers; **a token**: what one adds.

Seed 0, {days}, {processors}. A dash: not possible, or not so far; the reasons stand below the table.
"""
_HEADER = [
    "key",
    "perplexity",
    *(f"{name} x{times}" for name in PROBLEMS for times in TIMES),
    "speed",
    "state",
    "a token",
]


def page(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The page as Markdown, sides in their order."""
    shown = {side: records[side] for side in sides() if side in records}
    baseline = shown["scored"]
    heading = _HEADING.format(
        steps=LANGUAGE_STEPS,
        ngram=_number(baseline.get("ngram"), ".1f"),
        days=" and ".join(sorted({record["day"] for record in shown.values()})),
        processors=" and ".join(sorted({record["processor"] for record in shown.values()})),
        **{name: steps for name, (_, _, steps) in PROBLEMS.items()},
    )
    lines = [_line(_HEADER), _line(["---"] * len(_HEADER))]
    lines += [_line(_cells(side, record)) for side, record in shown.items()]
    missing = ", ".join(f"`{side}`" for side in sides() if side not in records)
    notes = [*_reasons(shown), *([f"* Not measured yet: {missing}."] if missing else [])]
    return "\n".join([heading, *lines, *(["", "## What is missing", "", *notes] if notes else []), ""])


def _cells(side: str, record: Mapping[str, Any]) -> list[str]:
    exact = [_number(share, ".3f") for name in PROBLEMS for share in record.get(name, [None] * len(TIMES))]
    costs = [("speed", ".2f"), ("state_bytes", ",d"), ("token_bytes", ",.0f")]
    key = side if "=" in side.partition(":")[0] else f"mechanism={side}"
    numbers = [_number(record.get(name), form) for name, form in costs]
    return [f"`{key}`", _number(record.get("perplexity"), ".1f"), *exact, *numbers]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _reasons(records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each reason, with the sides that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for side, record in records.items():
        reasons = dict(record.get("reasons", {}))
        reasons |= {f"{name}, longer": record[f"{name}_longer"] for name in PROBLEMS if f"{name}_longer" in record}
        reasons |= {"state": record["no_state"]} if "no_state" in record else {}
        for reason in dict.fromkeys(reasons.values()):
            where = ", ".join(name for name, own in reasons.items() if own == reason)
            by_reason.setdefault(f"({where}): {reason}", []).append(f"`{side}`")
    return [f"* {', '.join(names)} {reason}" for reason, names in by_reason.items()]


def main() -> None:
    """Reads the options, trains what is asked for, and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--train", type=Path, metavar="FOLDER", help="train what has no record, in this folder")
    parser.add_argument("--only", default="", help="sides, with commas between, which are recorded anew")
    options = parser.parse_args()
    if options.train is not None:
        train_missing(options.train, [name for name in options.only.split(",") if name], RECORDS)
    PAGE.write_text(page(read()), encoding="utf-8")


if __name__ == "__main__":
    main()
