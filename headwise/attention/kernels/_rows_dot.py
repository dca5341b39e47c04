"""Strips of a dot product, with a gradient written by hand: the strip is computed again, nothing of it was kept."""

import math

import torch
from torch import Tensor

from headwise.attention.call import Call
from headwise.attention.dropout import draw, kept_scale, restored
from headwise.attention.kernels._products import product, product_of_mkl
from headwise.attention.kernels._rows_relative import RelativeStrip, RelativeStrips
from headwise.attention.kernels._strips import Strip, StripMask, as_wide_as_all_keys, part, rows_of, strips
from headwise.attention.normalizers import Softmax
from headwise.errors import Unsupported

# powers of 2 are three times as fast as those of e: softmax gets its scores in units of ln 2
_UNIT = math.log2(math.e)


def attend_dot(call: Call, query: Tensor, key: Tensor, scale: float, pairs: int, least_rows: int) -> Tensor:
    """The output of a call whose score is scale * query . key."""
    relative = call.relative
    tensors = () if relative is None else relative.tensors
    if call.learns:
        learned = (query, key, call.value, call.bias, *tensors)
        output: Tensor = _Strips.apply(call, scale, pairs, least_rows, *learned)
        return output
    return _Engine(call, query, key, scale, pairs, least_rows).forward()[0]


class _Strips(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, scale, pairs, least_rows, query, key, value, bias, *relative):
        ctx.random_state = torch.get_rng_state() if call.dropout else None
        engine = _Engine(call, query, key, scale, pairs, least_rows)
        output, log_sums = engine.forward()
        ctx.save_for_backward(query, key, value, bias, log_sums, *relative)
        ctx.call, ctx.options = call, (scale, pairs, least_rows)
        return output

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            # it would be taken as if the inputs did not depend on anything
            raise Unsupported("kernel 'rows' has no second derivative; use kernel='plain'")
        query, key, value, bias, log_sums, *relative = ctx.saved_tensors
        engine = _Engine(ctx.call, query, key, *ctx.options)
        with restored(ctx.random_state):
            gradients = engine.backward(gradient, log_sums)
        inputs = (query, key, value, bias, *relative)
        typed = [None if d is None else d.to(x.dtype) for x, d in zip(inputs, gradients, strict=True)]
        return None, None, None, None, *typed


