"""Every task on tiny data of its own: what its files are, a recipe of a few steps, and inputs for the trained model.

Invariants, resumption, kills and the second device run over this table, so a new task gets them with one entry.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import life
import numpy as np
from pictures import encoded, folder_of, stripes
from sounds import listed, timed

from headwise.tasks.text import grammar
from headwise.tasks.translation.talk import dialogue

Values = dict[str, Any]
ATTENTION = {"kind": "attention", "d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "dropout": 0.1}


@dataclass(frozen=True)
class Tiny:
    """A task in its smallest form.

    Args:
        task: the name in a recipe.
        write: writes the data into a folder.
        recipe: its keys but `task` and `training`; files stand in the folder, which is the working folder.
        inputs: arguments for `predict`, as on the command line, of different lengths.
        training: keys of `[training]`; the first metric of the task is watched.
    """

    task: str
    write: Callable[[Path], None]
    recipe: Mapping[str, Any]
    inputs: Sequence[str]
    training: Mapping[str, Any] = field(default_factory=dict)

    def whole(self, folder: Path, steps: int) -> Values:
        """Writes the data and gives the recipe."""
        self.write(folder)
        return {**self.recipe, "task": self.task, "training": life.steps(steps, **self.training)}


def pairs(folder: Path) -> None:
    """Two words, which change places."""
    lines = [f"{a} {b} .\t{b} {a} ." if a < "d" else f"{a} {b}\t{b} {a}" for a in "abcdef" for b in "ghijk"]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")


def tagged(folder: Path) -> None:
    """Sentences in which a word's tag is its own, but for `saw`; the last word of each is in no other."""
    rows = [("this", "DET"), ("dog", "NOUN"), ("saw", "VERB"), ("the", "DET"), ("saw", "NOUN")]
    sentences = [[rows[(start + place) % 5] for place in range(2 + start % 4)] for start in range(40)]
    sentences = [[*found, (f"n{start}", "NOUN")] for start, found in enumerate(sentences)]
    lines = [json.dumps({"words": [w for w, _ in found], "tags": [t for _, t in found]}) for found in sentences]
    (folder / "tagged.jsonl").write_text("\n".join(lines) + "\n")


def spans(folder: Path) -> None:
    """Names of one or two words in columns, between other words."""
    names = [[f"A{n} B-PER", f"B{n % 3} I-PER"] if n % 2 else [f"A{n} B-LOC"] for n in range(40)]
    blocks = ["\n".join(["in O"] * (n % 3) + name + ["saw O"]) for n, name in enumerate(names)]
    (folder / "spans.conll").write_text("\n\n".join(blocks) + "\n")


def text(folder: Path) -> None:
    """Lines that say how often they say it."""
    (folder / "text.txt").write_text("".join(f"{'abc' * (1 + n % 3)} has {n % 7}.\n" for n in range(60)))


def reviews(folder: Path) -> None:
    """Texts with a class and a number each."""
    words = {"fine": ("yes", 3.5), "great": ("yes", 5.0), "dull": ("no", 1.0), "bad": ("no", 0.5)}
    with (folder / "reviews.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label", "stars"])
        for number in range(40):
            word = list(words)[number % 4]
            rows.writerow([f"the film {'really ' * (number % 3)}is {word} {number}", *words[word]])


def images(folder: Path) -> None:
    """Stripes in a folder for each class."""
    folder_of(folder / "images", *stripes(40))


def captioned(folder: Path) -> None:
    """Stripes, of which every second one is described twice."""
    images(folder)
    rows = ["path,caption"]
    for path in sorted((folder / "images").glob("*/*.png")):
        name, number = path.relative_to(folder).as_posix(), int(path.stem)
        rows.append(f"{name},light in {path.parent.name}")
        rows += [f"{name},{path.parent.name} of light at night"] * (number % 2)
    (folder / "captions.csv").write_text("\n".join(rows) + "\n")


