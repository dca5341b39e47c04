"""Multi-head attention against a head-by-head definition written with loops, and its packing, caches and hygiene."""

import pytest
import torch
from devices import seeded
from torch import Tensor

from headwise import positions
from headwise.attention import attend
from headwise.attention.masks import Causal, Mask, Padding, Table
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep, KeyValues, Segments
from headwise.errors import ConfigError, ShapeError
from headwise.layers.attention import MultiHeadAttention
from headwise.positions.rotary import Rotary

BATCH, LENGTH, MEMORY_LEN, HEADS, HEAD_DIM, MEMORY_DIM = 2, 5, 7, 6, 11, 13
WIDTH = HEADS * HEAD_DIM


def layer(kv_heads=None, memory_dim=None, bias=True, seed=3, **options):
    torch.manual_seed(seed)
    attention = MultiHeadAttention(
        WIDTH, HEADS, Scored(), num_kv_heads=kv_heads, memory_dim=memory_dim, bias=bias, **options
    )
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return attention.double().eval()


def numbers(*shape, seed=7):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def matrices(attention):
    """W_q, W_k, W_v, W_o with their biases, as three separate products would have them."""
    query, key, value, output = attention.matrices()
    if attention.projection.bias is None:
        return (query, key, value, output), (0.0, 0.0, 0.0, 0.0)
    biases = [attention.projection.bias]
    if attention.memory_projection is not None:
        biases.append(attention.memory_projection.bias)
    sizes = [len(query), len(key), len(value)]
    return (query, key, value, output), (*torch.cat(biases).split(sizes), attention.output.bias)


