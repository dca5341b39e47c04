"""What mechanisms have to do alike: definitions pair by pair, weights, padding, steps, refusals, half precision."""

from dataclasses import replace

import pytest
import torch
from devices import DEVICE, seeded
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.relative import Relative
from headwise.errors import ShapeError, Unsupported

NAN = float("nan")
LENS = torch.tensor([4, 7])
# (mask, query_len, key_len, first query)
CAUSAL_CASES = [
    (Causal(), 7, 7, 0),
    (Causal(), 5, 7, 0),
    (Causal(), 7, 5, 0),
    (Causal(), 3, 7, 2),
    (Causal(), 2, 3, 5),
    (Padding(LENS) & Causal(), 3, 7, 4),
    (Causal() & Table((torch.arange(42) % 5 < 3).view(1, 6, 1, 7)), 7, 7, 0),
]
OPEN_CASES = [(None, 5, 7, 0), (Padding(LENS), 5, 7, 0), (Padding(torch.tensor([0, 3])), 5, 7, 3)]


def run(mechanism, query, key, value, **options):
    """The mechanism called with a Call of these."""
    return mechanism(Call(query, key, value, **options))


def shown(mechanism, query, key, **options):
    """Its weights."""
    return mechanism.weights(Call(query, key, key, **options))


def tensors(query_len, key_len, *, heads=4, kv_heads=2, dim=6, value_dim=5, batch=3, dtype=torch.float64):
    """Query, key and value that ask for gradients; key and value have fewer heads."""
    generator = seeded(1)
    shapes = (batch, heads, query_len, dim), (batch, kv_heads, key_len, dim), (batch, kv_heads, key_len, value_dim)
    return [torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def spread(tensor: Tensor, heads: int) -> Tensor:
    """Keys or values once for each head of the query."""
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def near(actual, expected, tolerance=1e-10):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def same_with_gradients(one, two, inputs, tolerance=1e-10):
    """Both outputs of the inputs are equal, and so are their gradients; a missing one is zero."""
    near(one, two, tolerance)
    weight = torch.randn(one.shape, dtype=one.dtype)
    options = {"allow_unused": True, "materialize_grads": True}
    gradients = [torch.autograd.grad((output * weight).sum(), inputs, **options) for output in (one, two)]
    for first, second in zip(*gradients, strict=True):
        near(first, second, tolerance)


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


def is_defined_by(mechanism, weights, case):
    """Outputs, gradients of inputs and parameters, and weights are those of the definition, in float64."""
    mask, query_len, key_len, start = case
    mechanism = mechanism.double()
    inputs = tensors(query_len, key_len, heads=6, kv_heads=3, dim=5, value_dim=3, batch=2)
    allowed = torch.ones(2, 6, query_len, key_len, dtype=torch.bool)
    if mask is not None:
        allowed &= mask.dense(2, 6, query_len, key_len, query_start=start)
    expected = weights(inputs[0], inputs[1], allowed, start)
    near(shown(mechanism, *inputs[:2], mask=mask, query_start=start), expected, 1e-12)
    actual = run(mechanism, *inputs, mask=mask, query_start=start)
    same_with_gradients(actual, expected @ spread(inputs[2], 6), [*inputs, *mechanism.parameters()], 1e-11)


def steps_are_all_at_once(mechanism, length, cuts, mask=None):
    """Piece by piece with a state is all at once, and the state is wide with the batch first."""
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 4e-3)):
        inputs = [t.detach().to(dtype) for t in tensors(length, length, heads=6, kv_heads=3, dim=5, batch=2)]
        whole = run(mechanism.to(dtype), *inputs, mask=Causal())
        state, pieces = None, []
        for start, end in zip([0, *cuts], [*cuts, length], strict=True):
            piece, state = mechanism.resume(Call(*(x[:, :, start:end] for x in inputs)), state)
            assert all(part.shape[0] == 2 and part.dtype.itemsize >= 4 for part in state)
            pieces.append(piece)
        actual = torch.cat(pieces, dim=2)
        assert actual.dtype == whole.dtype == dtype
        scale = max(1.0, whole.abs().max().item())
        near(actual / scale, whole / scale, tolerance)