def masked(folder: Path) -> None:
    """Stripes, of which the light pixels are of one label and the others of another; a corner counts nowhere."""
    pixels, _ = stripes(40)
    masks = (pixels > 150).astype(np.uint8)
    masks[:, 0, 0] = 9
    rows = ["path,mask"]
    for number, found in enumerate(zip(pixels, masks, strict=True)):
        for kind, picture in zip(("picture", "mask"), found, strict=True):
            (folder / f"{kind}-{number}.png").write_bytes(encoded(picture))
        rows.append(f"picture-{number}.png,mask-{number}.png")
    (folder / "masks.csv").write_text("\n".join(rows) + "\n")


def talks(folder: Path) -> None:
    """Dialogues in which something is told, and asked for later."""
    (folder / "talks.jsonl").write_text("".join(json.dumps({"turns": dialogue(n)}) + "\n" for n in range(30)))


def graph(folder: Path) -> None:
    """Two rings, whose nodes differ by their features."""
    nodes, edges = ["id,f,g,label,split"], ["source,target"]
    for number in range(24):
        side = "lr"[number % 2]
        split = ("train", "valid", "test")[number % 3]
        nodes.append(f"n{number},{number % 2},{number % 5 / 4},{side},{split}")
        edges += [f"n{number},n{(number + 2 * step) % 24}" for step in (1, 2)]
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")


def molecules(folder: Path) -> None:
    """Chains of carbon and oxygen, with the number of their oxygens."""
    chains = dict.fromkeys("".join("CO"[(n >> k) % 2] for k in range(2 + n % 6)) for n in range(64))
    rows = [f"{chain},{chain.count('O')}" for chain in chains]
    (folder / "molecules.csv").write_text("smiles,target\n" + "\n".join(rows) + "\n")


def sentences(folder: Path) -> None:
    """Sentences of a small grammar."""
    (folder / "sentences.txt").write_text("\n".join(grammar.sentences(40)) + "\n")


def sounds(folder: Path) -> None:
    """Tones, high and low."""
    listed(folder, 40)


def labels_in_time(folder: Path) -> None:
    """A low tone and a high one after another, or the other way round."""
    timed(folder, 40)


