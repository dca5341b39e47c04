"""A second device without hardware: tensors on "sim" compute on the host, and meet no tensor of the host.

Importing this file gives PyTorch a device named "sim" through its Python backend for PrivateUse1. A tensor there is a
`Sim`, which wraps a tensor of the host; an operation unwraps its tensors, runs on the host and wraps what comes out.
As on CUDA, tensors of the host are refused beside those of the device unless they are single numbers or indices;
generators must belong to the device; numbers leave it through `cpu()`, `item()` or `tolist()`.

It shows where devices are mixed. It does not show what kernels of another device compute: numbers, their order and
speed are the host's. There is no autocast, no forward-mode derivative, no `vmap`, and compilers do not know it. Random
numbers come from the host's generator.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

COPIES = {"aten::_to_copy", "aten::copy_", "aten::set_"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
# these have kernels of their own for every device, which fill a tensor that is resized in place
FACTORIES = ["arange", "arange.start", "arange.start_step", "eye", "eye.m", "linspace", "randperm"]
FACTORIES += ["randperm.generator"]


class Backend(_DummyBackendModule):
    """What PyTorch asks of a device; its random state is the host's."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def manual_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)


_setup_privateuseone_for_python_backend("sim", Backend())
DEVICE = torch.device("sim:0")


# by their addresses, since PyTorch hands an operation another object of the same generator
GENERATORS: dict[int, torch.Generator] = {}


def generator() -> torch.Generator:
    """A generator of the simulated device."""
    made = torch.Generator(device="cpu")
    GENERATORS[made._cdata] = made
    return made


class Sim(torch.Tensor):
    """A tensor on the simulated device; `raw` is the tensor of the host that holds its numbers."""

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> "Sim":
        like = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        # what is seen of an ordinary tensor in inference mode stays ordinary
        with torch.inference_mode(raw.is_inference()):
            return torch.Tensor._make_wrapper_subclass(cls, raw.shape, **like, device=DEVICE)

    def __init__(self, raw: torch.Tensor) -> None:
        self.raw = raw

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(op, *args, **(kwargs or {}))

    # C++ reads lists and arrays of indices as tensors of the device without asking it
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(indices(index), value)

    def new_tensor(self, data: Any, **options: Any) -> torch.Tensor:
        return torch.tensor(data, **{"dtype": self.dtype, "device": self.device, **options})

    def tolist(self) -> Any:
        return self.raw.tolist()

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.raw.untyped_storage()

    def numpy(self, **options: Any) -> Any:
        raise TypeError("can't convert a tensor of the simulated device to numpy; copy it to the host first: cpu()")

    __array__ = numpy

    def __repr__(self, **options: Any) -> str:
        return f"Sim({self.raw!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Sim":
        if not self.is_leaf:
            raise RuntimeError("only tensors created by the user can be copied deeply, not results")
        if id(self) not in memo:
            memo[id(self)] = rebuilt(self.raw.clone(), self.requires_grad, getattr(self, "_is_param", False))
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return rebuilt, (self.raw, self.requires_grad, getattr(self, "_is_param", False))


def rebuilt(raw: torch.Tensor, requires_grad: bool, is_param: bool) -> Sim:
    """The tensor of these numbers, as `pickle` and `deepcopy` make it."""
    tensor = Sim(raw).requires_grad_(requires_grad)
    if is_param:
        tensor._is_param = True
    return tensor


torch.serialization.add_safe_globals([rebuilt])


def indices(index: Any) -> Any:
    """Index with its sequences as tensors of the host."""
    if isinstance(index, tuple):
        return tuple(map(indices, index))
    if isinstance(index, list | range) or type(index).__module__ == "numpy":
        return torch.as_tensor(list(index) if isinstance(index, range) else index, device="cpu")
    return index


def run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The operation on the numbers of the host, and its results on the device it belongs to."""
    name = op._schema.name
    if name == "aten::_fused_sdp_choice":
        # the definition: fused kernels belong to a device
        return 0
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    sims = [leaf for leaf in leaves if isinstance(leaf, Sim)]
    target = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
    if sims and name not in COPIES:
        refuse_hosts(name, args[:1] + args[2:] if name in INDEXED else args, kwargs)
    if target == "sim":
        kwargs = {**kwargs, "device": "cpu"}
    refuse_generator(name, kwargs.get("generator"), bool(sims) or target == "sim")
    raw_args, raw_kwargs = tree_map(lambda a: a.raw if isinstance(a, Sim) else a, (args, kwargs))
    out = op(*raw_args, **raw_kwargs)
    if target not in (None, "sim") or not (sims or target):
        return out
    # what an operation writes in place is the tensor it was given
    known = {id(leaf): leaf for leaf in leaves} | {id(leaf.raw): leaf for leaf in sims}

    def wrapped(result: Any) -> Any:
        if not isinstance(result, torch.Tensor):
            return result
        return known[id(result)] if id(result) in known else Sim(result)

    return tree_map(wrapped, out)


def refuse_hosts(name: str, args: Any, kwargs: Any) -> None:
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, Sim) and leaf.ndim:
            raise RuntimeError(f"Expected all tensors to be on the same device, found sim and cpu, in {name}")


def refuse_generator(name: str, generator: Any, on_sim: bool) -> None:
    if generator is not None and on_sim and generator._cdata not in GENERATORS:
        raise RuntimeError(f"Expected a generator of the device sim, found one of cpu, in {name}")


class Literals(TorchFunctionMode):
    """Tensors of Python's numbers, which PyTorch fills where they live, filled on the host and moved."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.nn.functional.linear and args[0].ndim == 1:
            # PyTorch takes off an axis in place, which a tensor that wraps another does not notice
            return func(args[0][None], *args[1:], **kwargs)[0]
        if func not in (torch.tensor, torch.as_tensor):
            return func(*args, **kwargs)
        device, grad = kwargs.pop("device", None) or torch.get_default_device(), kwargs.pop("requires_grad", False)
        if isinstance(args[0], torch.Tensor) and func is torch.as_tensor:
            return args[0].to(device)
        return func(*args, **kwargs, device="cpu").to(device).requires_grad_(grad)


def install() -> None:
    """Registers every operation of the device, and makes it the one where tensors are made."""
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(lambda op, *args, **kwargs: run(op, *args, **kwargs), "PrivateUse1")
    fallback.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    explicit = torch.library.Library("aten", "IMPL")
    for name in FACTORIES:
        base, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, base), overload or "default")
        explicit.impl(name, lambda *args, _op=op, **kwargs: run(_op, *args, **kwargs), "PrivateUse1")
    LIBRARIES.extend((fallback, explicit))
    # `module.double()` gives a module new tensors, since one cannot take the numbers of another
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    Literals().__enter__()
    torch.set_default_device("sim")


# a library that is collected takes its operations with it
LIBRARIES: list[torch.library.Library] = []
