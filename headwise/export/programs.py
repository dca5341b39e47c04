"""What is exported of a model: programs from tensors to tensors, whose batch and lengths may be any.

An encoder is one program, called as the model is. What writes token by token is `decoder`, and `encoder` if it reads.
"""

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from headwise.attention.masks import Mask
from headwise.attention.structure import KeyMask, Pairs, Place, QueryMask, Structure
from headwise.errors import Unsupported
from headwise.records import record

# axes of inputs by name, as the annotations of models have them; these are those of the run, others may be of any size
_FIXED = frozenset({"channels", "height", "width", "columns", "bands", "features", "d_model", "two"})
# values of a recipe that loop over positions
_LOOPS: Mapping[str, tuple[str, ...]] = {
    "mechanism": ("location_aware",),
    "decoder_mechanism": ("location_aware",),
    "position": ("flow", "recurrent"),
    "kind": ("rnn", "recurrent"),
}


class Traced(nn.Module, ABC):
    """A part of a model as a program: tensors in, tensors out."""

    @abstractmethod
    def forward(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        """The outputs, by their order."""


@dataclass(frozen=True)
class Interface:
    """What a program is given and gives, as meta.json has it.

    Args:
        inputs: the type of each, and its axes: a number, or the name of one that may have any size.
        outputs: by their order.
        attention: names of the last outputs, which hold the weights of attention.
    """

    inputs: Mapping[str, tuple[str, tuple[str | int, ...]]]
    outputs: tuple[str, ...]
    attention: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Interface":
        """From JSON. Raises: KeyError, TypeError or ValueError for anything else."""
        inputs = {entry["name"]: (str(entry["type"]), tuple(entry["axes"])) for entry in values["inputs"]}
        return cls(inputs, tuple(values["outputs"]), tuple(values["attention"]))

    def described(self) -> dict[str, Any]:
        """As JSON."""
        inputs = [{"name": name, "type": kind, "axes": list(axes)} for name, (kind, axes) in self.inputs.items()]
        return {"inputs": inputs, "outputs": list(self.outputs), "attention": list(self.attention)}

    def empty(self, name: str, rows: int) -> Tensor:
        """An input of so many rows whose other open axes are of size 0."""
        kind, axes = self.inputs[name]
        sizes = [axis if isinstance(axis, int) else rows if axis == "batch" else 0 for axis in axes]
        return torch.zeros(sizes, dtype=getattr(torch, kind))


@dataclass(frozen=True)
class Program:
    """A program before it is traced.

    Args:
        name: of its file.
        inputs: an example of each.
        axes: the name of each axis of each input; "" where the size is always that of the example.
        outputs: names, those of attention left out.
        watched: the model whose attention becomes further outputs; None: none does.
    """

    name: str
    module: Traced
    inputs: Mapping[str, Tensor]
    axes: Mapping[str, tuple[str, ...]]
    outputs: tuple[str, ...]
    watched: nn.Module | None = None

    def trace(self) -> tuple[ExportedProgram, Interface]:
        """The program. Raises: Unsupported where PyTorch cannot trace it for any size of its axes."""
        module = self.module if self.watched is None else _Watched(self.module, self.watched)
        attention: tuple[str, ...] = ()
        if isinstance(module, _Watched):
            # which layers are called shows outside of tracing, which leaves nothing on a module
            with torch.no_grad():
                module(list(self.inputs.values()))
            attention = tuple(module.names)
        examples = _distinct(self.inputs, self.axes)
        open_axes = tuple(
            {place: Dim.DYNAMIC for place, axis in enumerate(self.axes[name]) if axis} for name in examples
        )
        try:
            with torch.no_grad(), warnings.catch_warnings():
                # about PyTorch's own insides
                warnings.simplefilter("ignore")
                traced = torch.export.export(
                    module.train(False), (list(examples.values()),), dynamic_shapes=(list(open_axes),), strict=False
                )
        except Unsupported:
            raise
        except Exception as error:
            # whatever PyTorch's tracing stumbles over
            raise Unsupported(f"PyTorch cannot trace this model for any length: {first_line(error)}") from error
        inputs = {
            name: (
                str(tensor.dtype).removeprefix("torch."),
                tuple(axis or tensor.shape[place] for place, axis in enumerate(self.axes[name])),
            )
            for name, tensor in self.inputs.items()
        }
        return traced, Interface(inputs, (*self.outputs, *attention), attention)


def first_line(error: BaseException) -> str:
    """An error of PyTorch in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _distinct(inputs: Mapping[str, Tensor], axes: Mapping[str, tuple[str, ...]]) -> dict[str, Tensor]:
    """The examples, cut or repeated so that open axes have sizes of 2 or more, each another.

    PyTorch takes 0 and 1 for sizes that stay, and may take equal ones for the same.
    """
    sizes: dict[str, int] = {}
    for name, tensor in inputs.items():
        for place, axis in enumerate(axes[name]):
            size = max(2, tensor.shape[place])
            while axis and axis not in sizes and size in sizes.values():
                size += 1
            sizes |= {axis: size} if axis and axis not in sizes else {}
    examples = {}
    for name, tensor in inputs.items():
        for place, axis in enumerate(axes[name]):
            if axis and tensor.shape[place] == 0:
                tensor = torch.cat(
                    [tensor, tensor.new_zeros(*tensor.shape[:place], 1, *tensor.shape[place + 1 :])], place
                )
            if axis:
                tensor = tensor.index_select(place, torch.arange(sizes[axis]) % tensor.shape[place])
        examples[name] = tensor.contiguous()
    return examples


class _Watched(Traced):
    """A program that also gives the weights of the attention of every layer that was called."""

    def __init__(self, module: Traced, model: nn.Module):
        super().__init__()
        # the model's parameters are those of the module
        self.module, self._model = module, [model]
        self.names: list[str] = []

    def forward(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        with record(self._model[0]) as trace:
            outputs = self.module(tensors)
        called = [layer for layer in trace if layer.calls]
        self.names[:] = [f"attention.{layer.name}" for layer in called]
        return (*outputs, *(layer.calls[-1].weights() for layer in called))


def refuse_loops(flat: Mapping[str, Any]) -> None:
    """Raises: Unsupported naming the keys of a recipe whose loops over positions cannot be traced for any length."""
    loops = [
        f"{key} = {value!r}"
        for key, value in flat.items()
        if str(value).partition(":")[0] in _LOOPS.get(key.rpartition(".")[2], ())
    ]
    loops += [
        f"{key} = {value!r}" for key, value in flat.items() if key.endswith((".segment", ".memory_len")) and value
    ]
    if loops:
        raise Unsupported(f"a program of any length has no loop over positions, as these have: {'; '.join(loops)}")


class Called(Traced):
    """A model as it is called, its inputs spread into tensors.

    Args:
        spread: the arguments of an example call.
    """

    def __init__(self, model: nn.Module, spread: "Spread"):
        super().__init__()
        self.model, self._spread = model, spread

    def forward(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        output = self.model(*self._spread.gathered(tensors))
        return (output,) if isinstance(output, Tensor) else tuple(output)


def called(model: nn.Module, arguments: Sequence[Any], output: Any, *, attention: bool) -> Program:
    """The program of a model that was called with these arguments and gave this output."""
    spread = Spread.of(type(model).forward, arguments)
    tensors = spread.tensors(arguments)
    names = ("output",) if isinstance(output, Tensor) else ("output", "output_lens")
    inputs = dict(zip(spread.axes, tensors, strict=True))
    return Program("model", Called(model, spread), inputs, spread.axes, names, model if attention else None)


@dataclass(frozen=True)
class Spread:
    """Arguments of a model as tensors: a mask as the pairs that it lists, a table of features as its parts.

    Args:
        kinds: what stands at the place of each argument.
        axes: of each tensor, by its name.
    """

    kinds: tuple[type, ...]
    axes: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, forward: Callable[..., Any], arguments: Sequence[Any]) -> "Spread":
        """Of a call of this function, whose annotations name the axes."""
        parameters = list(inspect.signature(forward).parameters.values())[1:]
        axes: dict[str, tuple[str, ...]] = {}
        for parameter, value in zip(parameters, arguments, strict=False):
            axes |= dict(_axes_of(parameter.name, parameter.annotation, value))
        return cls(tuple(map(type, arguments)), axes)

    def tensors(self, arguments: Sequence[Any]) -> list[Tensor]:
        """The arguments of another call as tensors."""
        return [tensor for value in arguments for tensor in _spread(value)]

    def gathered(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The arguments of these tensors."""
        left, arguments = list(tensors), list[Any]()
        for kind in self.kinds:
            if issubclass(kind, Mask):
                arguments.append(Listed(left.pop(0)))
            elif is_dataclass(kind):
                arguments.append(kind(*[left.pop(0) for _ in fields(kind)]))
            else:
                arguments.append(left.pop(0))
        return arguments


def _spread(value: Any) -> list[Tensor]:
    if isinstance(value, Mask):
        pairs = value.structure().pairs
        if pairs is None:
            raise Unsupported(f"the mask {type(value).__name__} lists no pairs to export")
        return [torch.stack((pairs.key, pairs.query))]
    if is_dataclass(value):
        return [getattr(value, part.name) for part in fields(value)]
    return [value]


def _axes_of(name: str, annotation: Any, value: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tensors of an argument, each with its name and the names of its axes."""
    if isinstance(value, Mask):
        yield "edges", ("", "edges")
    elif is_dataclass(value):
        for part in fields(value):
            yield f"{name}_{part.name}", _named(part.type, getattr(value, part.name))
    else:
        yield name, _named(annotation, value)


def _named(annotation: Any, tensor: Tensor) -> tuple[str, ...]:
    """The names of the axes that an annotation gives a tensor, "" for those of the run."""
    for kind in get_args(annotation) or (annotation,):
        names = tuple(getattr(axis, "name", "") for axis in getattr(kind, "dims", ()))
        if len(names) == tensor.ndim and (tensor.is_floating_point() == ("float32" in kind.dtypes)):
            return tuple("" if axis in _FIXED else axis for axis in names)
    return ("batch", *[""] * (tensor.ndim - 1))


class Listed(Mask):
    """A graph by its edges as a program is given them: each once, in ascending order of target, then source."""

    def __init__(self, edges: Tensor):
        self.pairs = Pairs(edges[1], edges[0])

    def __call__(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        query, key = torch.broadcast_tensors(query, key)
        sizes = query.shape[-2:]
        table = torch.zeros(sizes, dtype=torch.bool, device=key.device)
        table = table.index_put((self.pairs.query, self.pairs.key), torch.ones((), dtype=torch.bool))
        return table.expand_as(query)

    def structure(self, place: Place | None = None) -> Structure:
        return Structure(self, place, pairs=self.pairs)

    def key_mask(self, structure: Structure) -> KeyMask:
        return structure.table().any(2)

    def query_mask(self, structure: Structure) -> QueryMask:
        return structure.table().any(3)
