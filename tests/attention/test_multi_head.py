"""Heads, projections and memory around attention: the layer against its formula and against its own symmetries."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headwise.attention import attend, mechanisms
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Additive, Bilinear, Dot
from headwise.caches import AttentionStep, KeyValues
from headwise.layers.attention import MultiHeadAttention

NAN, INF = float("nan"), float("inf")


def layer(d_model=12, heads=3, *, kernel="auto", **options) -> MultiHeadAttention:
    return MultiHeadAttention(d_model, heads, Scored(kernel=kernel), **options).double()


def matrices(module: MultiHeadAttention) -> tuple[torch.Tensor, ...]:
    """W_q, W_k, W_v as (heads, d_model, head_dim) and W_o as (heads, head_dim, d_model), without biases."""
    query, key, value, output = module.matrices()
    heads = [part.unflatten(0, (-1, module.head_dim)).mT for part in (query, key, value)]
    return *heads, output.T.unflatten(0, (module.num_heads, module.head_dim))


def projected(module: MultiHeadAttention, x: torch.Tensor, source: torch.Tensor) -> list[torch.Tensor]:
    """Queries of x, keys and values of the source, head by head, for a layer without biases."""
    w_query, w_key, w_value, _ = matrices(module)
    return [tensor.unsqueeze(1) @ weight for tensor, weight in ((x, w_query), (source, w_key), (source, w_value))]


@pytest.mark.parametrize("heads", [1, 2, 3, 6])
@pytest.mark.parametrize("kernel", ["plain", "fused", "strips"])
def test_the_layer_is_the_sum_over_heads_of_attention_and_projection(kernel, heads):
    """Concat(head_1 ... head_h) W_o = sum of head_i W_o,i; slices of the packed matrices are those of each head."""
    module = layer(heads=heads, kernel=kernel, bias=False)
    w_query, w_key, w_value, w_output = matrices(module)
    x, memory = torch.randn(2, 5, 12, dtype=torch.float64), torch.randn(2, 7, 12, dtype=torch.float64)
    for source, given in ((x, None), (memory, memory)):
        expected = torch.zeros_like(x)
        for head in range(heads):
            query, key, value = x @ w_query[head], source @ w_key[head], source @ w_value[head]
            weights = torch.softmax(query @ key.mT / module.head_dim**0.5, -1)
            expected += weights @ value @ w_output[head]
        torch.testing.assert_close(module(x, given), expected, rtol=0, atol=1e-12)


class Echo(Mechanism):
    """Keeps the queries it is given, and returns them."""

    def compute(self, call):
        self.seen = call.query
        return call.query


def test_heads_are_cut_from_the_columns_and_joined_again():
    """Rows 0 to 23 of six columns in two heads: head 0 begins with columns 0 to 2, head 1 with columns 3 to 5."""
    echo = Echo()
    module = MultiHeadAttention(6, 2, echo, bias=False)
    with torch.no_grad():
        module.projection.weight.copy_(torch.eye(6).repeat(3, 1))
        module.output.weight.copy_(torch.eye(6))
    x = torch.arange(24.0).reshape(1, 4, 6)
    joined = module(x)
    assert echo.seen[0, 0].tolist() == [[0, 1, 2], [6, 7, 8], [12, 13, 14], [18, 19, 20]]
    assert echo.seen[0, 0, 1].tolist() == [6, 7, 8]
    assert echo.seen[0, 1, 1].tolist() == [9, 10, 11]
    assert torch.equal(joined, x)


@pytest.mark.parametrize(("memory_len", "heads"), [(None, 5), (6, 5), (6, 20)])
def test_shapes_of_self_and_cross_attention(memory_len, heads):
    """Width 100, five heads, four queries: (2, 4, 100), with six keys of another sequence too."""
    module = MultiHeadAttention(100, heads, Scored(), bias=False)
    x = torch.ones(2, 4, 100)
    memory = None if memory_len is None else torch.ones(2, memory_len, 100)
    assert module(x, memory, mask=Padding(torch.tensor([3, 2]))).shape == (2, 4, 100)
    # all keys are equal: a third on each of three keys, a half on each of two
    query, key, _ = projected(module, x, x if memory is None else memory)
    weights = module.mechanism.weights(Call(query, key, key, mask=Padding(torch.tensor([3, 2]))))
    expected = torch.zeros(2, 1, 1, key.shape[2])
    expected[0, :, :, :3], expected[1, :, :, :2] = 1 / 3, 1 / 2
    torch.testing.assert_close(weights, expected.expand_as(weights))


def test_parameters_do_not_depend_on_the_number_of_heads():
    """Without biases 4 d^2: 40,000 at width 100, 1,048,576 at 512; one head without W_o learns 3 d d_k."""

    def count(*arguments):
        return sum(p.numel() for p in MultiHeadAttention(*arguments, Scored(), bias=False).parameters())

    assert [count(100, heads) for heads in (1, 2, 5, 10)] == [40_000] * 4
    assert count(512, 8) == count(512, 16) == 1_048_576
    single = MultiHeadAttention(64, 1, Scored(), head_dim=16, bias=False)
    assert sum(part.numel() for part in single.matrices()[:3]) == 3 * 64 * 16


def test_heads_of_a_part_of_the_width_cost_what_one_of_the_whole_costs():
    counts = []
    for heads in (1, 2, 8):
        module = MultiHeadAttention(64, heads, Scored(kernel="plain"), bias=False)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(torch.randn(2, 31, 64))
        counts.append(counter.get_total_flops())
    assert counts[0] > 0
    assert counts == pytest.approx([counts[0]] * 3, rel=0.01)


def test_heads_may_be_averaged():
    """With W_o an average of identities the layer gives the mean of heads of the full width instead of joining them."""
    module = layer(4, 3, head_dim=4, bias=False)
    with torch.no_grad():
        module.output.weight.copy_(torch.eye(4, dtype=torch.float64).repeat(1, 3) / 3)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    query, key, value = projected(module, x, x)
    torch.testing.assert_close(module(x), attend(query, key, value).mean(1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("score", [Dot(), Bilinear(4, 4), Additive(4, 4, 3)], ids=lambda s: type(s).__name__)
def test_what_a_head_computes_is_any_mechanism(score):
    module = MultiHeadAttention(12, 3, Scored(score), bias=False).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    query, key, value = projected(module, x, x)
    expected = module.output(attend(query, key, value, score=score.double()).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize("name", mechanisms.names())
def test_every_mechanism_runs_inside_the_layer(name):
    kind = mechanisms.mechanism_type(name)
    module = MultiHeadAttention(12, 3, kind.sized(head_dim=4, num_heads=3, max_len=7, dropout=0.0))
    mask = Padding(torch.tensor([3, 0])) if kind.facts.bidirectional else Causal() & Padding(torch.tensor([3, 0]))
    memory = (torch.randn(2, 7, 12),) if kind.facts.cross else ()
    output = module(torch.randn(2, 5, 12), *memory, mask=mask)
    assert output.shape == (2, 5, 12)
    assert output.isfinite().all()


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_grouped_heads_are_heads_with_repeated_keys_and_values(kv_heads):
    grouped = layer(heads=6, num_kv_heads=kv_heads)
    full = layer(heads=6)
    with torch.no_grad():
        query, key, value = (part.unflatten(0, (-1, 2)) for part in grouped.matrices()[:3])
        bias = grouped.projection.bias.split([12, 2 * kv_heads, 2 * kv_heads])
        group = 6 // kv_heads
        repeated = [query, key.repeat_interleave(group, 0), value.repeat_interleave(group, 0)]
        full.projection.weight.copy_(torch.cat([part.flatten(0, 1) for part in repeated]))
        biases = [bias[0], *(b.unflatten(0, (-1, 2)).repeat_interleave(group, 0).flatten() for b in bias[1:])]
        full.projection.bias.copy_(torch.cat(biases))
        full.output.load_state_dict(grouped.output.state_dict())
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(grouped(x, mask=Causal()), full(x, mask=Causal()), rtol=0, atol=1e-13)


def test_numbers_kept_for_each_token():
    """Width 512 with 8 heads: 1,024 for multi-head, 256 for two groups, 128 for one key head."""
    for kv_heads, kept in ((8, 1024), (2, 256), (1, 128)):
        module = MultiHeadAttention(512, 8, Scored(), num_kv_heads=kv_heads)
        memory = KeyValues()
        module(torch.randn(1, 3, 512), mask=Causal(), cache=AttentionStep(memory, 0))
        key, value = memory.read()
        assert (key.numel() + value.numel()) / 3 == kept


@pytest.mark.parametrize("kernel", ["plain", "fused", "strips"])
def test_heads_may_change_places_with_their_matrices(kernel):
    module, turned = layer(kernel=kernel), layer(kernel=kernel)
    order = [2, 0, 1]

    def rows(tensor):
        return tensor.unflatten(0, (9, 4))[[*order, *(3 + o for o in order), *(6 + o for o in order)]].flatten(0, 1)

    with torch.no_grad():
        turned.projection.weight.copy_(rows(module.projection.weight))
        turned.projection.bias.copy_(rows(module.projection.bias))
        turned.output.weight.copy_(module.output.weight.unflatten(1, (3, 4))[:, order].flatten(1))
        turned.output.bias.copy_(module.output.bias)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(turned(x, mask=Causal()), module(x, mask=Causal()), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kernel", ["plain", "fused", "strips"])
def test_no_output_has_a_derivative_for_a_later_input(kernel):
    module = layer(6, 2, kernel=kernel)
    x = torch.randn(1, 5, 6, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: module(x, mask=Causal()), x)[0, :, :, 0]
    reached = jacobian.abs().amax((1, 3)) > 0
    assert torch.equal(reached, torch.ones(5, 5, dtype=torch.bool).tril())


@pytest.mark.parametrize("kernel", ["plain", "fused", "strips"])
@pytest.mark.parametrize("junk", [1e30, NAN, INF, -INF])
@pytest.mark.parametrize("memory_dim", [None, 7], ids=["one width", "two widths"])
def test_what_stands_in_padded_memory_reaches_nothing(kernel, junk, memory_dim):
    """Output, and gradients of query, memory and every parameter, to the last bit; an empty memory too."""
    module = layer(kernel=kernel, memory_dim=memory_dim).float()
    x, memory = torch.randn(3, 5, 12), torch.randn(3, 7, memory_dim or 12)
    mask = Padding(torch.tensor([3, 7, 0]))
    hidden = torch.arange(7) >= torch.tensor([3, 7, 0])[:, None]
    results = []
    for content in (0.5, junk):
        module.zero_grad()
        filled = memory.masked_fill(hidden.unsqueeze(-1), content).requires_grad_()
        query = x.clone().requires_grad_()
        output = module(query, filled, mask=mask)
        output.square().sum().backward()
        assert not filled.grad[hidden].any()
        kept = filled.grad[~hidden]
        results.append([output, query.grad, kept, *(p.grad.clone() for p in module.parameters())])
    for one, two in zip(*results, strict=True):
        assert two.isfinite().all()
        # a parameter sums over padded tokens, whose part is zero: only the sign of a zero may differ
        assert torch.equal(one, two)


@pytest.mark.parametrize("kernel", ["plain", "fused", "strips"])
def test_what_stands_in_padding_of_a_sequence_does_not_reach_its_tokens(kernel):
    module = layer(kernel=kernel)
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    mask = Padding(torch.tensor([3, 7]))
    before = module(x, mask=mask)
    for junk in (1e30, NAN, INF):
        changed = x.clone()
        changed[0, 3:] = junk
        after = module(changed, mask=mask)
        assert torch.equal(before[0, :3], after[0, :3])
        assert torch.equal(before[1], after[1])


def test_a_sentence_alone_is_the_sentence_in_a_batch():
    module = layer().float()
    x = torch.randn(3, 7, 12)
    lens = torch.tensor([4, 7, 1])
    together = module(x, mask=Padding(lens))
    for row, length in enumerate(lens.tolist()):
        alone = module(x[row : row + 1, :length])
        torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-6)


def test_an_item_without_a_key_gives_the_bias_of_the_output_and_no_nan():
    module = layer().float()
    x = torch.randn(2, 5, 12)
    for mode in (module.train, module.eval):
        mode()
        module.zero_grad()
        output = module(x, mask=Padding(torch.tensor([0, 5])))
        assert torch.equal(output[0], module.output.bias.expand(5, 12))
        output.sum().backward()
        assert all(p.grad.isfinite().all() for p in module.parameters())
