"""Recurrences against transformers, whose functions are compiled anew with float64 in the place of float32."""

import inspect

import pytest
import torch
from devices import seeded
from torch.nn import functional as F

from headwise.attention.call import Call
from headwise.attention.masks import Causal
from headwise.attention.mechanisms.gated_delta import GatedDelta
from headwise.attention.mechanisms.kimi_delta import KimiDelta
from headwise.attention.mechanisms.mamba2 import Mamba2
from headwise.attention.mechanisms.mlstm import Mlstm

pytest.importorskip("transformers")
HEADS, LENGTH, DIM, VALUES = 3, 131, 5, 7


def widened(module, *names):
    """These functions of a module in float64, as a namespace."""
    namespace = dict(vars(module))
    for name in names:
        lines = inspect.getsource(getattr(module, name)).splitlines()
        # without the decorator that looks for kernels; some are defined inside a condition
        start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("def "))
        text = inspect.cleandoc("\n" + "\n".join(lines[start:]))
        exec(text.replace("torch.float32", "torch.float64").replace(".float()", ".double()"), namespace)
    return namespace


def drawn(gates):
    generator = seeded(2)
    widths = (DIM, DIM, VALUES, gates)
    return [torch.randn(2, HEADS, LENGTH, w, generator=generator, dtype=torch.float64).requires_grad_() for w in widths]


def compare(mechanism, inputs, expected, tolerance=1e-10):
    query, key, value, gates = inputs
    actual = mechanism(Call(query, key, value, mask=Causal(), gates=gates))
    above = torch.randn(actual.shape, generator=seeded(3), dtype=actual.dtype)
    wanted = [*inputs, *mechanism.parameters()]
    found, reference = (torch.autograd.grad((x * above).sum(), wanted) for x in (actual, expected))
    for one, other in zip((actual, *found), (expected, *reference), strict=True):
        size = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one / size, other / size, rtol=0, atol=tolerance)


def swapped(*tensors):
    """(batch, length, heads, ...) of (batch, heads, length, ...), or back."""
    return [tensor.transpose(1, 2) for tensor in tensors]


def test_gated_delta_is_that_of_qwen3_next():
    from transformers.models.qwen3_next import modeling_qwen3_next as module

    run = widened(module, "torch_recurrent_gated_delta_rule")["torch_recurrent_gated_delta_rule"]
    mechanism, inputs = GatedDelta(HEADS).double(), drawn(2)
    query, key, value, gates = swapped(*inputs)
    # as its layer computes them
    decay = -mechanism.log_rate.exp() * F.softplus(gates[..., 0] + mechanism.shift)
    output, _ = run(query, key, value, decay, gates[..., 1].sigmoid(), use_qk_l2norm_in_kernel=True)
    compare(mechanism, inputs, output.transpose(1, 2))


def test_kimi_delta_is_that_of_kimi_linear():
    from transformers.models.kimi_linear import modeling_kimi_linear as module

    run = widened(module, "recurrent_kimi_delta_attention")["recurrent_kimi_delta_attention"]
    mechanism, inputs = KimiDelta(DIM, HEADS).double(), drawn(1 + DIM)
    query, key, value, gates = swapped(*inputs)
    decay = -mechanism.log_rate.exp().unsqueeze(-1) * F.softplus(gates[..., 1:] + mechanism.shift)
    output, _ = run(query, key, value, decay, gates[..., 0].sigmoid(), None, False, use_qk_l2norm_in_kernel=True)
    compare(mechanism, inputs, output.transpose(1, 2))


@pytest.mark.parametrize("groups", [1, 3])
def test_mamba2_is_its_chunk_scan(groups):
    from transformers.models.mamba2 import modeling_mamba2 as module

    run = widened(module, "mamba2_chunk_scan")["mamba2_chunk_scan"]
    mechanism, inputs = Mamba2(HEADS).double(), drawn(1)
    if groups == 1:
        # one B and C for all heads
        inputs[:2] = (x[:, :1].detach().expand(-1, HEADS, -1, -1).clone().requires_grad_() for x in inputs[:2])
    C, B, x, step = swapped(*inputs)
    output = run(
        x, step.squeeze(-1), -mechanism.log_rate.exp(), B, C, 32, mechanism.skip, mechanism.shift, dt_softplus=True
    )
    compare(mechanism, inputs, output.transpose(1, 2))


@pytest.mark.parametrize("size", [1.0, 9.0])
def test_mlstm_is_that_of_xlstm(size):
    from transformers.models.xlstm import modeling_xlstm as module

    if not hasattr(module, "mlstm_recurrent_sequence_native"):
        pytest.skip("transformers takes the functions of the package xlstm")
    names = "mlstm_recurrent_step_native", "mlstm_recurrent_sequence_native"
    run = widened(module, *names)["mlstm_recurrent_sequence_native"]
    mechanism, (query, key, value, gates) = Mlstm(HEADS).double(), drawn(2)
    with torch.no_grad():
        mechanism.input_shift.zero_()
    gates = (gates * size).detach().requires_grad_()
    write, keep = gates[..., 0] + mechanism.input_shift[:, None], gates[..., 1] + mechanism.forget_shift[:, None]
    compare(mechanism, [query, key, value, gates], run(query, key, value, write, keep))