def definition(attention, x, memory, keep=None):
    """The sum over heads of softmax(q_h k_h^T / sqrt(d)) v_h W_o,h: every head from its own slice of every matrix."""
    (w_query, w_key, w_value, w_output), (b_query, b_key, b_value, b_output) = matrices(attention)
    query, key, value = x @ w_query.T + b_query, memory @ w_key.T + b_key, memory @ w_value.T + b_value
    total = torch.zeros_like(x) + b_output
    for head in range(HEADS):
        own = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        kv_head = head // (HEADS // attention.num_kv_heads)
        shared = slice(kv_head * HEAD_DIM, (kv_head + 1) * HEAD_DIM)
        scores = query[..., own] @ key[..., shared].mT / HEAD_DIM**0.5
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        weights = torch.nan_to_num(scores.softmax(-1))
        total = total + weights @ value[..., shared] @ w_output[:, own].T
    return total


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("memory_dim", [None, MEMORY_DIM])
@pytest.mark.parametrize("kv_heads", [None, 3, 2, 1])
def test_equals_the_sum_over_heads(kv_heads, memory_dim, bias):
    attention = layer(kv_heads, memory_dim, bias)
    x, memory = numbers(BATCH, LENGTH, WIDTH), numbers(BATCH, MEMORY_LEN, memory_dim or WIDTH, seed=8)
    lens = torch.tensor([3, 0])
    keep = (torch.arange(MEMORY_LEN) < lens[:, None])[:, None]
    torch.testing.assert_close(attention(x, memory), definition(attention, x, memory), rtol=1e-12, atol=1e-12)
    masked = attention(x, memory, mask=Padding(lens))
    torch.testing.assert_close(masked, definition(attention, x, memory, keep), rtol=1e-12, atol=1e-12)
    if memory_dim is None:
        torch.testing.assert_close(attention(x), definition(attention, x, x), rtol=1e-12, atol=1e-12)
        causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        torch.testing.assert_close(
            attention(x, mask=Causal()), definition(attention, x, x, causal), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_one_packed_product_is_three(kv_heads):
    attention = layer(kv_heads)
    x = numbers(BATCH, LENGTH, WIDTH)
    weights, biases = matrices(attention)
    packed = attention.projection(x).split([len(part) for part in weights[:3]], dim=-1)
    for part, weight, bias in zip(packed, weights, biases, strict=False):
        torch.testing.assert_close(part, x @ weight.T + bias, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_the_definition():
    attention = layer(3)
    x, memory = numbers(BATCH, LENGTH, WIDTH).requires_grad_(), numbers(BATCH, MEMORY_LEN, WIDTH).requires_grad_()
    inputs = [x, memory, *attention.parameters()]
    lens = torch.tensor([3, 0])
    keep = (torch.arange(MEMORY_LEN) < lens[:, None])[:, None]
    weight = numbers(BATCH, LENGTH, WIDTH, seed=9)
    ours = torch.autograd.grad((attention(x, memory, mask=Padding(lens)) * weight).sum(), inputs)
    scores = definition(attention, x, memory.masked_fill(~keep.mT, 0.0)[:1], keep[:1])[:1]
    # the second sentence has nothing to see: only the output bias is left of it
    empty = attention.output.bias.expand(1, LENGTH, WIDTH)
    theirs = torch.autograd.grad((torch.cat([scores, empty]) * weight).sum(), inputs)
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kv_heads", [3, 1])
def test_fewer_key_heads_are_full_heads_with_repeated_weights(kv_heads):
    few, full = layer(kv_heads), layer()
    (w_query, w_key, w_value, w_output), (b_query, b_key, b_value, b_output) = matrices(few)

    def repeated(tensor):
        return tensor.unflatten(0, (kv_heads, HEAD_DIM)).repeat_interleave(HEADS // kv_heads, 0).flatten(0, 1)

    with torch.no_grad():
        full.projection.weight.copy_(torch.cat([w_query, repeated(w_key), repeated(w_value)]))
        full.projection.bias.copy_(torch.cat([b_query, repeated(b_key), repeated(b_value)]))
        full.output.weight.copy_(w_output)
        full.output.bias.copy_(b_output)
    x = numbers(BATCH, LENGTH, WIDTH)
    torch.testing.assert_close(few(x, mask=Causal()), full(x, mask=Causal()), rtol=1e-12, atol=1e-12)


def test_permuting_heads_changes_nothing():
    attention, permuted = layer(), layer()
    order = torch.tensor([4, 2, 0, 5, 1, 3])

    def shuffled(tensor):
        return tensor.unflatten(0, (HEADS, HEAD_DIM))[order].flatten(0, 1)

    with torch.no_grad():
        for name in ("weight", "bias"):
            packed = getattr(attention.projection, name)
            getattr(permuted.projection, name).copy_(torch.cat([shuffled(part) for part in packed.chunk(3)]))
        permuted.output.weight.copy_(shuffled(attention.output.weight.T).T)
    x = numbers(BATCH, LENGTH, WIDTH)
    torch.testing.assert_close(attention(x), permuted(x), rtol=1e-12, atol=1e-12)


def test_without_positions_permuting_tokens_permutes_outputs():
    attention, x = layer(), numbers(BATCH, LENGTH, WIDTH)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(attention(x[:, order]), attention(x)[:, order], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("d_model", "heads", "count"), [(100, 5, 40_000), (100, 1, 40_000), (512, 8, 1_048_576)])
def test_parameter_count_does_not_depend_on_the_heads(d_model, heads, count):
    attention = MultiHeadAttention(d_model, heads, Scored(), bias=False)
    assert sum(parameter.numel() for parameter in attention.parameters()) == count == 4 * d_model**2


class Weights(Mechanism):
    """Keeps the queries and the weights it was asked for."""

    facts = Scored.facts

    def __init__(self):
        super().__init__()
        self.scored = Scored()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def compute(self, call):
        self.seen.append((call.query, self.scored.weights(call)))
        return self.scored(call)


def test_heads_are_consecutive_columns():
    attention = MultiHeadAttention(6, 2, Weights(), bias=False)
    with torch.no_grad():
        attention.projection.weight[:6].copy_(torch.eye(6))
    attention(torch.arange(24.0).view(1, 4, 6))
    query, _ = attention.mechanism.seen[0]
    # worked example of the course: 4 x 6 numbers, two heads
    assert query[0, 0].tolist() == [[0, 1, 2], [6, 7, 8], [12, 13, 14], [18, 19, 20]]
    assert query[0, 1, 1].tolist() == [9, 10, 11]


def test_course_book_example():
    # d2l 10.5: hidden 100, 5 heads, valid lengths 3 and 2, X all ones with 4 queries, Y all ones with 6 keys
    attention = MultiHeadAttention(100, 5, Weights(), bias=False)
    lens = Padding(torch.tensor([3, 2]))
    x, y = torch.ones(2, 4, 100), torch.ones(2, 6, 100)
    assert attention(x, mask=lens).shape == (2, 4, 100)
    assert attention(x, y, mask=lens).shape == (2, 4, 100)
    for keys, (_, weights) in zip((4, 6), attention.mechanism.seen, strict=True):
        expected = torch.zeros(2, 5, 4, keys)
        expected[0, :, :, :3], expected[1, :, :, :2] = 1 / 3, 1 / 2
        torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((64, 6, None), r"num_heads \(6\) must divide d_model \(64\); nearest that do: 2, 4, 8"),
        ((100, 0, None), r"num_heads \(0\) must divide d_model \(100\); nearest that do: 1, 2, 4"),
        ((64, 8, 3), r"num_kv_heads \(3\) must divide num_heads \(8\); these do: 1, 2, 4, 8"),
        ((64, 8, 16), r"num_kv_heads \(16\) must divide num_heads \(8\); these do: 1, 2, 4, 8"),
        ((64, 8, -2), r"num_kv_heads \(-2\) must divide num_heads \(8\); these do: 1, 2, 4, 8"),
    ],
)
def test_sizes_that_do_not_divide_name_those_that_do(arguments, message):
    d_model, heads, kv_heads = arguments
    with pytest.raises(ConfigError, match=message):
        MultiHeadAttention(d_model, heads, Scored(), num_kv_heads=kv_heads)


@pytest.mark.parametrize("name", ["head_dim", "value_dim"])
@pytest.mark.parametrize("width", [0, -2])
def test_widths_below_one_are_refused(name, width):
    with pytest.raises(ConfigError, match=rf"{name} \({width}\) must be a whole number of 1 or more, or None"):
        MultiHeadAttention(12, 3, **{name: width})


def test_positions_that_add_to_values_need_their_width():
    attention = MultiHeadAttention(16, 2, value_dim=3, position=positions.build("shaw", 16, 8, 2, 64))
    with pytest.raises(ShapeError, match="relative positions add vectors of width 8 to values of width 3"):
        attention(torch.ones(1, 5, 16))


def test_head_dim_frees_the_width():
    attention = MultiHeadAttention(10, 3, Scored(), head_dim=7)
    assert attention(torch.ones(2, 5, 10)).shape == (2, 5, 10)
    assert attention.projection.weight.shape == (63, 10)
    assert "d_model=10, heads=3, kv_heads=3, head_dim=7" in repr(attention)


def test_cross_attention_layer_needs_a_memory():
    with pytest.raises(ShapeError, match=r"built for cross-attention \(memory_dim\): pass memory"):
        layer(memory_dim=MEMORY_DIM)(numbers(BATCH, LENGTH, WIDTH))


@pytest.mark.parametrize("position", [None, Rotary])
@pytest.mark.parametrize("kv_heads", [None, 2])
@pytest.mark.parametrize("chunks", [[1] * 23, [2, 3, 1, 17], [19, 4], [23]])
def test_cached_is_uncached(position, kv_heads, chunks):
    head_dim = 10
    torch.manual_seed(5)
    where = None if position is None else position(head_dim)
    attention = MultiHeadAttention(6 * head_dim, 6, Scored(), num_kv_heads=kv_heads, position=where).double()
    x = numbers(BATCH, 23, 6 * head_dim)
    memory, outputs, start = KeyValues(), [], 0
    for size in chunks:
        step = AttentionStep(memory, start)
        outputs.append(attention(x[:, start : start + size], mask=Causal(), cache=step))
        start += size
    torch.testing.assert_close(torch.cat(outputs, 1), attention(x, mask=Causal()), rtol=1e-12, atol=1e-12)
    assert memory.used == 23


def test_cross_attention_projects_its_memory_once():
    attention = layer(3, MEMORY_DIM)
    x, memory = numbers(BATCH, LENGTH, WIDTH), numbers(BATCH, MEMORY_LEN, MEMORY_DIM)
    memory[1, 4:] = float("nan")
    mask = Padding(torch.tensor([7, 4]))
    whole = attention(x, memory, mask=mask)
    assert whole.isfinite().all()
    step = AttentionStep(KeyValues(), 0)
    torch.testing.assert_close(attention(x, memory, mask=mask, cache=step), whole)
    assert step.memory.fixed
    for row in range(LENGTH):
        torch.testing.assert_close(attention(x[:, row : row + 1], mask=mask, cache=step), whole[:, row : row + 1])
    filled = KeyValues()
    filled.fill(*attention.project_memory(memory))
    torch.testing.assert_close(attention(x, mask=mask, cache=AttentionStep(filled, 0)), whole)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("memory_dim", [None, MEMORY_DIM])
def test_what_stands_under_the_mask_reaches_no_output_and_no_input(bad, memory_dim):
    attention = layer(2, memory_dim)
    x = numbers(BATCH, LENGTH, WIDTH).requires_grad_()
    memory = numbers(BATCH, MEMORY_LEN, memory_dim or WIDTH)
    mask = Padding(torch.tensor([4, 0]))
    dirty = memory.clone()
    dirty[0, 4:], dirty[1] = bad, bad
    results = []
    for source in (memory, dirty):
        output = attention(x, source, mask=mask)
        results.append([output.detach(), *torch.autograd.grad(output.square().sum(), x)])
    for clean, spoilt in zip(*results, strict=True):
        assert torch.equal(clean, spoilt)


def test_tokens_that_nobody_sees_are_still_queries():
    """A read-out token that no other sees, and a NaN elsewhere in the batch: its own result does not change."""
    attention, x = layer(), numbers(BATCH, LENGTH, WIDTH)
    allowed = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    allowed[:, 0] = False
    before = attention(x, mask=Table(allowed))
    torch.testing.assert_close(before, definition(attention, x, x, allowed))
    x[1, 3] = float("nan")
    after = attention(x, mask=Table(allowed))
    assert torch.equal(after[0], before[0])
    assert before[0, 0].abs().sum() > 0


class Upper(Mask):
    """A predicate that differs by head: the first half of them look back, the others ahead."""

    def __call__(self, batch, head, query, key):
        return torch.where(head < HEADS // 2, key <= query, key >= query)


def test_a_predicate_may_differ_by_head():
    attention, x = layer(), numbers(BATCH, LENGTH, WIDTH)
    table = Upper().dense(BATCH, HEADS, LENGTH, LENGTH)
    assert table.shape == (1, HEADS, LENGTH, LENGTH)
    torch.testing.assert_close(attention(x, mask=Upper()), attention(x, mask=Table(table)))


class Doubled(torch.nn.Module):
    """What an adapter does: a linear layer in the place of a linear layer."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, x):
        return 2 * self.linear(x)


@pytest.mark.parametrize("memory_dim", [None, MEMORY_DIM])
def test_modules_in_the_place_of_projections_act_on_every_path(memory_dim):
    """Self-attention, cross-attention, cached steps, a projected memory: all call the module, none reads its weight."""
    plain, adapted, by_hand = layer(2, memory_dim), layer(2, memory_dim), layer(2, memory_dim)
    names = ["projection", "output"] + (["memory_projection"] if memory_dim else [])
    for name in names:
        setattr(adapted, name, Doubled(getattr(plain, name)))
        for parameter in getattr(by_hand, name).parameters():
            parameter.data.mul_(2)
    x, memory = numbers(BATCH, LENGTH, WIDTH), numbers(BATCH, MEMORY_LEN, memory_dim or WIDTH)

    def results(attention):
        if memory_dim is None:
            yield attention(x, mask=Causal())
            kept = KeyValues()
            for t in range(LENGTH):
                yield attention(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(kept, t))
            yield attention(x, cache=AttentionStep(Segments(3), 0))
        yield attention(x, memory)
        filled = KeyValues()
        filled.fill(*attention.project_memory(memory))
        yield attention(x, cache=AttentionStep(filled, 0))

    for one, two in zip(results(adapted), results(by_hand), strict=True):
        torch.testing.assert_close(one, two)


def test_values_of_another_width():
    attention = MultiHeadAttention(12, 3, value_dim=5, num_kv_heads=1, head_dim=7).double()
    x = numbers(BATCH, LENGTH, 12)
    assert attention.projection.weight.shape == (3 * 7 + 7 + 5, 12)
    assert attention.output.weight.shape == (12, 15)
    kept = KeyValues()
    steps = [attention(x[:, t : t + 1], mask=Causal(), cache=AttentionStep(kept, t)) for t in range(LENGTH)]
    torch.testing.assert_close(torch.cat(steps, 1), attention(x, mask=Causal()))
    with pytest.raises(ConfigError, match=r"shared='kv' makes values as wide as keys .4.: leave value_dim out"):
        MultiHeadAttention(12, 3, value_dim=5, shared="kv")


def test_norms_of_queries_and_keys_come_before_the_turn():
    torch.manual_seed(2)
    rotary = Rotary(10)
    attention = MultiHeadAttention(30, 3, position=rotary, norm=torch.nn.RMSNorm).double()
    x = numbers(BATCH, LENGTH, 30)
    query, key, value = (part.unflatten(-1, (3, 10)).transpose(1, 2) for part in attention.projection(x).chunk(3, -1))
    rms = lambda t: t / (t.square().mean(-1, keepdim=True) + torch.finfo(t.dtype).eps).sqrt()  # noqa: E731
    heads = attend(rotary.rotate(rms(query), 0), rotary.rotate(rms(key), 0), value)
    torch.testing.assert_close(attention(x), attention.output(heads.transpose(1, 2).flatten(2)))


@pytest.mark.usefixtures("untyped")
def test_widths_and_mechanisms_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match="x is 7 wide, but the layer was built for d_model = 12"):
        MultiHeadAttention(12, 3)(torch.ones(2, 5, 7))
    with pytest.raises(
        ShapeError, match="the memory is 7 wide, but the layer was built for 12; build the layer with memory"
    ):
        MultiHeadAttention(12, 3)(torch.ones(2, 5, 12), torch.ones(2, 5, 7))
    with pytest.raises(ShapeError, match="the memory is 12 wide, but the layer was built for 7"):
        MultiHeadAttention(12, 3, memory_dim=7)(torch.ones(2, 5, 12), torch.ones(2, 5, 12))
    with pytest.raises(
        ConfigError, match="mechanism must be a Mechanism object or a name such as 'scored', got the class"
    ):
        MultiHeadAttention(12, 3, Scored)
    with pytest.raises(ConfigError, match="unknown mechanism 'linaer'; did you mean 'linear'"):
        MultiHeadAttention(12, 3, "linaer")
    assert isinstance(MultiHeadAttention(64, 4).mechanism, Scored)
    assert isinstance(MultiHeadAttention(64, 4, "scored").mechanism, Scored)


def test_a_nan_that_may_be_seen_stays_in_its_sequence():
    attention, x = layer(), numbers(BATCH, LENGTH, WIDTH)
    x[0, 3] = float("nan")
    output = attention(x, mask=Causal())
    assert output[1].isfinite().all()
    assert output[0, 3:].isnan().all()


def test_mask_with_heads_and_batch():
    attention, x = layer(), numbers(BATCH, LENGTH, WIDTH)
    allowed = torch.rand(BATCH, HEADS, LENGTH, LENGTH, generator=seeded(2)) < 0.6
    (w_query, w_key, w_value, w_output), (b_query, b_key, b_value, b_output) = matrices(attention)
    expected = torch.zeros_like(x) + b_output
    for head in range(HEADS):
        own = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        query, key, value = (
            (x @ w.T + b)[..., own] for w, b in ((w_query, b_query), (w_key, b_key), (w_value, b_value))
        )
        scores = (query @ key.mT / HEAD_DIM**0.5).masked_fill(~allowed[:, head], float("-inf"))
        expected += torch.nan_to_num(scores.softmax(-1)) @ value @ w_output[:, own].T
    torch.testing.assert_close(attention(x, mask=Table(allowed)), expected, rtol=1e-12, atol=1e-12)


def test_attention_dropout_acts_in_training_alone():
    torch.manual_seed(2)
    attention = MultiHeadAttention(WIDTH, HEADS, Scored(dropout=0.4))
    x = torch.randn(BATCH, LENGTH, WIDTH)
    attention.eval()
    torch.testing.assert_close(attention(x), attention(x), rtol=0, atol=0)
    quiet = attention(x)
    attention.train()
    assert not torch.equal(attention(x), attention(x))
    with torch.no_grad():
        draws = torch.stack([attention(x) for _ in range(200)])
    # four standard deviations of the mean, element by element
    assert ((draws.mean(0) - quiet).abs() < 4.5 * draws.std(0) / 200**0.5 + 1e-4).all()
