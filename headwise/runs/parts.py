"""The parts of a checkpoint, one from each process, as the files that one process would have written."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from headwise.errors import CheckpointError
from headwise.runs.table import Table, key_of

Content = tuple[dict[str, Tensor], dict[str, str]]


class Parts:
    """The parts of one checkpoint, each of which is checked whenever it is read.

    Args:
        name: what errors call the table.
        load: the tensors of a part, its digest checked.
    """

    def __init__(self, table: Table, name: str, load: Callable[[str], dict[str, Tensor]]) -> None:
        self.table, self._name, self._load = table, name, load
        self._promised = table.parts()

    @property
    def names(self) -> list[str]:
        """The files of the parts."""
        return sorted(self._promised)

    def read(self, part: str) -> dict[str, Tensor]:
        """The tensors of a part. Raises: CheckpointError naming it, if it is damaged or not what the table says."""
        tensors, promised = self._load(part), self._promised[part]
        held = {key: (tensor.dtype, list(tensor.shape)) for key, tensor in tensors.items()}
        if held != promised:
            wrong = min(key for key in held.keys() | promised.keys() if held.get(key) != promised.get(key))
            raise CheckpointError(f"{self._name}: {part} does not hold '{wrong}' as it is described here")
        return tensors

    def file(self, name: str, like: Callable[[str], Tensor | None] = lambda _: None) -> Content:
        """Tensors and metadata of a file, put together from the parts, which are read one after another.

        Args:
            like: for the name of a tensor one that processes share; of that, each gets its own rows. Others are whole.
        """
        from headwise.runs.distributed import fill

        file, made = self.table.files[name], {}
        for tensor, pieced in file.tensors.items():
            model = like(tensor)
            if model is not None and hasattr(model, "device_mesh") and list(model.shape) == pieced.shape:
                made[tensor] = torch.zeros_like(model.detach(), dtype=pieced.kind)
            else:
                made[tensor] = torch.empty(pieced.shape, dtype=pieced.kind)
        fill({key_of(name, tensor): value for tensor, value in made.items()}, self.table, self.read)
        return made, dict(file.metadata)


class Held:
    """Tensors and metadata by file; those in parts are put together each time they are asked for."""

    def __init__(self, own: Mapping[str, Content], parts: Parts | None = None) -> None:
        self._own, self.parts = own, parts

    def keys(self) -> list[str]:
        """The files, in order."""
        return sorted({*self._own, *(self.parts.table.files if self.parts is not None else ())})

    def __getitem__(self, name: str) -> Content:
        if self.parts is not None and name in self.parts.table.files:
            return self.parts.file(name)
        return self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()
