"""How translations are compared with references: BLEU and chrF with one set of options."""

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from headwise import metrics
from headwise.config import Config
from headwise.data.text import script_counts
from headwise.data.tokenizers import Tokenizer

_UNSPACED = ("Han", "Hiragana", "Katakana")


class Scoring(NamedTuple):
    """sacreBLEU's tokenizer, and whether small letters are compared."""

    tokenize: str
    lowercase: bool

    def scores(self, outputs: Sequence[str], references: Sequence[metrics.Reference]) -> dict[str, float | str]:
        """BLEU, chrF and exact matches, with signatures; warns where the tokenizer takes a whole line for a word."""
        scripts = list(script_counts(Counter("".join(map("".join, references)))))
        if self.tokenize == "13a" and scripts[:1] and scripts[0] in _UNSPACED:
            better = "ja-mecab" if {"Hiragana", "Katakana"} & set(scripts[:3]) else "zh"
            warnings.warn(
                f"BLEU with the tokenizer 13a takes a line of {scripts[0]} for one word; set bleu.tokenize = "
                f'"{better}" in the recipe, or give --tokenize {better}',
                stacklevel=3,
            )
        bleu = metrics.bleu(outputs, references, tokenize=self.tokenize, lowercase=self.lowercase)
        chrf = metrics.chrf(outputs, references, lowercase=self.lowercase)
        found: dict[str, float | str] = {"bleu": bleu.value, "bleu_signature": bleu.signature}
        exact = metrics.exact_match(outputs, references, lowercase=self.lowercase)
        return found | {"chrf": chrf.value, "chrf_signature": chrf.signature, "exact": exact}


class BleuConfig(Config):
    """How BLEU is computed: sacreBLEU's options."""

    tokenize: Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores200", "none"] = Field(
        "13a", description="sacreBLEU's tokenizer: zh for Chinese, ja-mecab for Japanese, char for any script"
    )
    lowercase: bool = Field(
        False, description="compare in lower case; always so if the tokenizer lowercases the target"
    )

    def scoring(self, tokenizer: Tokenizer, tokenize: str | None = None) -> Scoring:
        """How outputs in these tokens are compared: those without capitals meet references without them.

        Args:
            tokenize: sacreBLEU's tokenizer in place of the one that is configured.
        """
        return Scoring(tokenize or self.tokenize, self.lowercase or tokenizer.config.lowercase)
