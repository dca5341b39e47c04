"""`headwise align`: which word stands for which in given sentence pairs, and how well that agrees with gold links."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.evaluate import show
from headwise.cli.explain import heads_of
from headwise.cli.output import opened
from headwise.errors import DataError
from headwise.files import json_text

if TYPE_CHECKING:
    from headwise.data.readers import Pair

Links = list[tuple[int, int]]
Gold = tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]


Columns = Annotated[
    tuple[int, int] | None, typer.Option(metavar="INT INT", help="Source and target column, from 0: --columns 0 1.")
]


def align(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    data: Annotated[Path, typer.Argument(help="A file of sentence pairs, or the first of two parallel files.")],
    target_data: Annotated[Path | None, typer.Option(help="The second of two parallel files.")] = None,
    columns: Columns = None,
    layer: Annotated[int, typer.Option(help="Layer: a number from 0; -1 is the last.")] = -1,
    heads: Annotated[str | None, typer.Option(help="Its heads, such as 0 or 1,3; default: the mean of all.")] = None,
    shift: Annotated[
        bool, typer.Option("--shift", help="Use the step that reads a word instead of the step that writes it.")
    ] = False,
    diagonal: Annotated[float, typer.Option(min=0, help="Strength of the preference for the diagonal; 0: none.")] = 8.0,
    mutual: Annotated[bool, typer.Option("--mutual", help="Keep only links strongest in both directions.")] = False,
    gold: Annotated[Path | None, typer.Option(help="Gold links to score against: 0-1 is sure, 0p1 possible.")] = None,
    gold_reversed: Annotated[bool, typer.Option("--gold-reversed", help="Gold links give the target first.")] = False,
    longest: Annotated[int | None, typer.Option(min=1, help="Leave out pairs with more words on either side.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per pair, or the scores.")] = False,
) -> None:
    """Print word alignments of sentence pairs (0-0 1-2: source-target), or score them with --gold.

    Words are separated by spaces. The decoder is forced to produce each given target; every target word is linked to
    the source word that it attends to most.
    """
    import headwise
    from headwise import runtime
    from headwise.data.readers import Reading, read_pairs
    from headwise.tasks.translation.alignment import Aligning

    runtime.apply(fast_products=False)
    how = Aligning(layer, heads_of(heads), shift, diagonal, mutual)
    pairs = read_pairs(data, Reading(columns=columns, empty="keep"), target_path=target_data)
    gold_links = None if gold is None else _gold(gold, gold_reversed, pairs)
    places = _short(pairs, longest, data)
    chosen = [pairs[place] for place in places]
    alignments = headwise.load(run).align(chosen, how)
    with opened(output) as stream:
        if gold_links is None:
            stream.writelines(f"{line}\n" for line in _lines(chosen, alignments, as_json))
            return
        scores = compared(chosen, alignments, [gold_links[place] for place in places])
        if as_json:
            stream.write(json_text({"pairs": len(chosen), **scores}) + "\n")
        else:
            show(scores, f"{run} on {len(chosen):,} pairs of {data}, in percent; diagonal: without a model")


def compared(pairs: "list[Pair]", alignments: list[Links], gold: list[Gold]) -> dict[str, float]:
    """Alignment error rate, precision and recall of the links, and those of the diagonal, in percent."""
    from headwise.explain.alignment import diagonal
    from headwise.metrics import alignment_scores

    sure, possible = zip(*gold, strict=True)
    plain = [diagonal(*map(len, _words(pair))) for pair in pairs]
    scores = alignment_scores(alignments, sure, possible)
    on_diagonal = alignment_scores(plain, sure, possible)
    return scores | {f"{name}_diagonal": value for name, value in on_diagonal.items()}


def _gold(path: Path, reverse: bool, pairs: "list[Pair]") -> list[Gold]:
    """The sure and the possible links of each pair. Raises: DataError if they are of other pairs."""
    from headwise.tasks.translation.alignment import read_links

    lines = read_links(path, reverse=reverse)
    if len(lines) != len(pairs):
        raise DataError(f"{path}: {len(lines):,} lines of links for {len(pairs):,} pairs; each pair needs its line")
    for number, (links, pair) in enumerate(zip(lines, pairs, strict=True), 1):
        sizes = tuple(map(len, _words(pair)))
        for link in sorted(links.possible):
            if link[0] >= sizes[0] or link[1] >= sizes[1]:
                raise DataError(
                    f"{path}:{number}: link {link[0]}-{link[1]} (source-target) is outside the {sizes[0]} source and"
                    f" {sizes[1]} target words; --gold-reversed swaps the sides"
                )
    return [(links.sure, links.possible) for links in lines]


def _short(pairs: "list[Pair]", longest: int | None, data: Path) -> list[int]:
    """The places of pairs within the limit. Raises: DataError if there are none."""
    sizes = [max(map(len, _words(pair))) for pair in pairs]
    places = [place for place, size in enumerate(sizes) if longest is None or size <= longest]
    if not places:
        raise DataError(f"{data}: no pair to align" + (f" of at most {longest} words" if longest else ""))
    return places


def _lines(pairs: "list[Pair]", alignments: list[Links], as_json: bool) -> Iterator[str]:
    from headwise.tasks.translation.alignment import pharaoh

    for pair, links in zip(pairs, alignments, strict=True):
        line = {"source": pair.source, "target": pair.target, "links": links}
        yield json_text(line) if as_json else pharaoh(links)


def _words(pair: "Pair") -> tuple[list[str], list[str]]:
    return pair.source.split(), pair.target.split()


COMMANDS = {"": {"align": align}}
