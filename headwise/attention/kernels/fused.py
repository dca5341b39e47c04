"""PyTorch's scaled dot product attention (SDPA) on any device: tiled, no table of scores is kept.

Its own backends are chosen by PyTorch: FlashAttention, memory-efficient, cuDNN on an accelerator, tiles on a CPU.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headwise.attention.call import Call, is_plain
from headwise.attention.checkpointing import can_checkpoint
from headwise.attention.kernels import plain
from headwise.attention.kernels._sdpa import NoDerivative, sdpa
from headwise.attention.normalizers import Softmax
from headwise.attention.relative import Relative
from headwise.attention.zeros import zeroed


def refusal(call: Call) -> str | None:
    if not isinstance(call.normalizer, Softmax):
        return f"the normalizer is {call.normalizer.name}, not softmax"
    if not call.score.is_dot():
        return f"the score {type(call.score).__name__} is no dot product"
    added = [] if call.bias is None else [call.bias]
    if call.relative is not None:
        if call.relative.scalar is None or len(call.relative.tensors) > 1:
            return "its relative positions are more than one number for each distance"
        if _learn(call.relative):
            return "its relative positions learn"
        added += call.relative.tensors
    for tensor in added:
        if torch.promote_types(tensor.dtype, call.query.dtype) != call.query.dtype:
            return f"the bias would be rounded to {call.query.dtype}"
    return plain.empty_axis(call)


def num_pairs(call: Call) -> int:
    """All pairs; half of them where the mask is causal."""
    _, _, query_len, key_len = call.shape
    if not _is_causal(call):
        return math.prod(call.shape)
    full = min(query_len, key_len)
    return call.shape[0] * call.shape[1] * (full * (full + 1) // 2 + (query_len - full) * key_len)


def memory_summary(call: Call) -> str:
    if keeps_scores(call):
        return (
            f"scores ({', '.join(map(str, call.shape))}), {math.prod(call.shape) * call.query.element_size():,} bytes"
        )
    row = f"one number a row, {math.prod(call.shape[:3]) * 4:,} bytes"
    tabled = _tabled(call)
    return f"{row}, and the table of mask and bias, {tabled * call.query.element_size():,} bytes" if tabled else row


def peak_bytes(call: Call) -> int:
    # a score of half-precision vectors is float32, and so is then what SDPA is given
    item = call.query.element_size() if is_plain(call.score) else max(4, call.query.element_size())
    tabled = _tabled(call)
    scores = 4 * item * math.prod(call.shape) if keeps_scores(call) else 4 * math.prod(call.shape[:3])
    # the table, the same with rows that see nothing, and the numbers that SDPA adds
    return scores + _copied_bytes(call) + tabled * (2 + item)


def _copied_bytes(call: Call) -> int:
    """Bytes of queries, keys and values without what nobody sees, as their score turns them, and of one width."""
    inputs = (call.query, call.key, call.value)
    numbers, item = sum(tensor.numel() for tensor in inputs), call.query.element_size()
    copied = item * numbers if not call.structure.open or _tabled(call) else 0
    if not is_plain(call.score):
        # once in the type of the score, once more as it leaves them
        copied += 2 * max(4, item) * numbers
    if keeps_scores(call):
        copied += item * call.group * (call.key.numel() + call.value.numel())
    width = max(call.query.shape[-1], call.value.shape[-1])
    padded = sum(math.prod(tensor.shape[:3]) * width for tensor in inputs if tensor.shape[-1] < width)
    # the output has that width too
    shortened = math.prod(call.shape[:3]) * width if width > call.value.shape[-1] else 0
    return copied + item * (padded + shortened)


def _tabled(call: Call) -> int:
    """Numbers of the table of mask, bias and relative positions that SDPA is given; 0 where it needs none."""
    return 0 if _is_causal(call) else max(call.tabled(), biases(call))


def biases(call: Call) -> int:
    """Numbers of the table that relative positions are written out to, one for each pair of a head; 0 without."""
    if call.relative is None or call.relative.scalar is None:
        return 0
    return call.relative.scalar.shape[0] * call.shape[2] * call.shape[3]


def _learn(relative: Relative) -> bool:
    """Whether a gradient may be asked of them, by `backward` or by a transform."""
    tracked = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in relative.tensors)
    return tracked or not can_checkpoint(relative.tensors)


def _bias(call: Call) -> Tensor | None:
    """All that is added to the scores."""
    if call.relative is None:
        return call.bias
    bias = call.relative.bias(*call.shape[2:], call.query_start)
    return bias if call.bias is None else bias + call.bias


def keeps_scores(call: Call) -> bool:
    """Whether SDPA keeps a table of scores: on a CPU with dropout, and for a bias that learns."""
    return learns(call.bias) or (call.dropout > 0.0 and call.query.device.type == "cpu")


def learns(bias: Tensor | None) -> bool:
    """Whether SDPA is asked for a gradient of the bias; one inside a transform may learn at another level of it."""
    if bias is None or bias.requires_grad:
        return bias is not None
    return not torch.compiler.is_compiling() and torch.func.debug_unwrap(bias) is not bias


def compute(call: Call) -> Float[Tensor, "batch heads query_len value_dim"]:
    """The output of the call; by the definition inside transforms that ask for derivatives which SDPA has not."""
    try:
        return _computed(call)
    except NoDerivative:
        return plain.compute(call)


def _computed(call: Call) -> Tensor:
    causal = _is_causal(call)
    keep, bias, query, live = None if causal else call.keep(), _bias(call), call.query, None
    if keep is not None and (live := _live(call, keep)) is not None:
        # a row without a key sees all of them with a query of zeros and is zeroed afterwards: its softmax and its
        # gradient are finite whatever a backend does with rows of minus infinities
        query = zeroed(query, live)
    query, key, value, scale = call.products(query=query)
    added = bias
    if keep is not None and bias is not None:
        hidden = -math.inf if live is None else torch.where(live, -math.inf, 0.0).to(query.dtype)
        added = torch.where(keep, bias.to(query.dtype), hidden)
    elif keep is not None:
        added = (keep if live is None else keep | ~live).expand(-1, -1, -1, key.shape[2])
    width = value.shape[-1]
    if query.shape[-1] != width:
        # unequal widths would make SDPA keep the scores, on a CPU
        more = query.shape[-1] - width
        query, key, value = (F.pad(t, (0, max(0, n))) for t, n in ((query, -more), (key, -more), (value, more)))
    output = sdpa(
        query,
        key,
        value,
        attn_mask=added,
        dropout_p=call.dropout,
        is_causal=causal,
        scale=scale,
        # a Python bool of symbolic heads too
        enable_gqa=True if call.group > 1 else False,  # noqa: SIM210
    )[..., :width]
    output = output.to(call.value.dtype)
    return output if live is None else zeroed(output, live)


def _live(call: Call, keep: Tensor) -> Tensor | None:
    """Which rows see a key, with an axis of size 1 for keys; None: all of them."""
    if call.bias is not None:
        return keep.any(-1, keepdim=True)
    queries = call.structure.query_mask()
    return None if queries is None else queries.unsqueeze(-1)


def _is_causal(call: Call) -> bool:
    # a Python bool of a symbolic start too
    alone = bool(call.bias is None and call.relative is None and call.query_start == 0)
    return alone and call.structure.causal
