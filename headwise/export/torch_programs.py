"""Programs of torch.export: .pt2 files that PyTorch runs without Headwise."""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.export import ExportedProgram

from headwise.export.exported import AnySubject, ProgramRunner, damaged, program_files
from headwise.export.programs import Interface
from headwise.export.stand_ins import Session
from headwise.runs.commits import Writable

NAME = "torch"


def files_of(subject: AnySubject, attention: bool = False) -> dict[str, Writable]:
    """The files of a run in this format. Raises: Unsupported naming what cannot be traced."""
    return program_files(subject, ".pt2", _saved, attention=attention, settings={"torch": torch.__version__})


def _saved(program: ExportedProgram, interface: Interface) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # about PyTorch's own insides
        warnings.simplefilter("ignore")
        torch.export.save(program, stream)
    return stream.getvalue()


class TorchSession(Session):
    """A program on the processor."""

    def __init__(self, path: Path, interface: Interface):
        self.interface = interface
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._module = torch.export.load(path).module()
        except Exception as error:
            raise damaged(path, error) from None

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        outputs = self._module(list(tensors))
        return list(outputs)[: len(self.interface.outputs) - len(self.interface.attention)]


class TorchRunner(ProgramRunner):
    """A folder in PyTorch."""

    def versions(self) -> dict[str, str]:
        return {}

    def opened(self, path: Path, interface: Interface) -> Session:
        return TorchSession(path, interface)
