"""Options of forecasts."""

from pydantic import Field

from headwise.tasks.options import Options


class ForecastOptions(Options):
    """How far a forecast reaches."""

    steps: int | None = Field(None, ge=1, description="steps of a forecast; default: the model's horizon")
