"""Writes `headwise/cli/list.json`: what `headwise list` prints, read from the code and the recipes."""

import json
from importlib import import_module

from headwise.cli.list import CATALOGUE, FAMILIES, LINE

# each offers `catalogue() -> {name: first line of its documentation}`; those that know more
# `details() -> {name: [(what, value)]}`
_MODULES = {
    "mechanisms": "headwise.attention.mechanisms",
    "scores": "headwise.attention.scores",
    "normalizers": "headwise.attention.normalizers",
    "masks": "headwise.attention.masks",
    "positions": "headwise.positions",
    "kernels": "headwise.attention.kernels",
    "tasks": "headwise.tasks.registry",
    "recipes": "headwise.training.recipes",
}


def catalogue() -> str:
    """The content of the file."""
    modules = {family: import_module(_MODULES[family]) for family in FAMILIES}
    details = {family: module.details() if hasattr(module, "details") else {} for family, module in modules.items()}
    found = {
        family: {name: {LINE: line, **dict(details[family].get(name, ()))} for name, line in module.catalogue().items()}
        for family, module in modules.items()
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    CATALOGUE.write_text(catalogue(), encoding="utf-8")