def cached_steps_are_all_at_once(mechanism, mask):
    """One query at a time over the keys so far, and the queries so far where it asks for them."""
    query, key, value = tensors(7, 7)
    whole = run(mechanism, query, key, value, mask=mask)
    steps = []
    for i in range(7):
        seen = key[:, :, : i + 1], value[:, :, : i + 1]
        gates = query[:, :, : i + 1] if mechanism.facts.cache == "queries" else None
        steps.append(run(mechanism, query[:, :, i : i + 1], *seen, mask=mask, query_start=i, gates=gates))
    near(torch.cat(steps, 2), whole)


def weights_are_the_function(mechanism, inputs, **options):
    """weights @ value is the output, and a part of them is that part."""
    query, key, value = inputs
    weights = shown(mechanism, query, key, **options)
    assert weights.shape == (*query.shape[:3], key.shape[2])
    near(weights @ spread(value, query.shape[1]), run(mechanism, query, key, value, **options))
    part = mechanism.weights(Call(query, key, key, **options), [2, 0], slice(1, 4), slice(2, None))
    near(part, weights[:, [2, 0], 1:4, 2:])
    return weights


def padding_is_absence(mechanism, length, lens, *, mask=None):
    """A padded sentence, NaN in keys and values of its padding, is as the sentence alone: outputs and all gradients."""
    inputs = tensors(length, length, batch=len(lens))
    padded = Padding(torch.tensor(lens)) if mask is None else mask & Padding(torch.tensor(lens))
    query, key, value = (tensor.detach().clone() for tensor in inputs)
    for row, real in enumerate(lens):
        key[row, :, real:] = value[row, :, real:] = NAN
    poisoned = [tensor.requires_grad_() for tensor in (query, key, value)]
    output = run(mechanism, *poisoned, mask=padded)
    weight = torch.randn(output.shape, dtype=output.dtype)
    total = sum((output[row, :, :n] * weight[row, :, :n]).sum() for row, n in enumerate(lens))
    parameters = [parameter for parameter in mechanism.parameters() if parameter.requires_grad]
    # a mechanism need not read its keys
    wanted = [*poisoned, *parameters]
    d_query, d_key, d_value, *d_own = torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)
    d_alone = [torch.zeros_like(parameter) for parameter in parameters]
    for row, real in enumerate(lens):
        cut = [tensor[row : row + 1, :, :real].detach().requires_grad_() for tensor in inputs]
        expected = run(mechanism, *cut, mask=mask)
        near(output[row : row + 1, :, :real], expected)
        loss = (expected * weight[row : row + 1, :, :real]).sum()
        found = torch.autograd.grad(loss, [*cut, *parameters], allow_unused=True, materialize_grads=True)
        near(d_query[row : row + 1, :, :real], found[0])
        for whole, part in zip((d_key, d_value), found[1:3], strict=True):
            near(whole[row : row + 1, :, :real], part)
            assert not whole[row, :, real:].any()
        d_alone = [old + new for old, new in zip(d_alone, found[3:], strict=True)]
    for whole, parts in zip(d_own, d_alone, strict=True):
        near(whole, parts)


def no_key_gives_zero(mechanism, length, mask=None):
    """A sentence without a token is exactly zero, with zero gradients."""
    inputs = tensors(length, length, batch=2, heads=6, kv_heads=3)
    padding = Padding(torch.tensor([0, length]))
    output = run(mechanism, *inputs, mask=padding if mask is None else mask & padding)
    assert not output[0].any()
    assert output[1].any()
    for gradient in torch.autograd.grad(output.square().sum(), inputs, allow_unused=True, materialize_grads=True):
        assert not gradient[0].any()
        assert gradient.isfinite().all()


