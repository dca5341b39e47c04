"""`headwise explore`: trained runs in the browser."""

from pathlib import Path
from typing import Annotated

import typer


def explore(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders, each called by the name of its folder; none: what needs no run."),
    ] = None,
    hf: Annotated[
        list[Path] | None, typer.Option("--hf", help="A folder with a Hugging Face model; repeat it.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any that is free.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
    bench: Annotated[
        Path | None, typer.Option(help="Measured times to draw: what python -m benchmarks.lengths --json FILE wrote.")
    ] = None,
    report: Annotated[
        list[Path] | None, typer.Option(help="A folder that compare or complexity wrote, and its runs; repeat it.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
) -> None:
    """See what trained runs attend to, in the browser, at an address of this machine: docs/explorer.md."""
    from headwise import runtime
    from headwise.errors import ConfigError
    from headwise.service.loaded import load_runs

    runtime.apply(threads=threads, fast_products=False)
    try:
        from headwise.explorer.bench import read_measurements
        from headwise.explorer.comparing import bench_routes
        from headwise.explorer.reports import read_report, reports_in
        from headwise.explorer.serving import LIMITS, explorer_app
        from headwise.service.server import listen
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed; pip install 'headwise[explore]'") from None
    records = [] if bench is None else read_measurements(bench)
    # without a name those that lie here, whose runs are not loaded for that
    reports = [read_report(folder) for folder in report] if report else reports_in(Path())
    folders = [*(runs or []), *(run for one in reports if report for run in one.runs())]
    loaded = load_runs([*{run.resolve(): run for run in folders}.values()], hf or [], files=True)
    app = explorer_app(loaded, bench_routes(records), reports=reports)
    listen(app, LIMITS, "127.0.0.1", port, lambda address: _open(address, browser))


def _open(address: str, browser: bool) -> None:
    import webbrowser

    typer.echo(f"exploring at {address}; end with Ctrl+C")
    if browser:
        webbrowser.open(address)
