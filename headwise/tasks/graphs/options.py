"""Options of graphs."""

from pydantic import Field

from headwise.config import DataFile
from headwise.tasks.options import Options


class EdgeOptions(Options):
    """The second file of a graph."""

    adds_to = "data"

    edges: DataFile | None = Field(None, description="list of edges, where --data holds the nodes of a graph")