def half_precision(mechanism, length, key_len=None, **options):
    """bfloat16 is float32 rounded; under autocast nothing is computed in less than it was given."""
    inputs = [tensor.detach().float() for tensor in tensors(length, key_len or length)]
    mechanism = mechanism.float()
    exact = run(mechanism, *[tensor.bfloat16().float() for tensor in inputs], **options)
    rounded = run(mechanism, *[tensor.bfloat16() for tensor in inputs], **options)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=2e-2, atol=2e-2)
    with torch.autocast(DEVICE, torch.bfloat16):
        cast = run(mechanism, *inputs, **options)
    near(cast, run(mechanism, *inputs, **options), 0)


def empty_sequences(mechanism, mask=None):
    """No queries, no keys, no batch: right shapes, zeros, and a gradient that can be asked for."""
    for batch, query_len, key_len in ((3, 0, 0), (3, 5, 0), (3, 0, 7), (0, 7, 7)):
        if query_len != key_len and not mechanism.facts.cross:
            continue
        inputs = tensors(query_len, key_len, batch=batch)
        output = run(mechanism, *inputs, mask=mask)
        assert output.shape == (batch, 4, query_len, 5)
        assert not output.any()
        gradients = torch.autograd.grad(output.sum(), inputs, allow_unused=True, materialize_grads=True)
        assert not any(gradient.any() for gradient in gradients)


def dropout_acts_while_training(mechanism, length=8):
    inputs = tensors(length, length)
    assert not torch.equal(run(mechanism, *inputs), run(mechanism, *inputs))
    mechanism.eval()
    assert torch.equal(run(mechanism, *inputs), run(mechanism, *inputs))


def refuses(mechanism, *, heads=4, dim=6):
    """It says what it cannot honour and what it can, by name."""
    facts, name = mechanism.facts, type(mechanism).__name__
    mask = None if facts.bidirectional else Causal()
    call = Call(*(t.detach() for t in tensors(5, 5, heads=heads, dim=dim, batch=2)), mask=mask)
    with pytest.raises(Unsupported, match=f"{name} has no scores that a bias could be added to"):
        mechanism(replace(call, bias=torch.zeros(1, 1, 5, 5)))
    with pytest.raises(Unsupported, match=f"{name} has no place for relative positions"):
        mechanism(replace(call, relative=Relative(low=0, scalar=torch.zeros(1, 1))))
    others = [Window(1, 1), Table(torch.eye(5).bool()), Padding(torch.ones(2, 5).long()), ~Causal()]
    others += [] if facts.causal else [Causal(), Causal() & Padding(torch.tensor([2, 3]))]
    for other in others:
        with pytest.raises(Unsupported, match=f"{name} cannot honour the mask .*; it honours"):
            mechanism(replace(call, mask=other))
    for other in [] if facts.bidirectional else [None, Padding(torch.tensor([2, 3]))]:
        with pytest.raises(Unsupported, match=f"{name} got .*, but its memory runs .*use mechanism 'linear'"):
            mechanism(replace(call, mask=other))
    if facts.cache == "none":
        with pytest.raises(Unsupported, match=f"{name} reads a sequence as a whole and cannot go on from position 3"):
            mechanism(replace(call, query_start=3))
    if facts.cache == "none" and not facts.cross:
        with pytest.raises(Unsupported, match=rf"{name} is self-attention: query_len \(3\) and key_len \(5\)"):
            mechanism(replace(call, query=call.query[:, :, :3]))


def wrong_width(mechanism, dim=4):
    """Vectors of another width than it was built for are refused by name."""
    mask = None if mechanism.facts.bidirectional else Causal()
    with pytest.raises(ShapeError, match=rf"was built for head_dim \d, got {dim}"):
        run(mechanism, *tensors(5, 5, dim=dim), mask=mask)


def memory_is_linear(mechanism):
    """What is kept for the gradient grows with the length, not with its square, nor with length x width x width."""

    def kept(length: int) -> int:
        sizes = {}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        inputs = tensors(length, length, batch=1, heads=2, kv_heads=2, dim=32, value_dim=32, dtype=torch.float32)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            # held, since a freed storage would lend its address to another
            held = run(mechanism, *inputs, mask=Causal() if mechanism.facts.causal else None)
        del held
        return sum(sizes.values())

    once, twice = kept(512), kept(1024)
    assert 1.5 < twice / once < 2.2
    return twice
