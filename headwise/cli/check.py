"""`headwise check`: everything that must hold of a mechanism, tried, with the smallest example of what does not."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwise.testing import Subject, Verdict

_COLOURS = {"holds": typer.colors.GREEN, "fails": typer.colors.RED, "does not apply": typer.colors.BRIGHT_BLACK}


def check(
    target: Annotated[str, typer.Argument(help="A name from `headwise list`, or your own: my_module:MyAttention.")],
    only: Annotated[str, typer.Option(help="Invariants to test, such as hidden,support; default: all.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Test fewer shapes, dtypes and modes; takes seconds.")] = False,
) -> None:
    """Test a mechanism, score, normalizer, mask or position: which invariants hold, which fail, and for which input."""
    from headwise import runtime
    from headwise.testing import Subject, certify, resolve

    subject = resolve(target)
    verdicts = certify(subject, only=[part.strip() for part in only.split(",") if part.strip()], quick=quick)
    if isinstance(subject, Subject):
        typer.echo(_introduced(subject))
    # tensors are tiny: threads would only wait for each other
    with runtime.threads_of(1):
        outcomes = [_print_verdict(verdict) for verdict in verdicts]
    for verdict in outcomes:
        if verdict.state == "fails":
            typer.echo(f"\n{verdict.id}: {verdict.title}\n  {verdict.reason}\n  in the case: {verdict.example}")
    counts = {state: sum(verdict.state == state for verdict in outcomes) for state in _COLOURS}
    typer.echo(f"\n{counts['holds']} hold, {counts['fails']} fail, {counts['does not apply']} do not apply")
    if counts["fails"]:
        raise typer.Exit(1)


def _introduced(subject: "Subject") -> str:
    if not subject.states_facts:
        return f"{subject.name} states no facts: it is tried as softmax attention by its definition"
    return f"{subject.name}: {subject.facts.formula}\nmasks: {subject.facts.masks}; exact: {subject.facts.exact}"


def _print_verdict(verdict: "Verdict") -> "Verdict":
    state = typer.style(f"{verdict.state:<14}", fg=_COLOURS[verdict.state])
    note = {"does not apply": verdict.reason, "holds": f"in {verdict.cases} cases", "fails": "see below"}[verdict.state]
    typer.echo(f"{verdict.id:<10} {verdict.title:<60} {state} {note}")
    return verdict
