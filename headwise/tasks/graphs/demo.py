"""What `headwise demo node-classify` and `graph-regress` train on."""

import random
from pathlib import Path

from headwise.tasks.demo import Demo, write_table

COMMUNITIES = ("red", "green", "blue")


def communities(seed: int = 0, size: int = 240) -> tuple[list[tuple[object, ...]], list[tuple[str, str]]]:
    """Nodes (id, label, one number for each community) and edges, most of which join nodes of one community.

    A node's numbers say its community in two of five cases, and any of them otherwise: neighbours know better.

    >>> nodes, edges = communities()
    >>> nodes[0], len(nodes)
    (('id', 'label', 'red', 'green', 'blue'), 241)
    """
    draws = random.Random(f"communities {seed}")
    labels = [draws.choice(COMMUNITIES) for _ in range(size)]
    nodes: list[tuple[object, ...]] = [("id", "label", *COMMUNITIES)]
    for number, label in enumerate(labels):
        colour = label if draws.random() < 0.4 else draws.choice(COMMUNITIES)
        nodes.append((f"n{number}", label, *(int(colour == community) for community in COMMUNITIES)))
    edges = []
    for number, label in enumerate(labels):
        alike = [other for other in range(size) if labels[other] == label and other != number]
        edges += [(f"n{number}", f"n{draws.choice(alike)}") for _ in range(3)]
        edges.append((f"n{number}", f"n{(number + draws.randrange(1, size)) % size}"))
    return nodes, edges


def _communities(folder: Path) -> None:
    """A graph whose edges join what is alike, and a list of its nodes."""
    nodes, edges = communities()
    write_table(folder / "nodes.csv", nodes)
    write_table(folder / "edges.csv", edges)


def _molecules(folder: Path) -> None:
    """Chains of carbon, nitrogen and oxygen; a molecule's number is that of its oxygens, less half of its nitrogens."""
    draws = random.Random(0)
    chains = sorted({"C" + "".join(draws.choices("CNO", k=draws.randint(2, 9))) for _ in range(400)})
    rows = [(chain, chain.count("O") - chain.count("N") / 2) for chain in chains]
    write_table(folder / "molecules.csv", [("smiles", "target"), *rows])


NODE_CLASSIFY = Demo(
    "the community of a node, by its neighbours",
    _communities,
    """[data]
train = "nodes.csv"
edges = "edges.csv"
valid_fraction = 0.2
test_fraction = 0.2
[model]
kind = "attention"
d_model = 16
num_heads = 2
dropout = 0.2
[training]
learning_rate = 1e-2
schedule = "constant"
warmup_steps = 0
max_epochs = 60
validate_every_epochs = 20
monitor = "accuracy"
""",
    "n0",
)
GRAPH_REGRESS = Demo(
    "to count atoms of a molecule",
    _molecules,
    """[data]
train = "molecules.csv"
valid_fraction = 0.1
test_fraction = 0.1
[model]
kind = "attention"
d_model = 32
num_heads = 2
dropout = 0.0
[training]
learning_rate = 5e-3
warmup_steps = 20
batch_sentences = 32
max_epochs = 20
""",
    "CCONO",
)
