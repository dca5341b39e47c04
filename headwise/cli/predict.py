"""`headwise predict`: sentences, a file or standard input through a trained model, in order."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.output import opened
from headwise.errors import ConfigError
from headwise.labels import visible

if TYPE_CHECKING:
    from headwise.decoding.search import DecodingConfig
    from headwise.predictors.translator import Translation, Translator

STDIN = "-"


def predict(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    inputs: Annotated[list[str], typer.Argument(help="Sentences, files, or - for standard input.", metavar="INPUT...")],
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the screen.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Lines to read before translating.")] = 256,
    method: Annotated[str | None, typer.Option(help="beam, greedy or sample.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Translations of each sentence.")] = 1,
    length_penalty: Annotated[float | None, typer.Option(min=0, help="0 ranks by probability, 1 by its mean.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of sampling: below 1 is safer.")] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Sample from the k likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample from the likeliest tokens with this mass only.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of sampling.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each translation.")] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="Add word links (source-target), Pharaoh.")] = False,
) -> None:
    """Translate sentences, files or standard input, one line a sentence, in order.

    An empty line stays empty. With --n-best the line number, from 0, comes first; columns are separated by tabs.
    Control characters are written as escapes, such as \\x1b.
    """
    import torch

    import headwise
    from headwise import runtime

    runtime.apply(fast_products=False)
    if seed is not None:
        torch.manual_seed(seed)
    translator = headwise.load(run)
    given = {"beam_size": beam, "length_penalty": length_penalty}
    given |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    config = decoding_config(translator.decoding, method, given, n_best)
    chunk = 1 if inputs == [STDIN] and sys.stdin.isatty() else batch
    sentences = enumerate(read(inputs))
    with opened(output) as stream:
        while taken := list(islice(sentences, chunk)):
            found = translator.n_best([sentence for _, sentence in taken], config)
            rows = [row for place, list_ in zip(taken, found, strict=True) for row in ranked(place, list_, n_best)]
            links = word_links(translator, rows) if alignments else None
            stream.writelines(lines(rows, links, numbered=n_best > 1, scores=scores))
            stream.flush()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the output: the number and text of the sentence, and one of its translations, if it has any."""

    number: int
    sentence: str
    translation: "Translation | None"


def ranked(place: tuple[int, str], found: "list[Translation]", n_best: int) -> list[Row]:
    """The rows of a sentence, best first; an empty sentence has one row without a translation."""
    if not found:
        return [Row(*place, None)]
    return [Row(*place, translation) for translation in found[:n_best]]


def lines(rows: list[Row], links: list[str] | None, *, numbered: bool, scores: bool) -> Iterator[str]:
    """The rows as text, columns separated by tabs: number, score, translation, links; an empty row is an empty line."""
    for place, row in enumerate(rows):
        columns = [str(row.number)] if numbered else []
        if row.translation is not None:
            columns += [f"{row.translation.score:.4f}"] if scores else []
            columns += [visible(row.translation.text)]
            columns += [links[place]] if links is not None else []
        yield "\t".join(columns) + "\n"


def word_links(translator: "Translator", rows: list[Row]) -> list[str]:
    """Pharaoh links of each row; none for a row without a translation."""
    from headwise.explain.translation import align

    real = [
        (place, row.sentence, row.translation.text) for place, row in enumerate(rows) if row.translation is not None
    ]
    found = [""] * len(rows)
    if real:
        places, sentences, texts = zip(*real, strict=True)
        for place, links in zip(places, align(translator, sentences, texts), strict=True):
            found[place] = links
    return found


def decoding_config(
    base: "DecodingConfig", method: str | None, given: Mapping[str, int | float | None], n_best: int
) -> "DecodingConfig":
    """The run's own decoding with the options of the command line; options of sampling imply it.

    Raises:
        ConfigError: for options that belong to another method, or values that are not allowed.
    """
    from headwise.config import build
    from headwise.decoding.search import DecodingConfig

    options = {name: value for name, value in given.items() if value is not None}
    of_sampling = [name for name in ("temperature", "top_k", "top_p") if name in options]
    chosen = method or ("sample" if of_sampling else "beam" if "beam_size" in options or n_best > 1 else base.method)
    if of_sampling and chosen != "sample":
        raise ConfigError(f"--{of_sampling[0].replace('_', '-')} needs --method sample, not {chosen}")
    if "beam_size" in options and chosen != "beam":
        raise ConfigError(f"--beam needs --method beam, not {chosen}")
    if chosen == "greedy" and n_best > 1:
        raise ConfigError("--n-best needs --method beam or sample; greedy finds one translation")
    values = {**base.model_dump(), **options, "method": chosen, "n_best": 1, "num_samples": 1}
    if chosen == "sample":
        values["num_samples"] = n_best
    else:
        values |= {"n_best": n_best, "beam_size": max(n_best, int(options.get("beam_size", base.beam_size)))}
    return build(DecodingConfig, values, "options")


def read(inputs: list[str]) -> Iterator[str]:
    """The sentences: arguments as they are, the lines of files, the lines of standard input for `-`."""
    from headwise.data.files import decode_lines, read_lines

    for text in inputs:
        if text == STDIN:
            yield from (line for _, line in decode_lines(sys.stdin.buffer, "standard input"))
        elif os.path.isfile(text):
            yield from (line for _, line in read_lines(text))
        else:
            yield text
