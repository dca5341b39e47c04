"""What is computed: one mechanism a file; the folder is the registry and a mechanism's name is its file name."""

from functools import partial

from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.folders import Folder, members

_FOLDER = Folder(partial(members, __name__, "mechanism"), Mechanism, "mechanism")  # type: ignore[type-abstract]

names = _FOLDER.names
mechanism_type = _FOLDER.find
catalogue = _FOLDER.catalogue


def details() -> dict[str, list[tuple[str, str]]]:
    """(what, value) of every mechanism that states its facts: formula, paper, cost, what it can do."""
    found = {}
    for name in names():
        facts = getattr(mechanism_type(name), "facts", None)
        if facts is not None:
            can = {"causal": facts.causal, "cross-attention": facts.cross, "recurrent form": facts.recurrent}
            can |= {"bias": facts.bias, "relative positions": facts.relative}
            found[name] = [
                ("formula", facts.formula),
                ("paper", facts.paper),
                ("family", facts.family),
                ("time", facts.time),
                ("memory", facts.memory),
                ("exact", facts.exact),
                ("can", ", ".join(what if able else f"no {what}" for what, able in can.items())),
                ("masks", facts.masks),
            ]
    return found
