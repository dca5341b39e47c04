"""Sentences of a small grammar with a seed: words of one kind stand in the same places, so their vectors come close."""

from pathlib import Path

import numpy as np

from headwise.data.buckets import random_bits

# kind -> words
KINDS: dict[str, tuple[str, ...]] = {
    "animal": ("cat", "dog", "horse", "bird", "fox", "mouse"),
    "food": ("bread", "corn", "hay", "fruit", "fish", "cheese"),
    "place": ("house", "forest", "garden", "river", "field", "barn"),
    "eats": ("eats", "likes", "steals", "finds"),
    "rests": ("sleeps", "hides", "waits", "sings"),
    "article": ("the", "a", "this", "every"),
    "side": ("in", "near", "behind", "beside"),
}
RULES = (
    ("article", "animal", "eats", "food"),
    ("article", "animal", "rests", "side", "article", "place"),
    ("article", "animal", "eats", "food", "side", "article", "place"),
    ("side", "article", "place", "article", "animal", "rests"),
)


def sentences(count: int, seed: int = 0) -> list[str]:
    """So many sentences, each by a rule and words that are drawn with equal probability; the same wherever made.

    >>> sentences(2)[0].split()[0] in KINDS["article"] + KINDS["side"]
    True
    """
    longest = max(map(len, RULES)) + 1
    bits = random_bits(np.arange(count * longest, dtype=np.uint64), seed, 0).reshape(count, longest) >> np.uint64(32)
    texts = []
    for row in bits.tolist():
        rule = RULES[row[0] % len(RULES)]
        texts.append(" ".join(KINDS[kind][draw % len(KINDS[kind])] for kind, draw in zip(rule, row[1:], strict=False)))
    return texts


def write_sentences(folder: Path) -> None:
    """Writes `sentences.txt`: lines of the grammar."""
    text = "".join(f"{sentence}\n" for sentence in sentences(3000))
    (folder / "sentences.txt").write_text(text, encoding="utf-8")