def clicks(folder: Path) -> None:
    """Sessions that go round a ring of eight items, of which one in three is clicked twice."""
    rows = ["session,item,colour,country"]
    for start in range(40):
        places = [start + step for step in range(2 + start % 5) for _ in range(1 + step % 3 // 2)]
        rows += [f"s{start},i{place % 8},c{place % 8 % 3},{start % 2}" for place in places]
    (folder / "clicks.csv").write_text("\n".join(rows) + "\n")


def steps(folder: Path) -> None:
    """Two zigzags, one after another, and their squares."""
    rows = [f"{name},{place},{(place % period)},{(place % period) ** 2}" for name, period in (("a", 3), ("b", 4))
            for place in range(40)]  # fmt: skip
    (folder / "steps.csv").write_text("name,time,x,y\n" + "\n".join(rows) + "\n")


_PARTS = {"valid_fraction": 0.2, "test_fraction": 0.1}
_TRANSLATE = {
    "data": {"train": "pairs.tsv", **_PARTS},
    "tokenizer": {"kind": "word"},
    "decoding": {"method": "greedy", "max_len": 6},
}
_SIZES = {"d_model": 8, "d_ff": 8, "num_heads": 2}
_TEXTS = {"data": {"train": "reviews.csv", **_PARTS}, "tokenizer": {"kind": "word", "vocab_size": 60}}

CASES = {
    "translate": Tiny(
        "translate",
        pairs,
        {**_TRANSLATE, "model": {"kind": "transformer", **_SIZES, "encoder_layers": 1, "decoder_layers": 1}},
        ["a g .", "f k", "b h c i d"],
    ),
    "translate, recurrent": Tiny(
        "translate",
        pairs,
        {**_TRANSLATE, "model": {"kind": "recurrent", "embed_dim": 6, "hidden_dim": 6, "num_layers": 1}},
        ["a g .", "f k", "b h c i d"],
    ),
    "summarise": Tiny(
        "summarise",
        pairs,
        {
            **_TRANSLATE,
            "data": {"train": "pairs.tsv", "max_source_len": 2, **_PARTS},
            "model": {"kind": "transformer", **_SIZES, "encoder_layers": 1, "decoder_layers": 1},
        },
        ["a g", "f k", "b"],
        {"monitor": "rougeL"},
    ),
    "dialogue": Tiny(
        "dialogue",
        talks,
        {
            "data": {"train": "talks.jsonl", "max_source_len": 13, **_PARTS},
            "tokenizer": {"kind": "word"},
            "decoding": {"method": "greedy", "max_len": 6},
            "model": {"kind": "transformer", **_SIZES, "encoder_layers": 1, "decoder_layers": 1},
        },
        ["my name is ben ||| hello ben ||| what is my name ?", '{"turns": ["i like tea"]}', "hello"],
        {"monitor": "accuracy"},
    ),
    "caption": Tiny(
        "caption",
        captioned,
        {
            "data": {"train": "captions.csv", **_PARTS},
            "shift": 1,
            "tokenizer": {"kind": "word"},
            "encoder": {**ATTENTION, "kind": "vit", "patch": 4},
            "model": {"kind": "decoder", **_SIZES, "num_layers": 1},
            "decoding": {"method": "greedy", "max_len": 6},
        },
        ["images/rows/001.png", "images/columns/000.png"],
        {"batch_sentences": 7, "monitor": "bleu"},
    ),
    "caption, attention over a map": Tiny(
        "caption",
        captioned,
        {
            "data": {"train": "captions.csv", **_PARTS},
            "tokenizer": {"kind": "word"},
            "encoder": {"kind": "attention_cnn", "width": 8, "stages": 2, "attention_after": 1, "dropout": 0.1},
            "model": {"kind": "decoder", **_SIZES, "num_layers": 1, "position": "rotary"},
            "decoding": {"beam_size": 2, "max_len": 6},
        },
        ["images/rows/001.png", "images/columns/000.png"],
        {"batch_sentences": 7},
    ),
    "tag": Tiny(
        "tag",
        tagged,
        {"data": {"train": "tagged.jsonl", **_PARTS}, "tokenizer": {"kind": "char"}, "model": ATTENTION},
        ["the saw saw", "dog", "this dog saw the saw now"],
        {"monitor": "accuracy"},
    ),
    "tag, spans by a CRF": Tiny(
        "tag",
        spans,
        {
            "data": {"train": "spans.conll", **_PARTS},
            "tokenizer": {"kind": "char"},
            "model": {"kind": "cnn", "d_model": 6},
            "output": {"kind": "crf", "legal": True},
            "label_smoothing": 0.1,
        },
        ["in A5 B1 saw", "A6", "saw B2"],
        {"monitor": "span_f1"},
    ),
    "language-model": Tiny(
        "language-model",
        text,
        {
            "data": {"train": "text.txt", **_PARTS},
            "tokenizer": {"kind": "char"},
            "length": 13,
            "model": {"kind": "decoder", **_SIZES, "num_layers": 1, "position": "rotary"},
            "decoding": {"method": "greedy", "max_len": 5},
        },
        ["abc", "a", "abcabc has "],
    ),
    "language-model, with memory": Tiny(
        "language-model",
        text,
        {
            "data": {"train": "text.txt", **_PARTS},
            "tokenizer": {"kind": "char"},
            "length": 13,
            "model": {"kind": "decoder", **_SIZES, "num_layers": 1, "position": "shaw", "memory_len": 6},
            "decoding": {"method": "greedy", "max_len": 5},
        },
        ["abc", "a", "abcabc has "],
    ),
    "masked-lm": Tiny(
        "masked-lm",
        text,
        {
            "data": {"train": "text.txt", **_PARTS},
            "tokenizer": {"kind": "char", "spaces": "kept"},
            "length": 13,
            "masking": {"share": 0.3},
            "model": {**ATTENTION, "position": "rotary"},
            "show": ["[MASK]bc has"],
        },
        ["abc[MASK]", "[MASK]", "abcab[MASK] has[MASK]"],
    ),
    "classify": Tiny(
        "classify",
        reviews,
        {**_TEXTS, "model": ATTENTION, "pooling": {"kind": "attention"}, "token_dropout": 0.1},
        ["the film is dull", "fine", "the film is really really great 3"],
        {"monitor": "accuracy"},
    ),
    "classify, as a language model reads": Tiny(
        "classify",
        reviews,
        {**_TEXTS, "model": {**ATTENTION, "causal": True, "position": "rotary"}, "pooling": {"kind": "last"}},
        ["the film is dull", "fine", "the film is really really great 3"],
        {"monitor": "accuracy"},
    ),
    "regress": Tiny(
        "regress",
        reviews,
        {
            "data": {"train": "reviews.csv", "label_key": "stars", **_PARTS},
            "tokenizer": {"kind": "word", "vocab_size": 60},
            "model": {"kind": "rnn", "d_model": 7, "hidden_dim": 5, "dropout": 0.2},
            "pooling": {"kind": "last"},
        },
        ["the film is dull", "fine", "the film is really really great 3"],
        {"monitor": "rmse"},
    ),
    "image-classify": Tiny(
        "image-classify",
        images,
        {
            "data": {"train": "images", **_PARTS},
            "model": {"kind": "cnn", "width": 4, "stages": 2, "dropout": 0.1},
            "augmentation": {"shift": 1, "flip": True},
        },
        ["images/rows/001.png", "images/columns/000.png"],
        {"monitor": "accuracy", "batch_sentences": 7},
    ),
    "image-classify, patches": Tiny(
        "image-classify",
        images,
        {"data": {"train": "images", **_PARTS}, "model": {**ATTENTION, "kind": "vit", "patch": 4}},
        ["images/rows/001.png", "images/columns/000.png"],
        {"monitor": "accuracy", "batch_sentences": 7, "ema_decay": 0.5},
    ),
    "image-segment": Tiny(
        "image-segment",
        masked,
        {
            "data": {"train": "masks.csv", "ignore": 9, **_PARTS},
            "shift": 1,
            "flip": True,
            "model": {"kind": "cnn", "width": 4, "stages": 2, "dropout": 0.1},
        },
        ["picture-1.png", "picture-2.png"],
        {"monitor": "mean_iou", "batch_sentences": 7},
    ),
    "image-segment, attention over a map": Tiny(
        "image-segment",
        masked,
        {
            "data": {"train": "masks.csv", "ignore": 9, **_PARTS},
            "skips": False,
            "model": {"kind": "attention_cnn", "width": 8, "stages": 2, "attention_after": 2, "dropout": 0.1},
        },
        ["picture-1.png", '{"path": "picture-2.png", "mask": "mask-2.png"}'],
        {"batch_sentences": 7, "ema_decay": 0.5},
    ),
    "image-segment, patches": Tiny(
        "image-segment",
        masked,
        {"data": {"train": "masks.csv", "ignore": 9, **_PARTS}, "model": {**ATTENTION, "kind": "vit", "patch": 4}},
        ["picture-1.png", "picture-2.png"],
        {"monitor": "pixel_accuracy", "batch_sentences": 7},
    ),
    "node-classify": Tiny(
        "node-classify",
        graph,
        {
            "data": {"train": "nodes.csv", "edges": "edges.csv"},
            "model": {"kind": "attention", "d_model": 8, "num_heads": 2, "dropout": 0.3},
        },
        ["n1", "n2", "n23"],
        {"monitor": "accuracy"},
    ),
    "rank": Tiny(
        "rank",
        clicks,
        {
            "data": {"train": "clicks.csv", "features": ["colour"], "user_features": ["country"], **_PARTS},
            "negatives": {"train": 2, "held_out": 3},
            "model": {"pooling": "din-softmax", "unit": [5], "hidden": [7], "activation": "dice", "dropout": 0.1},
        },
        ["i1 i2", '{"history": ["i3"], "candidates": ["i4", "i0"], "user": {"country": "1"}}', "i5 i6 i7 nobody"],
        {"monitor": "auc", "batch_sentences": 7},
    ),
    "graph-regress": Tiny(
        "graph-regress",
        molecules,
        {
            "data": {"train": "molecules.csv", "valid_fraction": 0.2},
            "model": {"kind": "attention", "d_model": 8, "num_heads": 2, "dropout": 0.2},
            "pooling": {"kind": "attention", "num_heads": 2},
        },
        ["CCO", "C", "c1ccccc1C"],
        {"monitor": "rmse"},
    ),
    "forecast": Tiny(
        "forecast",
        steps,
        {
            "data": {"train": "steps.csv", "series": "name", "time": "time", "targets": ["y"], "season": 4, **_PARTS},
            "length": 5,
            "horizon": 3,
            "model": ATTENTION,
            "pooling": {"kind": "attention"},
        },
        ["0 0; 1 1; 2 4; 3 9; 0 0", "2 4; 0 0; 1 1; 2 4; 0 0; 1 1; 2 4", "steps.csv#b"],
        {"monitor": "mse"},
    ),
    "forecast, step by step": Tiny(
        "forecast",
        steps,
        {
            "data": {"train": "steps.csv", "series": "name", "columns": ["y", "x"], **_PARTS},
            "length": 5,
            "horizon": 3,
            "change": False,
            "model": {"kind": "decoder", **_SIZES, "num_layers": 1, "position": "rotary", "dropout": 0.1},
        },
        ["0 0; 1 1; 2 4; 3 9; 0 0", "4 2; 0 0; 1 1; 4 2; 0 0; 1 1; 4 2", "steps.csv#a"],
    ),
    "word-vectors": Tiny(
        "word-vectors",
        sentences,
        {
            "data": {"train": "sentences.txt", **_PARTS},
            "tokenizer": {"min_frequency": 1},
            "model": {"embed_dim": 8},
            "context": {"window": 2, "subsample": 0.05},
        },
        ["zebra", "cat", "dog - cat + hay"],
    ),
    "word-vectors, cbow": Tiny(
        "word-vectors",
        sentences,
        {
            "data": {"train": "sentences.txt", **_PARTS},
            "tokenizer": {"min_frequency": 1},
            "model": {"kind": "cbow", "embed_dim": 8},
        },
        ["zebra", "cat", "dog - cat + hay"],
    ),
    "speech-classify": Tiny(
        "speech-classify",
        sounds,
        {
            "data": {"train": "list.csv", **_PARTS},
            "frames": {"bands": 6, "time_masks": 1, "longest_time_mask": 3},
            "model": {**ATTENTION, "kind": "conformer", "kernel": 3},
            "pooling": {"kind": "attention"},
        },
        ["0.wav", "3.wav", "5.wav"],
        {"monitor": "accuracy"},
    ),
    "speech-tag": Tiny(
        "speech-tag",
        labels_in_time,
        {
            "data": {"train": "timed.csv", "marks_key": "marks", **_PARTS, "concatenate": [1, 2]},
            "frames": {"bands": 6, "subsampling": 2, "time_masks": 1, "longest_time_mask": 3},
            "model": {**ATTENTION, "kind": "conformer", "kernel": 3, "window": 4},
        },
        ["two0.wav", "two3.wav", "two5.wav"],
        {"monitor": "accuracy"},
    ),
    "speech-tag, neighbouring frames": Tiny(
        "speech-tag",
        labels_in_time,
        {
            "data": {"train": "timed.csv", "marks_key": "marks", **_PARTS},
            "frames": {"bands": 6},
            "model": {"kind": "mlp", "radius": 2, "hidden": [7]},
        },
        ["two0.wav", "two3.wav", "two5.wav"],
    ),
    "transcribe": Tiny(
        "transcribe",
        sounds,
        {
            "data": {"train": "list.csv", **_PARTS, "concatenate": [2, 3]},
            "frames": {"bands": 6, "band_masks": 1, "widest_band_mask": 2},
            "model": {**ATTENTION, "kind": "conformer", "kernel": 3, "window": 4},
            "units": "word",
        },
        ["0.wav", "3.wav", "5.wav"],
    ),
    "transcribe, a decoder with attention": Tiny(
        "transcribe",
        sounds,
        {
            "data": {"train": "list.csv", **_PARTS, "concatenate": [1, 2]},
            "frames": {"bands": 6, "subsampling": 4, "time_masks": 1},
            "model": {"kind": "cnn", "d_model": 6},
            "units": "char",
            "output": {
                "kind": "attention",
                "decoder": {**_SIZES, "num_layers": 1, "position": "rotary", "tie_output": False},
                "decoding": {"method": "greedy", "max_len": 9},
            },
        },
        ["0.wav", "3.wav", "5.wav"],
    ),
}
