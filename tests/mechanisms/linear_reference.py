"""Linear attentions by their definitions, pair by pair and position by position, and what all of them must satisfy."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.mechanisms.mechanism import Recurrent
from headwise.attention.relative import Relative
from headwise.errors import ShapeError, Unsupported

Weights = Callable[[Tensor, Tensor, Tensor, int], Tensor]

LENS = torch.tensor([4, 7])
# (mask, query_len, key_len, first query); 5 x 7 unless the queries must stand inside or behind the keys
CAUSAL_CASES = [
    (Causal(), 7, 7, 0),
    (Causal(), 5, 7, 0),
    (Causal(), 7, 5, 0),
    (Causal(), 3, 7, 4),
    (Causal(), 3, 7, 2),
    (Causal(), 2, 3, 5),
    (Causal() & Padding(LENS), 7, 7, 0),
    (Padding(LENS) & Causal(), 3, 7, 4),
    (Causal() & Table(torch.arange(7).fmod(2).bool().view(1, 1, 1, 7)), 7, 7, 0),
    (Causal() & Table((torch.arange(42) % 5 < 3).view(1, 6, 1, 7)), 7, 7, 0),
]
OPEN_CASES = [(None, 5, 7, 0), (Padding(LENS), 5, 7, 0), (Padding(torch.tensor([0, 3])), 5, 7, 3)]


def drawn(heads: int, kv_heads: int, query_len: int, key_len: int, dim: int, dtype: torch.dtype = torch.float64):
    """Query, key and value, the last of another width, all asking for gradients."""
    shapes = ((heads, query_len, dim), (kv_heads, key_len, dim), (kv_heads, key_len, 3))
    return tuple(torch.randn(2, *shape, dtype=dtype).requires_grad_() for shape in shapes)


def by_pairs(query: Tensor, key: Tensor, allowed: Tensor, start: int, log_gates: Tensor | None = None) -> Tensor:
    """sum over c of q_ic k_jc, faded by the gates of all positions after j up to the query's, one pair at a time."""
    batch, heads, query_len, _ = query.shape
    group, key_len = heads // key.shape[1], key.shape[2]
    weights = []
    for b in range(batch):
        for h in range(heads):
            for i in range(query_len):
                for j in range(key_len):
                    product = query[b, h, i] * key[b, h // group, j]
                    for m in range(j + 1, start + i + 1):
                        if log_gates is not None:
                            product = product * log_gates[b, h, m].exp()
                    weights.append(product.sum() if allowed[b, h, i, j] else torch.zeros_like(product.sum()))
    return torch.stack(weights).view(batch, heads, query_len, key_len)


def normalised(weights: Tensor) -> Tensor:
    """Each row over its sum; rows of zeros stay."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1.0, total)


def by_positions(query: Tensor, key: Tensor, value: Tensor, gates: Tensor) -> Tensor:
    """o_t = q_t S_t with S_t = diag(a_t) S_(t-1) + k_t v_t^T, in float64, one position at a time."""
    sums = torch.zeros(*key.shape[:2], key.shape[-1], value.shape[-1], dtype=torch.float64)
    output = []
    for t in range(query.shape[2]):
        sums = gates[:, :, t, :, None] * sums + key[:, :, t, :, None] * value[:, :, t, None, :]
        output.append((query[:, :, t, None, :] @ sums).squeeze(2))
    return torch.stack(output, dim=2)


def check_definition(mechanism: Recurrent, weights: Weights, case, heads: int = 6, kv_heads: int = 3) -> None:
    """Outputs, gradients of inputs and parameters, and effective weights are those of the definition, in float64."""
    mask, query_len, key_len, start = case
    mechanism = mechanism.double()
    tensors = drawn(heads, kv_heads, query_len, key_len, 5)
    allowed = torch.ones(2, heads, query_len, key_len, dtype=torch.bool)
    if mask is not None:
        allowed &= mask.dense(2, heads, query_len, key_len, query_start=start)
    expected_weights = weights(tensors[0], tensors[1], allowed, start)
    expected = expected_weights @ tensors[2].repeat_interleave(heads // kv_heads, 1)
    actual = mechanism(*tensors, mask=mask, query_start=start)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    shown = mechanism.effective_weights(*tensors[:2], mask=mask, query_start=start)
    torch.testing.assert_close(shown, expected_weights, rtol=0, atol=1e-12)
    learned = [*tensors, *mechanism.parameters()]
    gradient = torch.randn_like(actual)
    for one, two in zip(
        torch.autograd.grad(actual, learned, gradient, allow_unused=True),
        torch.autograd.grad(expected, learned, gradient, allow_unused=True),
        strict=True,
    ):
        # a pair alone, of the first position, meets no gate
        two = torch.zeros_like(one) if two is None else two
        torch.testing.assert_close(one, two, rtol=0, atol=1e-11)


def check_steps(mechanism: Recurrent, length: int, cuts: list[int], heads: int = 6, kv_heads: int = 3) -> None:
    """Piece by piece with a state is all at once, and the state is wide with the batch first."""
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 4e-3)):
        query, key, value = (x.detach() for x in drawn(heads, kv_heads, length, length, 5, dtype))
        whole = mechanism.to(dtype)(query, key, value, mask=Causal())
        state, pieces = None, []
        for start, end in zip([0, *cuts], [*cuts, length], strict=True):
            new = (x[:, :, start:end] for x in (query, key, value))
            piece, state = mechanism.resume(*new, state)
            assert all(part.shape[0] == 2 and part.dtype.itemsize >= 4 for part in state)
            pieces.append(piece)
        actual = torch.cat(pieces, dim=2)
        assert actual.dtype == whole.dtype == dtype
        scale = max(1.0, whole.abs().max().item())
        torch.testing.assert_close(actual / scale, whole / scale, rtol=0, atol=tolerance)


def check_hidden_stay_hidden(mechanism: Recurrent, mask) -> None:
    """NaN in keys and values that padding hides changes nothing, forward or backward."""
    query, key, value = drawn(6, 3, 7, 7, 5)
    spoiled = key.detach().clone(), value.detach().clone()
    for tensor in spoiled:
        tensor[0, :, 4:] = torch.nan
        tensor.requires_grad_()
    mechanism = mechanism.double()
    clean, dirty = mechanism(query, key, value, mask=mask), mechanism(query, *spoiled, mask=mask)
    assert torch.equal(clean, dirty)
    gradient = torch.randn_like(clean)
    wanted = [query, key, value, *mechanism.parameters()]
    found = [query, *spoiled, *mechanism.parameters()]
    for one, two in zip(
        torch.autograd.grad(clean, wanted, gradient), torch.autograd.grad(dirty, found, gradient), strict=True
    ):
        assert torch.equal(one, two)
    for tensor in torch.autograd.grad(mechanism(query, *spoiled, mask=mask), spoiled, gradient):
        assert not tensor[0, :, 4:].any()


def check_empty(mechanism: Recurrent, mask) -> None:
    """No queries, no keys, no batch: right shapes, zeros, and a gradient that can be asked for."""
    mechanism = mechanism.float()
    for batch, query_len, key_len in ((2, 0, 7), (2, 5, 0), (0, 5, 7), (2, 0, 0)):
        query = torch.randn(batch, 6, query_len, 5, requires_grad=True)
        key, value = torch.randn(batch, 3, key_len, 5), torch.randn(batch, 3, key_len, 2)
        output = mechanism(query, key, value, mask=mask)
        assert output.shape == (batch, 6, query_len, 2)
        assert not output.any()
        output.sum().backward()
        assert not query.grad.any()


def check_refusals(
    mechanism: Recurrent, name: str, masks: str = r"Causal\(\), padding of keys, and both together"
) -> None:
    """What it cannot honour is named, with what it can."""
    x = torch.ones(2, 6, 7, 5)
    for mask, kind in (
        (Window(2, 0), "Window"),
        (Table(torch.ones(7, 7, dtype=torch.bool)), "Table"),
        (Causal() & Window(1, 1), "And"),
        (~Causal(), "Not"),
    ):
        with pytest.raises(
            Unsupported,
            match=f"{name} cannot honour the mask {kind}; it honours {masks}; use mechanism",
        ):
            mechanism(x, x, x, mask=mask)
    for options, given in (
        ({"bias": torch.zeros(1, 1, 7, 7)}, "a bias"),
        ({"relative": Relative(low=0, scalar=torch.zeros(1, 1))}, "relative positions"),
    ):
        with pytest.raises(
            Unsupported, match=f"{name} cannot honour {given}: it has no table of scores to add to; use a position"
        ):
            mechanism(x, x, x, mask=Causal(), **options)


def check_shapes(mechanism: Recurrent) -> None:
    """Tensors that do not fit are refused by name, not broadcast."""
    x, mask = torch.ones(2, 6, 7, 5), Causal()
    with pytest.raises(ShapeError, match=r"batch differs: query 2, key 1, value 1"):
        mechanism(x, x[:1], x[:1], mask=mask)
    with pytest.raises(ShapeError, match=r"heads of key and value \(4\) must divide heads of query \(6\)"):
        mechanism(x, x[:, :4], x[:, :4], mask=mask)
    with pytest.raises(ShapeError, match=r"query_dim \(5\) and key_dim \(4\) differ"):
        mechanism(x, x[..., :4], x, mask=mask)


def check_memory(mechanism: Recurrent) -> None:
    """What is kept for the gradient grows with the length, not with its square, nor with length x width x width."""

    def kept(length: int) -> int:
        sizes = {}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        query, key, value = (torch.randn(1, 2, length, 32, requires_grad=True) for _ in range(3))
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            # held, since a freed storage would lend its address to another
            held = mechanism(query, key, value, mask=Causal())
        del held
        return sum(sizes.values())

    once, twice = kept(512), kept(1024)
    assert 1.5 < twice / once < 2.2
    # a sum for each position would be 2 heads x 1,024 x 32 x 33 numbers of 4 bytes
    assert twice < 2 * 1024 * 32 * 33 * 4
