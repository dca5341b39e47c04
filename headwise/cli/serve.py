"""`headwise serve`: trained runs over HTTP."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwise.service.limits import Limits
    from headwise.service.loaded import LoadedRun


def serve(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; each is called by the name of its folder.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any that is free.")] = 8000,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name of this service for others; repeat it.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="Of every search: fp32, bf16, int8, or auto; default: as recipes and requests say."),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="What searches: headwise, ctranslate2, or auto.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A limit such as queue=128; repeat it.")] = None,
) -> None:
    """Answer requests for trained runs over HTTP, as `headwise predict --json` does: docs/service.md."""
    from headwise import runtime
    from headwise.errors import ConfigError

    try:
        from headwise.service.app import create_app
        from headwise.service.server import listen
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed; pip install 'headwise[explore]'") from None
    from headwise.service.guard import LOOPBACK, in_address
    from headwise.service.loaded import load_runs

    runtime.apply(threads=threads, fast_products=False)
    limits = _limits(settings or [])
    models = load_runs(runs)
    for run in models.values():
        typer.echo(f"{run.name}: task {run.task}, POST /api/v1/{run.verb}")
        _search_in(run, precision)
        _search_by(run, engine, precision)
    name = in_address(host)
    if name not in LOOPBACK:
        typer.echo(f"warning: {host} can be reached from other machines; there is no password", err=True)
    hosts = {*LOOPBACK, *(allowed_host or []), *(() if host in ("0.0.0.0", "::") else (name,))}
    listen(create_app(models, limits, hosts), limits, host, port, lambda address: typer.echo(f"listening at {address}"))


def _search_in(run: "LoadedRun", precision: str | None) -> None:
    """Settles the precision of searches before requests come. Raises: ConfigError for one that is not there."""
    from headwise.decoding.search import DecodingConfig
    from headwise.predictors.twins import Choice

    twin, decoding = run.predictor.twin(), run.decoding(None) or DecodingConfig()
    if twin is None:
        return
    run.predictor.model.requires_grad_(False)
    requested = decoding.with_options({} if precision is None else {"precision": precision}).precision
    if precision is not None:
        twin.instead = requested
    if requested in ("auto", "int8"):
        typer.echo(f"{run.name}: precision {twin.choice(run.predictor.model, requested)}")
    # a check takes longer than a request may
    twin.decide = lambda _: Choice("fp32", "8 bits are checked when the service starts: --precision int8")


def _search_by(run: "LoadedRun", engine: str | None, precision: str | None) -> None:
    """Opens what searches before requests come. Raises: HeadwiseError where it is not there for this run."""
    from headwise.decoding.search import DecodingConfig
    from headwise.errors import ConfigError

    engines, decoding = run.predictor.engines(), run.decoding(None) or DecodingConfig()
    options = {"engine": engine, "precision": precision}
    chosen = decoding.with_options({name: value for name, value in options.items() if value is not None})
    if engines is None:
        if engine == "ctranslate2":
            raise ConfigError(f"{run.name}: --engine ctranslate2 runs models that read and write texts; leave it out")
        return
    engines.instead = None if engine is None else chosen.engine
    engines.precision = None if precision is None else chosen.precision
    if chosen.engine != "headwise":
        opened = engines.opened(run.predictor.model, chosen.engine, chosen.precision)
        typer.echo(f"{run.name}: engine {opened}")
    # a comparison takes longer than a request may
    engines.open = None


def _limits(settings: list[str]) -> "Limits":
    from headwise.config import build
    from headwise.errors import ConfigError
    from headwise.service.limits import Limits

    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: write NAME=VALUE, such as queue=128")
        try:
            values[name] = float(value) if "." in value else int(value)
        except ValueError:
            raise ConfigError(f"--set {setting}: {value!r} is no number") from None
    return build(Limits, values, "--set")
