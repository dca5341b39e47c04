"""Options of tasks whose models write: how outputs are searched for, and how they are compared with references."""

from typing import Literal

from pydantic import Field

from headwise.tasks.options import BestOptions, Options


class SearchOptions(BestOptions):
    """How outputs are searched for; what is left out is as the run's recipe says."""

    method: Literal["beam", "greedy", "sample"] | None = Field(None, description="beam, greedy or sample")
    beam_size: int | None = Field(None, ge=1, description="beam size")
    length_penalty: float | None = Field(None, ge=0, le=10, description="0: rank by probability; 1: by its mean")
    max_len: int | None = Field(None, ge=1, description="longest output, in tokens")
    temperature: float | None = Field(None, gt=0, le=100, description="sampling: below 1 favours probable tokens")
    top_k: int | None = Field(None, ge=0, le=1 << 20, description="sampling: only this many most probable tokens")
    precision: Literal["auto", "fp32", "bf16", "int8"] | None = Field(
        None, description="fp32, bf16, int8, or auto: int8 where it is faster and as good"
    )
    engine: Literal["headwise", "ctranslate2", "auto"] | None = Field(
        None, description="what searches: headwise, ctranslate2, or auto: that where it is installed and equal"
    )
    top_p: float | None = Field(None, gt=0, le=1, description="sampling: only the most probable tokens of this mass")


class WritingOptions(SearchOptions):
    """A search whose outputs have scores."""

    scores: bool | None = Field(None, description="put the score before each output")


class TableOptions(Options):
    """Which columns or fields of a table hold what."""

    adds_to = "data"

    columns: tuple[int, int] | None = Field(None, description="source and target or label column from 0: --columns 0 1")
    source_key: str | None = Field(None, description="source field, or language, of JSON lines")
    target_key: str | None = Field(None, description="target field, or language, of JSON lines")


class ScoringOptions(Options):
    """How outputs that are scored are searched for."""

    adds_to = "evaluate"

    precision: Literal["auto", "fp32", "bf16", "int8"] | None = Field(
        None, description="fp32, bf16, int8, or auto: int8 where it is faster and as good"
    )
    engine: Literal["headwise", "ctranslate2", "auto"] | None = Field(
        None, description="what searches: headwise, ctranslate2, or auto: that where it is installed and equal"
    )


class BleuOptions(ScoringOptions):
    """The same, and how outputs are compared with references."""

    tokenize: str | None = Field(None, description="sacreBLEU's tokenizer, such as zh or char")
