"""`headwise check`: everything that must hold of a mechanism, tried, with the smallest example of what does not."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwise.certify import Subject, Verdict

_COLOURS = {"holds": typer.colors.GREEN, "fails": typer.colors.RED, "does not apply": typer.colors.BRIGHT_BLACK}


def check(
    target: Annotated[
        str, typer.Argument(help="module:attribute, such as my_module:MyAttention, or a name of `headwise list`.")
    ],
    only: Annotated[str, typer.Option(help="Ids of invariants, such as A3,A12; all if not given.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer shapes, types and modes: seconds.")] = False,
) -> None:
    """Try every invariant on a mechanism, score, normalizer, mask or position: what holds, what fails, and where."""
    import torch

    from headwise.certify import Subject, certify, resolve

    subject = resolve(target)
    wanted = [part.strip() for part in only.split(",") if part.strip()]
    verdicts = certify(subject, only=wanted, quick=quick)
    if isinstance(subject, Subject):
        typer.echo(_introduced(subject))
    threads = torch.get_num_threads()
    # tensors are tiny: threads would only wait for each other
    torch.set_num_threads(1)
    try:
        found = [_told(verdict) for verdict in verdicts]
    finally:
        torch.set_num_threads(threads)
    for verdict in found:
        if verdict.state == "fails":
            typer.echo(f"\n{verdict.id} {verdict.title}\n  {verdict.reason}\n  in the case: {verdict.example}")
    counts = {state: sum(verdict.state == state for verdict in found) for state in _COLOURS}
    typer.echo(f"\n{counts['holds']} hold, {counts['fails']} fail, {counts['does not apply']} do not apply")
    if counts["fails"]:
        raise typer.Exit(1)


def _introduced(subject: "Subject") -> str:
    if not subject.states_facts:
        return (
            f"{subject.name} states no facts: it is tried as softmax attention by its definition;"
            " a class attribute `facts` says what else it promises"
        )
    facts = subject.facts
    return f"{subject.name}: {facts.formula}\nmasks: {facts.masks}; exact: {facts.exact}"


def _told(verdict: "Verdict") -> "Verdict":
    """Prints the line of a verdict as soon as it is known."""
    state = typer.style(f"{verdict.state:<14}", fg=_COLOURS[verdict.state])
    rest = {"does not apply": verdict.reason, "holds": f"in {verdict.cases} cases", "fails": "see below"}[verdict.state]
    typer.echo(f"{verdict.id:<8} {verdict.title:<61} {state} {rest}")
    return verdict
