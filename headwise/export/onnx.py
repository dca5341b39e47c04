"""ONNX: a model as graphs that onnxruntime runs, in float32 or with weights of 8 bits."""

import logging
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from headwise.errors import ConfigError, MachineError, Unsupported, unknown
from headwise.export.exported import AnySubject, ProgramRunner, damaged, program_files
from headwise.export.programs import Interface, first_line
from headwise.export.stand_ins import Session
from headwise.runs.commits import Writable

NAME = "onnx"
QUANTIZATIONS = ("float32", "int8")
# the highest that onnxruntime-web knows too
_OPSET = 20
# protobuf has no larger messages
_MOST_BYTES = (1 << 31) - 1


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MachineError("ONNX is not installed: pip install 'headwise[onnx]'") from None


def files_of(subject: AnySubject, quantization: str = "float32", attention: bool = False) -> dict[str, Writable]:
    """The files of a run in this format. Raises: Unsupported naming what cannot be traced, or what ONNX has not."""
    if quantization not in QUANTIZATIONS:
        raise ConfigError(unknown("quantization", quantization, QUANTIZATIONS))
    for name in ("onnx", "onnxscript", "onnxruntime"):
        _library(name)
    settings = {"opset": _OPSET, "quantization": quantization}
    write = partial(_graph, quantization=quantization)
    return program_files(subject, ".onnx", write, attention=attention, settings=settings)


def _graph(program: ExportedProgram, interface: Interface, quantization: str) -> bytes:
    with _silent():
        try:
            exported: Any = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                opset_version=_OPSET,
                input_names=list(interface.inputs),
                output_names=list(interface.outputs),
            )
        except Exception as error:
            raise Unsupported(f"ONNX has no form of this model: {_reason(error)}") from error
    graph = exported.model_proto
    _name_axes(graph, interface)
    # sizes inside are those of the example in places, which onnxruntime's tool refuses
    del graph.graph.value_info[:]
    if graph.ByteSize() > _MOST_BYTES:
        raise Unsupported(f"a graph of {graph.ByteSize():,} bytes is more than a file of ONNX holds ({_MOST_BYTES:,})")
    data: bytes = graph.SerializeToString()
    return data if quantization == "float32" else _quantized(data)


def _reason(error: BaseException) -> str:
    """The operator that has no form, where that is the reason; else what it began with."""
    operator = re.search(r"No ONNX function found for <OpOverload\(op='([^']+)'", str(error))
    if operator:
        return f"no counterpart of {operator[1]}"
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)


@contextmanager
def _silent() -> Iterator[None]:
    """Without what the exporter logs about itself."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _name_axes(graph: Any, interface: Interface) -> None:
    """Gives the open axes of a graph their names, in place of numbers of symbols."""
    names = {}
    for value in graph.graph.input:
        for axis, dim in zip(interface.inputs[value.name][1], value.type.tensor_type.shape.dim, strict=True):
            if dim.dim_param and isinstance(axis, str):
                names[dim.dim_param] = axis
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b") if names else None
    for value in (*graph.graph.input, *graph.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if pattern is not None and dim.dim_param:
                dim.dim_param = pattern.sub(lambda match: names[match[1]], dim.dim_param)


def _quantized(data: bytes) -> bytes:
    """With weights in 8 bits, and inputs of products in 8 bits as they come."""
    tool = _library("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
        source.write_bytes(data)
        with _silent_root():
            tool.quantize_dynamic(source, target, weight_type=tool.QuantType.QInt8)
        return target.read_bytes()


@contextmanager
def _silent_root() -> Iterator[None]:
    """Without the advice that onnxruntime's tool logs."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class OnnxSession(Session):
    """A graph on the processor, with as many threads as PyTorch has."""

    def __init__(self, path: Path, interface: Interface):
        library = _library("onnxruntime")
        options = library.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        self.interface = interface
        self._outputs = [name for name in interface.outputs if name not in interface.attention]
        try:
            self._session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise damaged(path, error) from None
        # what a graph does not depend on is no input of it
        self._inputs = {value.name for value in self._session.get_inputs()}

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        names = self.interface.inputs
        feed = {
            name: tensor.detach().to(getattr(torch, kind)).contiguous().numpy()
            for (name, (kind, _)), tensor in zip(names.items(), tensors, strict=True)
            if name in self._inputs
        }
        return [torch.from_numpy(array) for array in self._session.run(self._outputs, feed)]


class OnnxRunner(ProgramRunner):
    """A folder in onnxruntime."""

    def versions(self) -> dict[str, str]:
        return {"onnxruntime": str(_library("onnxruntime").__version__), "opset": str(_OPSET)}

    def opened(self, path: Path, interface: Interface) -> Session:
        return OnnxSession(path, interface)
