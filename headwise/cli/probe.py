"""`headwise probe`: what the attention of a trained model is worth: to itself, to another model, to a linguist."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli.tables import draw, tell

app = typer.Typer(help="What the attention of a trained model is worth.")

Figure = Annotated[Path | None, typer.Option(help="Draw the curve: a .png, .svg or .pdf file.")]
Output = Annotated[Path | None, typer.Option(help="Write the rows to a CSV file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object for each row.")]
Data = Annotated[Path | None, typer.Option(help="A file of examples to score, instead of the run's own test data.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first examples.")]


@app.command("heads")
def heads(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    layer: Annotated[str | None, typer.Option(help="Only layers whose names contain this.")] = None,
    sample: Annotated[int, typer.Option(min=1, help="Validation examples by which the order is chosen.")] = 20,
    metric: Annotated[str | None, typer.Option(help="A score of `evaluate`; default: the first one.")] = None,
    data: Data = None,
    limit: Limit = None,
    figure: Figure = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Mute heads one after another, always the one that the answers need least, and score the model without them."""
    import headwise
    from headwise import runtime
    from headwise.explain.curves import Mean, lines
    from headwise.predictors.ablating import examples, heads_of, likelihood, muted_in_turn
    from headwise.predictors.lengths import metric_of
    from headwise.records import Mute, edit
    from headwise.training import loading

    runtime.apply(fast_products=False)
    predictor = headwise.load(run)
    data_files = {} if data is None else {"test": os.path.abspath(data)}
    scored = loading.examples(run, "test", data_files)[:limit]
    cases = examples(predictor, [predictor.input_of(case) for case in loading.examples(run, "valid")[:sample]])
    chosen = [
        (name, head) for name, count in heads_of(cases[0]).items() if (layer or "") in name for head in range(count)
    ]
    rows, gone, points = [], list[Mute](), list[tuple[float | int | str, Mean]]()
    for muted in muted_in_turn(likelihood(predictor, cases), chosen):
        if muted.layer is not None and muted.head is not None:
            gone.append(Mute(muted.layer, muted.head))
        with edit(predictor.model, *gone):
            scores = {name: value for name, value in predictor.evaluate(scored).items() if not isinstance(value, str)}
        metric = metric_of(scores, metric)
        points.append((float(len(gone)), Mean.of([scores[metric]])))
        rows.append({"muted": len(gone), "layer": muted.layer, "head": muted.head, metric: float(scores[metric])})
    tell(rows, as_json=as_json, output=output)
    if figure is not None:
        draw(lines({str(run): points}, across="muted heads", down=str(metric)), figure)


@app.command("relations")
def relations(
    run: Annotated[Path, typer.Argument(help="Run folder of a model with self-attention between words.")],
    valid: Annotated[Path, typer.Option(help="A CoNLL-U file to choose the head of each relation on.")],
    test: Annotated[Path, typer.Option(help="A CoNLL-U file to count right answers on.")],
    limit: Annotated[int, typer.Option(min=1, help="Only the first examples.")] = 500,
    fewest: Annotated[int, typer.Option(min=1, help="Words that a relation must have in both.")] = 20,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Find the head that joins words as a grammar does, for each relation, beside the best fixed distance."""
    import itertools

    import headwise
    from headwise import runtime
    from headwise.data.dependencies import read_dependencies
    from headwise.predictors.relations import relation_scores

    runtime.apply(fast_products=False)
    predictor = headwise.load(run)
    sentences = [list(itertools.islice(read_dependencies(path), limit)) for path in (valid, test)]
    scores = relation_scores(predictor, *sentences, fewest=fewest)
    rows = [vars(score) for score in scores]
    tell(rows, as_json=as_json, output=output)


@app.command("guide")
def guide(
    run: Annotated[Path, typer.Argument(help="Run folder of a classifier of texts with pooling.kind=attention.")],
    seeds: Annotated[int, typer.Option(min=2, help="Classifiers of single tokens to train for each kind.")] = 3,
    data: Data = None,
    limit: Limit = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Give the weights of a pooling to a classifier of single tokens, beside uniform and adversarial ones."""
    import headwise
    from headwise import runtime
    from headwise.errors import Unsupported
    from headwise.explain.curves import Mean
    from headwise.training import loading

    runtime.apply(fast_products=False)
    predictor: Any = headwise.load(run)
    if not hasattr(predictor, "guide"):
        raise Unsupported("weights are given to classifiers of texts: train one with pooling.kind=attention")
    data_files = {} if data is None else {"test": os.path.abspath(data)}
    train, test = loading.examples(run, "train"), loading.examples(run, "test", data_files)[:limit]
    other = predictor.adversary(train)
    kinds = {
        "learned": predictor.guide,
        "uniform": lambda *parts, seed: predictor.guide(*parts, lambda _, row: row * 0 + 1 / len(row), seed=seed),
        "adversary": other.guide,
    }
    rows = []
    for name, guided in kinds.items():
        accuracy = Mean.of([sum(guided(train, test, seed=seed)) / len(test) for seed in range(seeds)])
        rows.append({"weights": name, "accuracy": accuracy.value, "interval": accuracy.interval})
    tell(rows, as_json=as_json, output=output)
