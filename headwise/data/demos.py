"""Small data that the package makes itself, with a recipe for each task: what `headwise demo TASK` trains on."""

import csv
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.data import grammar, small_worlds
from headwise.data.demo_recipes import RECIPES
from headwise.errors import ConfigError, unknown
from headwise.tasks.images import shapes
from headwise.tasks.series import drawn as drawn_series
from headwise.tasks.translation import talk

# word of the grammar -> what stands in its place, so that some words have two kinds and only the others tell which
_AMBIGUOUS = {"mouse": "fish", "finds": "hides"}


@dataclass(frozen=True)
class Demo:
    """A task in small.

    Args:
        shows: what there is to learn, in one line.
        write: writes the data into a folder.
        recipe: the recipe, as TOML; its files stand in that folder.
        given: an input to look at, as on the command line; FOLDER stands for the folder of the data.
    """

    shows: str
    write: Callable[[Path], None]
    recipe: str
    given: str


def make(task: str, folder: Path) -> tuple[Demo, Path]:
    """Writes a task's data and recipe into a folder, the same wherever made; gives the demo and the recipe's file.

    Raises:
        ConfigError: for a task without a demo.

    >>> make("poems", Path("."))
    Traceback (most recent call last):
    headwise.errors.ConfigError: unknown demo 'poems'; known: caption, classify, dialogue, forecast, graph-regress, \
image-classify, image-segment, language-model, masked-lm, node-classify, rank, regress, speech-classify, summarise, \
tag, translate, word-vectors
    """
    if task not in DEMOS:
        raise ConfigError(unknown("demo", task, ["translate", *DEMOS]))
    demo = DEMOS[task]
    folder.mkdir(parents=True, exist_ok=True)
    demo.write(folder)
    path = folder / "recipe.toml"
    path.write_text(f'task = "{task}"\n{demo.recipe}', encoding="utf-8")
    return replace(demo, given=demo.given.replace("FOLDER", str(folder))), path


def _tagged(folder: Path) -> None:
    """Sentences with the kind of each word."""
    kinds = {word: kind for kind, words in grammar.KINDS.items() for word in words}
    lines = []
    for sentence in grammar.sentences(600):
        words = sentence.split()
        row = {"words": [_AMBIGUOUS.get(word, word) for word in words], "tags": [kinds[word] for word in words]}
        lines.append(json.dumps(row) + "\n")
    (folder / "tagged.jsonl").write_text("".join(lines), encoding="utf-8")


def _reviews(folder: Path) -> None:
    """Films that are good or not, with stars: `not` turns a word round, and `very` adds to it."""
    draws = random.Random(0)
    rows: list[Sequence[object]] = [("text", "label", "stars")]
    for number in range(800):
        word, sign = draws.choice([("good", 1), ("fine", 1), ("bad", -1), ("dull", -1)])
        no, very = draws.random() < 0.5, draws.random() < 0.5
        value = (-sign if no else sign) * (2 if very else 1)
        text = f"the {draws.choice(['film', 'plot', 'end', 'cast'])} is {'not ' * no}{'very ' * very}{word} {number}"
        rows.append((text, "praise" if value > 0 else "blame", value))
    _table(folder / "reviews.csv", rows)


def _molecules(folder: Path) -> None:
    """Chains of carbon, nitrogen and oxygen; a molecule's number is that of its oxygens, less half of its nitrogens."""
    draws = random.Random(0)
    chains = sorted({"C" + "".join(draws.choices("CNO", k=draws.randint(2, 9))) for _ in range(400)})
    rows = [(chain, chain.count("O") - chain.count("N") / 2) for chain in chains]
    _table(folder / "molecules.csv", [("smiles", "target"), *rows])


def _waves(folder: Path) -> None:
    """A series whose every number lies on a parabola over the one six steps before."""
    rows = [(step, f"{echo:.4f}") for step, (_, echo) in enumerate(drawn_series.draw(2500))]
    _table(folder / "series.csv", [("step", "echo"), *rows])


def _text(folder: Path) -> None:
    """Lines of the grammar."""
    text = "".join(f"{sentence}\n" for sentence in grammar.sentences(3000))
    (folder / "sentences.txt").write_text(text, encoding="utf-8")


