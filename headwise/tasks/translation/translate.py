"""Translation: sentence pairs in, an encoder-decoder that writes the second language from the first."""

from typing import ClassVar

from pydantic import Field

from headwise.config import Config
from headwise.data.inspection import DataKind
from headwise.tasks.demo import Demo
from headwise.tasks.text.options import BleuOptions
from headwise.tasks.translation.data import DataConfig
from headwise.tasks.translation.demo import TRANSLATE
from headwise.tasks.translation.options import TranslationOptions
from headwise.tasks.translation.pairs import TextToText, TextToTextConfig
from headwise.tasks.translation.report import PAIRS


class TranslateConfig(TextToTextConfig):
    """What to translate, with which tokens and model, and how to train it to."""

    data: DataConfig = Field(description="the pairs of texts")


class Translate(TextToText):
    """Translation of sentences, trained by teacher forcing on sentence pairs."""

    name: ClassVar[str] = "translate"
    kinds: ClassVar[tuple[DataKind, ...]] = (PAIRS,)
    demo: ClassVar[Demo | None] = TRANSLATE
    title: ClassVar[str] = "Translator"
    config_type: ClassVar[type[Config]] = TranslateConfig
    options = (TranslationOptions, BleuOptions)
    config: TranslateConfig
