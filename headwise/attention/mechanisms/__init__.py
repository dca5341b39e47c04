"""What is computed: one mechanism a file; the folder is the registry and a mechanism's name is its file name."""

from functools import partial

from headwise.attention import normalizers, scores
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.registry import Registry, members

REGISTRY = Registry(
    "mechanism",
    Mechanism,  # type: ignore[type-abstract]
    partial(members, __name__, "mechanism"),
    sizes=("head_dim", "num_heads", "max_len", "dropout", "query_dim", "key_dim", "hidden"),
    nested={"score": scores.as_score, "normalizer": normalizers.build},
)

names = REGISTRY.names
mechanism_type = REGISTRY.find
catalogue = REGISTRY.catalogue


def build(
    name: str,
    *,
    head_dim: int,
    num_heads: int,
    max_len: int,
    dropout: float,
    score: str | None = None,
    normalizer: str | None = None,
) -> Mechanism:
    """The mechanism of this name for a model of these sizes; score and normalizer are those of `scored`."""
    mechanism = REGISTRY.build(name, head_dim=head_dim, num_heads=num_heads, max_len=max_len, dropout=dropout)
    if isinstance(mechanism, Scored):
        if score is not None:
            mechanism.score = mechanism.score or scores.build(score, head_dim, head_dim, head_dim, num_heads)
        if normalizer is not None:
            mechanism.normalizer = mechanism.normalizer or normalizers.build(normalizer, num_heads)
    return mechanism


def is_scored(name: str) -> bool:
    """Whether a name is that of attention by its definition, which has a score and a normalizer."""
    return REGISTRY.parse(name).name == "scored"


def details() -> dict[str, list[tuple[str, str]]]:
    """(what, value) of every mechanism that states its facts: formula, paper, cost, what it can do."""
    rows, written = {}, REGISTRY.details()
    for name in names():
        if (facts := getattr(mechanism_type(name), "facts", None)) is not None:
            can = {"causal": facts.causal, "cross-attention": facts.cross, "recurrent form": facts.recurrent}
            can |= {"bias": facts.bias, "relative positions": facts.relative}
            stated = [
                (what, getattr(facts, what)) for what in ("formula", "paper", "family", "time", "memory", "exact")
            ]
            able = ("can", ", ".join(what if able else f"no {what}" for what, able in can.items()))
            rows[name] = [*written.get(name, []), *stated, able, ("masks", facts.masks)]
    return rows