def _talks(folder: Path) -> None:
    """Dialogues in which a name, a town or a dish is told, and asked for later."""
    talk.make(folder, count=2000)


def _shapes(folder: Path) -> None:
    """Pictures of two shapes with masks; the kind of a picture is the form that stands above or on the left."""
    for table in shapes.make(folder, count=_PICTURES):
        lines = table.read_text(encoding="utf-8").splitlines()[1:]
        rows = [(path, caption.split()[2]) for path, caption, _ in (line.split(",") for line in lines)]
        _table(folder / f"first-{table.name}", [("path", "label"), *rows])


def _communities(folder: Path) -> None:
    """A graph whose edges join what is alike, and a list of its nodes."""
    nodes, edges = small_worlds.communities()
    _table(folder / "nodes.csv", nodes)
    _table(folder / "edges.csv", edges)


def _clicks(folder: Path) -> None:
    """What visitors chose, each by a taste."""
    _table(folder / "clicks.csv", small_worlds.clicks())


def _tones(folder: Path) -> None:
    """Recordings of tones, and their list."""
    _table(folder / "tones.csv", small_worlds.tones(folder))


def _reports(folder: Path) -> None:
    """Three sentences a line, and what one of them says."""
    text = "".join(f"{text}\t{summary}\n" for text, summary in small_worlds.reports())
    (folder / "reports.tsv").write_text(text, encoding="utf-8")


def _table(path: Path, rows: Sequence[Sequence[object]]) -> None:
    """Writes rows as comma-separated values."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


_PICTURES = 1500
_SHOWN = "pictures/01502.png"
# a history by the rule of the demo's series and what comes after it; it begins with no minus, as an option would
_GIVEN = " ".join(f"{echo:.3f}" for _, echo in drawn_series.draw(16, seed=3))

# task -> its demo; a new one is one entry here and one recipe above
DEMOS: Mapping[str, Demo] = {
    "tag": Demo("the kind of a word that has two kinds", _tagged, RECIPES["tag"], "the fish hides behind the barn"),
    "classify": Demo("that `not` turns a review round", _reviews, RECIPES["classify"], "the film is not very good"),
    "regress": Demo("how good a film is, from -2 to 2", _reviews, RECIPES["regress"], "the film is not very good"),
    "forecast": Demo("a number from the one six steps before", _waves, RECIPES["forecast"], _GIVEN),
    "graph-regress": Demo("to count atoms of a molecule", _molecules, RECIPES["graph-regress"], "CCONO"),
    "image-classify": Demo(
        "the form that is above or on the left", _shapes, RECIPES["image-classify"], f"FOLDER/{_SHOWN}"
    ),
    "image-segment": Demo(
        "which form each pixel belongs to",
        _shapes,
        RECIPES["image-segment"],
        f'{{"path": "FOLDER/{_SHOWN}", "mask": "FOLDER/{_SHOWN.replace("pictures", "masks")}"}}',
    ),
    "dialogue": Demo(
        "to answer by what was told some turns before",
        _talks,
        RECIPES["dialogue"],
        "my name is anna ||| hello anna ||| i like tea ||| tea is good ||| what is my name ?",
    ),
    "language-model": Demo(
        "which kinds of words follow each other", _text, RECIPES["language-model"], "the horse waits near"
    ),
    "caption": Demo("to say which shapes stand where", _shapes, RECIPES["caption"], f"FOLDER/{_SHOWN}"),
    "node-classify": Demo("the community of a node, by its neighbours", _communities, RECIPES["node-classify"], "n0"),
    "rank": Demo("what a visitor chooses next, by a taste", _clicks, RECIPES["rank"], "book1 film3 book4 book0"),
    "speech-classify": Demo(
        "whether a tone is high, low, rising or falling", _tones, RECIPES["speech-classify"], "FOLDER/000.wav"
    ),
    "summarise": Demo(
        "what is said of today, in one of three sentences",
        _reports,
        RECIPES["summarise"],
        "the cat likes hay . today the dog steals bread . the fox finds corn .",
    ),
    "masked-lm": Demo(
        "which words a sentence lacks, from both sides", _text, RECIPES["masked-lm"], "the [MASK] waits near the barn"
    ),
    "word-vectors": Demo("which words stand in the same places", _text, RECIPES["word-vectors"], "cat"),
}