class _Engine:
    """One call cut into strips, with the memory that they share."""

    def __init__(self, call: Call, query: Tensor, key: Tensor, scale: float, pairs: int, least_rows: int):
        self._call, self._scale = call, scale
        self._softmax = isinstance(call.normalizer, Softmax)
        self._unit = _UNIT if self._softmax else 1.0
        # products are in the type of the inputs but for scores, which rounded to bfloat16 are wrong by whole units
        self._wide = torch.float64 if query.dtype == torch.float64 else torch.float32
        self._narrow = self._wide if query.dtype == torch.float16 else query.dtype
        self._query = query
        self._key, self._value = key.to(self._narrow).contiguous(), call.value.to(self._narrow).contiguous()
        self._exact_key = self._key.to(self._wide)
        self._mask = StripMask(call, self._wide)
        # strips of a band differ in shape, and oneDNN would keep something for each
        self._times = product if as_wide_as_all_keys(call) else product_of_mkl
        self._relative = None
        if call.relative is not None:
            self._relative = RelativeStrips(call.relative, call.query_start, self._wide)
        self._bias_forbids = call.bias is not None and not self._softmax and bool((call.bias == float("-inf")).any())
        self._strips = [strip for strip in strips(call, pairs, least_rows) if strip.pairs]
        self._largest = max((strip.pairs for strip in self._strips), default=0)
        self._memory: dict[str, Tensor] = {}
        # glibc gives memory above twice the largest block it ever freed back to the system, strip after strip; this
        # block, which is never written to, teaches it to keep a few strips
        query.new_empty(4 * self._largest, dtype=self._wide)

    def forward(self) -> tuple[Tensor, Tensor]:
        """The output and, for softmax, the logarithm to base 2 of the sum of each row."""
        call = self._call
        output = call.value.new_zeros(*call.shape[:3], call.value.shape[-1])
        log_sums = call.query.new_empty((*call.shape[:3], 1) if self._softmax else (0,), dtype=self._wide)
        for strip in self._strips:
            relative = None if self._relative is None else self._relative.at(strip)
            weights = self._masked_scores(strip, relative)
            sums = None
            if self._softmax:
                sums, log_sum = _powers_(weights)
                rows_of(log_sums, strip).copy_(log_sum)
            else:
                call.normalizer.strip(weights, self._count(strip))
            if call.dropout:
                weights.mul_(self._kept(strip))
            place = rows_of(output, strip)
            rows = self._times(self._narrowed(weights, strip), _keys(self._value, strip)).view(place.shape)
            if relative is not None:
                relative.add_values_(rows := rows.to(self._wide), weights)
            place.copy_(rows if sums is None else rows / sums)
        return output, log_sums

    def backward(self, gradient: Tensor, log_sums: Tensor) -> list[Tensor | None]:
        """Gradients of query, key, value, bias and the tensors of the relative positions."""
        call = self._call
        d_query = torch.zeros(self._query.shape, dtype=self._narrow, device=self._query.device)
        # transposed, (batch, kv_heads, width, key_len), in which products of few rows with all keys are fastest
        d_key, d_value = (x.new_zeros(x.mT.shape, dtype=self._wide) for x in (self._key, self._value))
        d_bias = None if call.bias is None else torch.zeros_like(call.bias, dtype=self._wide)
        if self._relative is not None:
            self._relative.learn()
        for strip in self._strips:
            relative = None if self._relative is None else self._relative.at(strip)
            weights = self._masked_scores(strip, relative)
            count = None if self._softmax else self._count(strip)
            if count is None:
                torch.exp2(weights.sub_(rows_of(log_sums, strip)), out=weights)
            else:
                call.normalizer.strip(weights, count)
            d_weights = self._d_weights(strip, relative, weights, rows_of(gradient, strip), d_value)
            if count is None:
                torch._softmax_backward_data(d_weights, weights, -1, self._wide, grad_input=d_weights)
            else:
                d_weights = call.normalizer.strip_gradient(weights, d_weights, count)
            if d_bias is not None:
                total = part(d_bias, strip)
                total.add_(d_weights.sum_to_size(total.shape))
            if relative is not None:
                relative.learn_bias(d_weights)
            self._learn_dot(strip, d_weights, d_query, d_key)
        return [d_query, d_key.mT, d_value.mT, d_bias, *([] if self._relative is None else self._relative.learned())]

    def _masked_scores(self, strip: Strip, relative: RelativeStrip | None) -> Tensor:
        query = _folded(rows_of(self._query, strip), strip).to(self._wide) * (self._scale * self._unit)
        keys = _keys(self._exact_key, strip).mT
        scores = self._times(query, keys, lambda: self._room("weights", strip)).view(strip.shape)
        if self._call.bias is not None:
            scores.add_(part(self._call.bias, strip), alpha=self._unit)
        if relative is not None:
            relative.add_(scores, self._unit)
        self._mask.hide_(scores, strip)
        return scores

    def _d_weights(
        self, strip: Strip, relative: RelativeStrip | None, weights: Tensor, gradient: Tensor, d_value: Tensor
    ) -> Tensor:
        """The gradient of the weights; adds to that of the values."""
        rows = _folded(gradient.to(self._narrow), strip)
        name = "gradient" if self._narrow == self._wide else "narrow"
        values = _keys(self._value, strip).mT
        d_weights = self._times(rows, values, lambda: self._room(name, strip)).view(strip.shape)
        if self._narrow != self._wide:
            d_weights = self._room("gradient", strip).copy_(d_weights)
        factor = self._kept(strip) if self._call.dropout else None
        used = weights if factor is None else weights * factor
        if relative is not None:
            relative.learn_values(used, gradient, d_weights)
        self._add_product_(d_value, strip, rows.mT, self._narrowed(used, strip), 1.0)
        return d_weights if factor is None else d_weights.mul_(factor)

    def _learn_dot(self, strip: Strip, d_scores: Tensor, d_query: Tensor, d_key: Tensor) -> None:
        narrow = self._narrowed(d_scores, strip)
        rows = self._times(narrow, _keys(self._key, strip)).view(rows_of(d_query, strip).shape)
        torch.mul(rows, self._scale, out=rows_of(d_query, strip))
        query = _folded(rows_of(self._query, strip), strip).to(self._narrow)
        self._add_product_(d_key, strip, query.mT, narrow, self._scale)

    def _add_product_(self, total: Tensor, strip: Strip, left: Tensor, right: Tensor, factor: float) -> None:
        """Adds to the strip's keys of a gradient (batch, kv_heads, width, key_len)."""
        place = total[strip.batches, strip.groups, :, strip.keys]
        place.add_(self._times(left, right).view(place.shape), alpha=factor)

    def _narrowed(self, weights: Tensor, strip: Strip) -> Tensor:
        if self._narrow != self._wide:
            weights = self._room("narrow", strip).copy_(weights)
        return _folded(weights, strip)

    def _room(self, name: str, strip: Strip) -> Tensor:
        """Memory of a strip's size, which all strips share: "weights", "gradient" or "narrow"."""
        if name not in self._memory:
            dtype = self._narrow if name == "narrow" else self._wide
            self._memory[name] = self._query.new_empty(self._largest, dtype=dtype)
        return self._memory[name][: strip.pairs].view(strip.shape)

    def _kept(self, strip: Strip) -> Tensor:
        """What dropout multiplies the weights by."""
        kept = draw(strip.shape, self._call.dropout, self._query.device).to(self._wide)
        return kept.mul_(kept_scale(self._call.dropout))

    def _count(self, strip: Strip) -> Tensor:
        bias = self._call.bias
        return self._mask.count(strip, part(bias, strip) if bias is not None and self._bias_forbids else None)


def _powers_(scores: Tensor) -> tuple[Tensor, Tensor]:
    """2^(scores - largest of the row) in place; their sums, 1 for a row without a key, and log2 of the true sums."""
    # a finite largest one, so that minus infinity less it is no NaN
    largest = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
    torch.exp2(scores.sub_(largest), out=scores)
    sums = scores.sum(-1, keepdim=True)
    sums.add_(sums == 0)
    return sums, largest.add_(sums.log2())


def _keys(tensor: Tensor, strip: Strip) -> Tensor:
    """The strip's keys of a tensor (batch, kv_heads, key_len, n), as (batch * kv_heads, keys, n)."""
    return tensor[strip.batches, strip.groups, strip.keys].flatten(0, 1)


def _folded(rows: Tensor, strip: Strip) -> Tensor:
    """(batch, heads, rows, n) as (batch * kv_heads, rows of the whole group, n): nothing of a group is repeated."""
    batch, heads, length, _ = strip.shape
    groups = batch * (strip.groups.stop - strip.groups.start)
    return rows.reshape(groups, batch * heads * length // groups, rows.shape[-1])
