"""`headwise explain`: a picture and a table of where a model looks while it answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.errors import ConfigError, unknown
from headwise.explain.methods import METHODS

if TYPE_CHECKING:
    from headwise.explain.explanation import Explained
    from headwise.predictors.predictor import Predictor


By = Annotated[
    str | None,
    typer.Option(
        help="What counts, in place of raw weights: "
        + "; ".join(f"{name} ({method.title})" for name, method in METHODS.items())
    ),
]

Columns = Annotated[
    bool, typer.Option("--columns", help="With --trace, --example: vectors are columns, O = V softmax(K^T Q).")
]

Of = Annotated[
    str | None,
    typer.Option(
        help="Without an input: pronouns (what 'it' looks at in ready sentences), model (its parts, drawn); with one: "
        "probabilities (of the likeliest outputs at each step, drawn)."
    ),
]


def explain(
    run: Annotated[Path | None, typer.Argument(help="Run folder.")] = None,
    text: Annotated[str | None, typer.Argument(help="The input.")] = None,
    target: Annotated[str | None, typer.Option(help="The output to look at; default: the output of the model.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("figures"),
    formats: Annotated[str, typer.Option("--format", help="png, svg or pdf, or several separated by commas.")] = "png",
    layer: Annotated[str | None, typer.Option(help="Layer: a number from 0, or a name; default: the clearest.")] = None,
    heads: Annotated[str | None, typer.Option(help="Its heads, such as 0 or 1,3; default: the mean of all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also draw a picture of each layer.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Number of attended tokens to list for each token.")] = 3,
    table: Annotated[bool, typer.Option("--table", help="Print only the table; draw nothing.")] = False,
    by: By = None,
    other: Annotated[str | None, typer.Option(help="Another input of as many tokens, for --by patching.")] = None,
    trace: Annotated[str | None, typer.Option(help="Print each step of a head: json, csv, latex or markdown.")] = None,
    columns: Columns = False,
    of: Of = None,
    ablate: Annotated[bool, typer.Option("--ablate", help="Print what muting each head alone changes.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write one page to open in a browser, not pictures.")] = None,
    example: Annotated[str | None, typer.Option(help="Steps without a run: illustrated, illustrated-scaled.")] = None,
) -> None:
    """Draw what a model attends to, on one page, and list it for each token."""
    others = run, text, target, layer, heads, by, other, html, ablate
    if example is not None:
        return _print_example(example, trace or "markdown", columns, alone=not any(others))
    if of == "probabilities":
        alone = not any((layer, heads, by, other, trace, html, ablate, every, columns))
        return _draw_probabilities(run, text, target, folder, formats, top, draws=not table, alone=alone)
    if of is not None:
        return _show_of(of, run, folder, formats, alone=not any((*others[1:], trace)))
    run, text = _given(run, text, columns_alone=columns and trace is None)
    if ablate:
        return _print_ablated(run, text, alone=not any((target, layer, heads, by, other, trace, html, table, every)))
    if trace is not None and html is None:
        return _print_trace(run, text, target, trace, layer, heads, columns, alone=by is None and other is None)
    explanation, chosen, only = _explained(run, text, target, by, other), numbered(layer), heads_of(heads)
    if html is not None:
        lines = [_page(explanation, html, chosen, alone=not (every or table or trace) and formats == "png")]
    else:
        lines = [] if table else [*map(str, explanation.write(folder, _forms(formats), chosen, only, every=every))]
    describe(explanation, chosen, only, top)
    typer.echo("\n".join(lines), nl=bool(lines))


def _show_of(of: str, run: Path | None, folder: Path, formats: str, *, alone: bool) -> None:
    """What `--of` names: of a run, or of a model of Transformers in a folder."""
    shown = {"pronouns": _print_pronouns, "model": _draw_model}
    if of not in shown:
        raise ConfigError(f"--of: {unknown('thing to explain', of, shown)}")
    if run is None or not alone:
        raise ConfigError(f"--of {of} needs a run folder, or a Hugging Face one, and no input or option of one")
    if (run / "config.json").is_file():
        from headwise.predictors.adopted import Adopted

        return shown[of](Adopted.at(run), folder, formats)
    import headwise

    shown[of](headwise.load(run), folder, formats)


def _print_pronouns(predictor: "Predictor[Any, Any, Any]", folder: Path, formats: str) -> None:
    from headwise.labels import visible
    from headwise.predictors import pronouns

    for line in pronouns.lines(predictor):
        typer.echo(visible(line))


def _draw_model(predictor: "Predictor[Any, Any, Any]", folder: Path, formats: str) -> None:
    from headwise.explain.canvas import save
    from headwise.explain.diagrams import model_diagram

    drawn = model_diagram(predictor.model)
    for form in _forms(formats):
        typer.echo(save(drawn, folder / f"model.{form}"))


def _forms(formats: str) -> list[str]:
    return [form.strip() for form in formats.split(",")]


def _draw_probabilities(
    run: Path | None,
    text: str | None,
    target: str | None,
    folder: Path,
    formats: str,
    top: int,
    *,
    draws: bool,
    alone: bool,
) -> None:
    """A row for each output, a column for each of the likeliest: a table, and the same as a picture."""
    if not alone:
        raise ConfigError("--of probabilities takes --target, --top, --table, --folder and --format; leave others out")
    import headwise
    from headwise.explain.canvas import save
    from headwise.explain.figures import page
    from headwise.explain.values import Legend
    from headwise.labels import visible
    from headwise.predictors.outputs import likeliest, outputs_for

    run, text = _given(run, text, columns_alone=False)
    predictor = headwise.load(run)
    answer = outputs_for(predictor, predictor.parse(text), target)
    names, shares = likeliest(answer, top)
    outputs = [answer.name(choice) for choice in answer.chosen or ()]
    for output, row in zip(outputs, shares, strict=True):
        best = sorted(zip(names, row.tolist(), strict=True), key=lambda pair: -pair[1])[:top]
        typer.echo(visible(f"{output}: {', '.join(f'{name} {share:.4f}' for name, share in best)}"))
    legend = Legend("probabilities", "output", "one of the likeliest", "probability")
    for form in _forms(formats) if draws else ():
        drawn = page(shares, outputs, names, [shares[None]], title=text, legend=legend)
        typer.echo(save(drawn, folder / f"probabilities.{form}"))


def _given(run: Path | None, text: str | None, *, columns_alone: bool) -> tuple[Path, str]:
    """The run and the input, the machine set to answer. Raises: ConfigError: one is missing, or --columns is alone."""
    if run is None or text is None:
        raise ConfigError("give a run folder and an input, or --example illustrated")
    if columns_alone:
        raise ConfigError("--columns goes with --trace or --example: add --trace markdown, or leave it out")
    from headwise import runtime

    runtime.apply(fast_products=False)
    return run, text


def _explained(run: Path, text: str, target: str | None, by: str | None, other: str | None) -> "Explained":
    import headwise

    if (by == "patching") != (other is not None):
        raise ConfigError('--by patching and --other "another input" go together')
    predictor = headwise.load(run)
    item, other_item = predictor.parse(text), None if other is None else predictor.parse(other)
    explanation: Explained
    if by is None:
        explanation = predictor.explain(item, target)
    else:
        explanation = headwise.attribute(predictor, item, by, target, other_item)
    return explanation


def _page(explanation: "Explained", path: Path, layer: str | int | None, *, alone: bool) -> str:
    """Writes a page of all layers, or of one that was asked for, and says how large it is."""
    if not alone:
        raise ConfigError("--html writes one page with every layer: leave --all, --table, --trace and --format out")
    from headwise.explain.explanation import Explanation
    from headwise.explorer.content import of_explanation
    from headwise.explorer.notebook import written
    from headwise.explorer.saving import page

    if not isinstance(explanation, Explanation):
        raise ConfigError("--html shows attention, and this model has none; leave it out to draw what there is")
    content = of_explanation(explanation)
    document = page(content if layer is None else content.layer(explanation.layer_name(layer)))
    return f"{written(path, document)} ({len(document) / 1e3:,.0f} KB)"


def _print_example(name: str, form: str, columns: bool, *, alone: bool) -> None:
    if not alone:
        raise ConfigError("--example needs no run, no input and none of their options; leave them out")
    from headwise.explain.columns import as_columns
    from headwise.explain.layer_trace import example_trace
    from headwise.explain.trace_formats import format_trace

    traced = example_trace(name)
    typer.echo(format_trace(as_columns(traced) if columns else traced, form))


def _print_trace(
    run: Path,
    text: str,
    target: str | None,
    form: str,
    layer: str | None,
    heads: str | None,
    columns: bool,
    *,
    alone: bool,
) -> None:
    if not alone:
        raise ConfigError("--trace shows the steps of attention: leave --by and --other out")
    import headwise
    from headwise.explain.columns import as_columns
    from headwise.explain.trace_formats import check_form, format_trace
    from headwise.predictors.watched_heads import steps

    check_form(form)
    chosen = heads_of(heads) or (0,)
    if len(chosen) > 1:
        raise ConfigError("--trace shows one head: give --heads one number")
    predictor = headwise.load(run)
    traced = steps(predictor, predictor.parse(text), target, numbered(layer), chosen[0])
    typer.echo(format_trace(as_columns(traced) if columns else traced, form))


def _print_ablated(run: Path, text: str, *, alone: bool) -> None:
    """What each head alone does for the answer, most first."""
    if not alone:
        raise ConfigError(
            "--ablate lists every head; leave --target, --layer, --heads, --by, --trace, --table, --all and --html out"
        )
    import headwise
    from headwise.predictors.ablating import ablated, examples, heads_of

    predictor = headwise.load(run)
    sample = examples(predictor, [text])
    rows = [row for layer, heads in heads_of(sample[0]).items() for row in ablated(predictor, sample, layer, heads)]
    measures = list(rows[0].effect)
    rows.sort(key=lambda row: -abs(row.effect[measures[0]]))
    width = max(len(row.layer) for row in rows)
    named = {"divergence": "KL, nats", "log_prob": "log-probability", "change": "change"}
    typer.echo(f"{'layer':<{width}}  head" + "".join(f"  {named[name]:>15}" for name in measures))
    for row in rows:
        values = "".join(f"  {row.effect[name]:>15.5f}" for name in measures)
        typer.echo(f"{row.layer:<{width}}  {row.head:>4}{values}")


def numbered(layer: str | None) -> str | int | None:
    """A layer as the command line names it: a number, or a name."""
    return int(layer) if layer is not None and layer.removeprefix("-").isdecimal() else layer


def heads_of(text: str | None) -> tuple[int, ...] | None:
    """Numbers of heads, joined by commas; None: all. Raises: ConfigError for anything else."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--heads '{text}': give numbers from 0, separated by commas, such as 0,2")
    return tuple(map(int, parts))


def describe(
    explanation: "Explained", layer: str | int | None = None, heads: tuple[int, ...] | None = None, top: int = 3
) -> None:
    """Prints the input, the output, and what there is to say of how one led to the other."""
    from headwise.labels import visible

    typer.echo(f"{visible(explanation.source)} → {visible(explanation.output)}\n")
    for line in explanation.lines(layer, heads, top=top):
        typer.echo(line)
    typer.echo("")
