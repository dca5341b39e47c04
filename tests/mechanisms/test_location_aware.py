"""Location-aware attention: the loops of its paper, step by step and all at once, under any mask."""

import math

import mechanism_checks as checks
import pytest
import torch
from devices import seeded
from mechanism_checks import run, shown

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.mechanisms.location_aware import LocationAware, Smoothing
from headwise.attention.normalizers import Sigmoid
from headwise.attention.relative import Relative
from headwise.errors import ConfigError, ShapeError, Unsupported

MASKS = {
    "none": None,
    "padded": Causal() & Padding(torch.tensor([0, 6])),
    "window": Window(1, 2),
    "table": Table(torch.rand(2, 3, 5, 7, generator=seeded(5)) < 0.4),
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def built(**options) -> LocationAware:
    mechanism = LocationAware(4, 4, 11, **{"channels": 2, "width": 3, **options}).double()
    # large enough for the place to matter
    torch.nn.init.normal_(mechanism.location.weight, std=3.0)
    return mechanism


def drawn(kv_heads: int = 3, key_len: int = 7):
    shapes = ((3, 5, 4), (kv_heads, key_len, 4), (kv_heads, key_len, 2))
    return [torch.randn(2, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def looped(mechanism: LocationAware, query, key, allowed):
    """Weights with loops over sentences, heads, queries, keys and filter taps; softmax of sharpened energies."""
    w, u = mechanism.score.value.weight[0], mechanism.combine
    filters = mechanism.location.weight[:, 0]
    rows = []
    for b in range(2):
        for h in range(3):
            kept = key[b, h * key.shape[1] // 3]
            before = [torch.zeros((), dtype=torch.float64)] * 7
            for i in range(5):
                energies = []
                for j in range(7):
                    # the filter's middle tap lies on key j
                    taps = [(t, j + t - 1) for t in range(3) if 0 <= j + t - 1 < 7]
                    place = sum((filters[:, t] * before[at] for t, at in taps), torch.zeros(2, dtype=torch.float64))
                    inside = mechanism.score.query.weight @ query[b, h, i] + mechanism.score.key.weight @ kept[j]
                    energies.append(w @ torch.tanh(inside + u.weight @ place + u.bias) * mechanism.sharpening)
                powers = [e.exp() if allowed[b, h, i, j] else torch.zeros_like(e) for j, e in enumerate(energies)]
                total = sum(powers)
                before = [p / total if total > 0 else p for p in powers]
                rows.append(torch.stack(before))
    return torch.stack(rows).view(2, 3, 5, 7)


@pytest.mark.parametrize(("mask", "kv_heads"), [("none", 1), ("padded", 3), ("window", 3), ("table", 1)])
def test_it_is_the_loops(mask, kv_heads):
    mechanism, inputs, mask = built(sharpening=1.7), drawn(kv_heads), MASKS[mask]
    allowed = torch.ones(2, 3, 5, 7, dtype=torch.bool)
    if mask is not None:
        allowed &= mask.dense(2, 3, 5, 7)
    weights = looped(mechanism, *inputs[:2], allowed)
    checks.near(shown(mechanism, *inputs[:2], mask=mask), weights, 1e-12)
    expected = weights @ checks.spread(inputs[2], 3)
    learned = [*inputs, *mechanism.parameters()]
    checks.same_with_gradients(run(mechanism, *inputs, mask=mask), expected, learned, 1e-11)


def test_the_place_matters():
    """Keys that are all alike are told apart by where the query before looked."""
    query, key = torch.zeros(1, 1, 3, 4).double(), torch.zeros(1, 1, 7, 4).double()
    first = torch.eye(7, dtype=torch.float64)[:1].bool()
    mask = Table(torch.cat((first, torch.ones(2, 7, dtype=torch.bool))))
    weights = shown(built(), query, key, mask=mask)[0, 0]
    torch.testing.assert_close(weights[0], torch.eye(7, dtype=torch.float64)[0])
    # a filter of three taps reaches one key from the first; keys further off are alike
    assert (weights[1, :2] - weights[1, 2]).abs().min() > 1e-3
    torch.testing.assert_close(weights[1, 2:], weights[1, 2:3].expand(5))


@every_mask
def test_step_by_step_is_all_at_once(mask):
    mechanism, (query, key, value) = built(), drawn()
    whole = run(mechanism, query, key, value, mask=mask)
    alignment, pieces = None, []
    for start, end in ((0, 1), (1, 1), (1, 4), (4, 5)):
        call = Call(query[:, :, start:end], key, value, mask=mask, query_start=start)
        piece, alignment = mechanism.resume(call, alignment)
        pieces.append(piece)
    checks.near(torch.cat(pieces, 2), whole, 1e-12)
    checks.near(alignment, shown(mechanism, query, key, mask=mask)[:, :, -1], 1e-12)


def test_keys_may_be_added_between_steps():
    """Causal self-attention with a cache: an alignment over fewer keys counts as zero for the new ones."""
    mechanism, x = built(), torch.randn(2, 3, 5, 4, dtype=torch.float64)
    whole, alignment = run(mechanism, x, x, x, mask=Causal()), None
    for i in range(5):
        seen = x[:, :, : i + 1]
        step, alignment = mechanism.resume(
            Call(x[:, :, i : i + 1], seen, seen, mask=Causal(), query_start=i), alignment
        )
        checks.near(step, whole[:, :, i : i + 1], 1e-12)


def test_smoothing():
    """sigmoid(0) = 1/2, sigmoid(ln 3) = 3/4: shares 2/5 and 3/5; far below 0 the shares are those of softmax."""
    scores = torch.tensor([[[[0.0, math.log(3), 100.0]]]])
    keep = torch.tensor([[[[True, True, False]]]])
    torch.testing.assert_close(Smoothing()(scores, keep), torch.tensor([[[[0.4, 0.6, 0.0]]]]))
    assert not Smoothing()(scores, torch.zeros_like(keep)).any()
    torch.testing.assert_close(Smoothing()(scores - 500, None), (scores - 500).softmax(-1))
    assert Smoothing().name == "smoothing"


@pytest.mark.parametrize("normalizer", [Smoothing(), Sigmoid()], ids=lambda n: n.name)
def test_other_normalizers(normalizer):
    mechanism, (query, key, value) = built(normalizer=normalizer), drawn()
    mask = Padding(torch.tensor([4, 7]))
    weights = shown(mechanism, query, key, mask=mask)
    checks.near(run(mechanism, query, key, value, mask=mask), weights @ value, 1e-12)
    assert not weights[0, :, :, 4:].any()
    total = weights.sum(-1)
    assert torch.allclose(total, torch.ones_like(total)) == isinstance(normalizer, Smoothing)
    # the first row has no place yet: its scores are those of the content
    asked, told = mechanism.score.query(query[:, :, :1]).unsqueeze(3), mechanism.score.key(key).unsqueeze(2)
    scores = mechanism.score.value(torch.tanh(asked + told + mechanism.combine.bias)).squeeze(-1)
    checks.near(weights[:, :, :1], normalizer(scores, mask.dense(2, 3, 1, 7)), 1e-12)


def test_dropout_acts_on_what_meets_values_only():
    mechanism, (query, key, _) = built(dropout=0.5), drawn()
    identity = torch.eye(7, dtype=torch.float64).expand(2, 3, 7, 7)
    weights, dropped = shown(mechanism, query, key), run(mechanism, query, key, identity)
    kept = dropped != 0
    assert 0.3 < kept.double().mean() < 0.7
    # what is kept is doubled, in later rows too: the alignment handed on was whole
    torch.testing.assert_close(dropped[kept], 2 * weights[kept])
    torch.testing.assert_close(run(mechanism.eval(), query, key, identity), weights)


@pytest.mark.parametrize("mask", [None, Causal()], ids=["all", "causal"])
def test_it_keeps_the_contract(mask):
    mechanism = LocationAware(6, 6, 5, width=3).double()
    # a filter reaches over the end of the sentence, where weights are zero as they are behind the last token
    checks.padding_is_absence(mechanism, 7, [7, 4, 1], mask=mask)
    checks.no_key_gives_zero(mechanism, 5, mask)
    checks.empty_sequences(mechanism, mask)
    checks.weights_are_the_function(mechanism, checks.tensors(7, 7), mask=mask)
    checks.half_precision(LocationAware(6, 6, 5, width=3), 5, 7, mask=mask)


def test_gradients():
    tensors, mechanism = [x[:, :1, :3].detach().requires_grad_() for x in drawn()], built()
    function = lambda *x: run(mechanism, *x, mask=Padding(torch.tensor([0, 3])))  # noqa: E731
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


def test_layers_are_called_as_modules():
    mechanism, inputs = built(), drawn()
    for layer in (mechanism.combine, mechanism.location, mechanism.score.query):
        before = run(mechanism, *inputs)
        layer.register_forward_hook(lambda module, x, output: 2 * output + 1)
        assert not torch.allclose(run(mechanism, *inputs), before)


def test_what_it_refuses():
    mechanism, inputs = built(), drawn()
    with pytest.raises(Unsupported, match="LocationAware has no scores that a bias could be added to"):
        run(mechanism, *inputs, bias=torch.zeros(1, 1, 5, 7))
    with pytest.raises(Unsupported, match="LocationAware has no place for relative positions"):
        shown(mechanism, *inputs[:2], relative=Relative(low=0, scalar=torch.zeros(1, 1)))
    for ask in (mechanism, mechanism.weights):
        with pytest.raises(Unsupported, match=r"first query at position 3 and does not know where .* resume"):
            ask(Call(*inputs, query_start=3))
    for width, advice in ((4, 5), (0, 1), (-3, 4)):
        with pytest.raises(ConfigError, match=rf"width \({width}\) must be odd, .*; try {advice}"):
            LocationAware(4, 6, 11, width=width)
    with pytest.raises(ConfigError, match=r"sharpening \(0.0\) must be above 0; 1 leaves the scores as they are"):
        LocationAware(4, 6, 11, sharpening=0.0)


def test_shapes_that_do_not_fit(untyped):
    mechanism, (query, key, value) = built(), drawn()
    with pytest.raises(ShapeError, match=r"Additive was built for \(query_dim, key_dim\) \(4, 4\), got \(3, 3\)"):
        run(mechanism, query[..., :3], key[..., :3], value)
    with pytest.raises(ShapeError, match=r"alignment \(2, 3, 8\) does not fit \(batch, heads, keys\) = \(2, 3, 7\)"):
        mechanism.resume(Call(query, key, value), torch.zeros(2, 3, 8))


def test_what_it_says_of_itself():
    sized = LocationAware.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5)
    assert "sharpening=1.0, dropout=0.5" in repr(sized)
    assert sized.location.weight.shape == (10, 1, 31)
    assert sorted(sized.state_dict()) == [
        "combine.bias",
        "combine.weight",
        "location.weight",
        "score.key.weight",
        "score.query.weight",
        "score.value.weight",
    ]
