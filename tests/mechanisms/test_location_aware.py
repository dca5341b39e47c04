"""Location-aware attention: the loops of its paper, step by step and all at once, under any mask."""

import math

import pytest
import torch

from headwise.attention import mechanisms
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.mechanisms.location_aware import LocationAware, Smoothing
from headwise.attention.normalizers import Normalizer, sigmoid, softmax
from headwise.attention.relative import Relative
from headwise.errors import ConfigError, ShapeError, Unsupported

MASKS = [
    None,
    Causal(),
    Padding(torch.tensor([4, 7])),
    Causal() & Padding(torch.tensor([0, 6])),
    Window(1, 2),
    Table(torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(5)) < 0.4),
    ~Table(torch.eye(7, dtype=torch.bool)),
]


def built(normalizer: Normalizer = softmax, sharpening: float = 1.0, dropout: float = 0.0) -> LocationAware:
    options = {"channels": 2, "width": 3, "sharpening": sharpening, "normalizer": normalizer, "dropout": dropout}
    mechanism = LocationAware(4, 6, 11, **options).double()
    # large enough for the place to matter
    torch.nn.init.normal_(mechanism.location.weight, std=3.0)
    return mechanism


def drawn(kv_heads: int = 3):
    shapes = ((3, 5, 4), (kv_heads, 7, 6), (kv_heads, 7, 2))
    return tuple(torch.randn(2, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes)


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


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_it_is_the_loops(mask, kv_heads):
    mechanism, (query, key, value) = built(sharpening=1.7), drawn(kv_heads)
    allowed = torch.ones(2, 3, 5, 7, dtype=torch.bool)
    if mask is not None:
        allowed &= mask.dense(2, 3, 5, 7)
    weights = looped(mechanism, query, key, allowed)
    expected = weights @ value.repeat_interleave(3 // kv_heads, 1)
    actual = mechanism(query, key, value, mask=mask)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mechanism.effective_weights(query, key, mask=mask), weights, rtol=0, atol=1e-12)
    learned, gradient = [query, key, value, *mechanism.parameters()], torch.randn_like(actual)
    for one, two in zip(
        torch.autograd.grad(actual, learned, gradient), torch.autograd.grad(expected, learned, gradient), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-11)


def test_the_place_matters():
    """Keys that are all alike are told apart by where the query before looked."""
    query, key = torch.zeros(1, 1, 3, 4).double(), torch.zeros(1, 1, 7, 6).double()
    first = torch.eye(7, dtype=torch.float64)[:1].bool()
    mask = Table(torch.cat((first, torch.ones(2, 7, dtype=torch.bool))))
    weights = built().effective_weights(query, key, mask=mask)[0, 0]
    torch.testing.assert_close(weights[0], torch.eye(7, dtype=torch.float64)[0])
    # a filter of three taps reaches one key from the first; keys further off are alike
    assert (weights[1, :2] - weights[1, 2]).abs().min() > 1e-3
    torch.testing.assert_close(weights[1, 2:], weights[1, 2:3].expand(5))


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_step_by_step_is_all_at_once(mask):
    mechanism, (query, key, value) = built(), drawn()
    whole = mechanism(query, key, value, mask=mask)
    alignment, pieces = None, []
    for start, end in ((0, 1), (1, 1), (1, 4), (4, 5)):
        piece, alignment = mechanism.resume(query[:, :, start:end], key, value, alignment, mask=mask, query_start=start)
        pieces.append(piece)
    torch.testing.assert_close(torch.cat(pieces, 2), whole, rtol=0, atol=1e-12)
    assert torch.equal(alignment, mechanism.effective_weights(query, key, mask=mask)[:, :, -1])


def test_keys_may_be_added_between_steps():
    """Causal self-attention with a cache: an alignment over fewer keys counts as zero for the new ones."""
    mechanism, x = LocationAware(4, 4, 11, width=3).double(), torch.randn(2, 3, 5, 4, dtype=torch.float64)
    whole, alignment = mechanism(x, x, x, mask=Causal()), None
    for i in range(5):
        seen = x[:, :, : i + 1]
        step, alignment = mechanism.resume(x[:, :, i : i + 1], seen, seen, alignment, mask=Causal(), query_start=i)
        torch.testing.assert_close(step, whole[:, :, i : i + 1], rtol=0, atol=1e-12)


def test_smoothing():
    """sigmoid(0) = 1/2, sigmoid(ln 3) = 3/4: shares 2/5 and 3/5; far below 0 the shares are those of softmax."""
    scores = torch.tensor([[[[0.0, math.log(3), 100.0]]]])
    keep = torch.tensor([[[[True, True, False]]]])
    torch.testing.assert_close(Smoothing()(scores, keep), torch.tensor([[[[0.4, 0.6, 0.0]]]]))
    assert not Smoothing()(scores, torch.zeros_like(keep)).any()
    torch.testing.assert_close(Smoothing()(scores - 500, None), (scores - 500).softmax(-1))
    assert Smoothing().name == "smoothing"


@pytest.mark.parametrize("normalizer", [Smoothing(), sigmoid], ids=lambda n: n.name)
def test_other_normalizers(normalizer):
    mechanism, (query, key, value) = built(normalizer), drawn()
    weights = mechanism.effective_weights(query, key, mask=Padding(torch.tensor([4, 7])))
    torch.testing.assert_close(
        mechanism(query, key, value, mask=Padding(torch.tensor([4, 7]))), weights @ value, rtol=0, atol=1e-12
    )
    assert not weights[0, :, :, 4:].any()
    total = weights.sum(-1)
    assert torch.allclose(total, torch.ones_like(total)) == isinstance(normalizer, Smoothing)
    # the first row has no place yet: its scores are those of the content
    tanh = torch.tanh(
        mechanism.score.query(query[:, :, :1]).unsqueeze(3)
        + mechanism.score.key(key).unsqueeze(2)
        + mechanism.combine.bias
    )
    scores = mechanism.score.value(tanh).squeeze(-1)
    keep = Padding(torch.tensor([4, 7])).dense(2, 3, 1, 7)
    torch.testing.assert_close(weights[:, :, :1], normalizer(scores, keep), rtol=0, atol=1e-12)


def test_dropout_acts_on_what_meets_values_only():
    mechanism, (query, key, _) = built(dropout=0.5), drawn()
    identity = torch.eye(7, dtype=torch.float64).expand(2, 3, 7, 7)
    weights = mechanism.effective_weights(query, key)
    dropped = mechanism(query, key, identity)
    kept = dropped != 0
    assert 0.3 < kept.double().mean() < 0.7
    # what is kept is doubled, in later rows too: the alignment handed on was whole
    torch.testing.assert_close(dropped[kept], 2 * weights[kept])
    torch.testing.assert_close(mechanism.eval()(query, key, identity), weights)


@pytest.mark.parametrize("mask", [Padding(torch.tensor([4, 7])), Causal() & Padding(torch.tensor([4, 7]))], ids=str)
def test_nan_in_padding_stays_there(mask):
    mechanism, (query, key, value) = built(), drawn()
    spoiled = [tensor.detach().clone() for tensor in (key, value)]
    for tensor in spoiled:
        tensor[0, :, 4:] = torch.nan
        tensor.requires_grad_()
    clean, dirty = mechanism(query, key, value, mask=mask), mechanism(query, *spoiled, mask=mask)
    assert torch.equal(clean, dirty)
    parameters = list(mechanism.parameters())
    for one, two in zip(
        torch.autograd.grad(clean.sum(), [query, key, value, *parameters]),
        torch.autograd.grad(dirty.sum(), [query, *spoiled, *parameters]),
        strict=True,
    ):
        assert torch.equal(one, two)


def test_rows_without_a_key_are_zero_with_zero_gradient():
    mechanism, (query, key, value) = built(), drawn()
    output = mechanism(query, key, value, mask=Padding(torch.tensor([0, 7])))
    assert not output[0].any()
    output.sum().backward()
    assert not any(tensor.grad[0].any() for tensor in (query, key, value))


@pytest.mark.parametrize("mask", [None, Causal()])
@pytest.mark.parametrize(("batch", "query_len", "key_len"), [(2, 0, 7), (2, 5, 0), (0, 5, 7), (2, 0, 0)])
def test_nothing_to_see(mask, batch, query_len, key_len):
    query = torch.randn(batch, 3, query_len, 4, requires_grad=True)
    key, value = torch.randn(batch, 3, key_len, 6), torch.randn(batch, 3, key_len, 2)
    output, alignment = built().float().resume(query, key, value, None, mask=mask)
    assert output.shape == (batch, 3, query_len, 2)
    assert not output.any()
    assert alignment.shape == (batch, 3, key_len)
    output.sum().backward()
    assert not query.grad.any()


def test_gradients():
    tensors, mechanism = [x[:, :1, :3].detach().requires_grad_() for x in drawn()], built()
    mask = Padding(torch.tensor([0, 3]))
    assert torch.autograd.gradcheck(lambda *tensors: mechanism(*tensors, mask=mask), tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *tensors: mechanism(*tensors, mask=mask), tensors, fast_mode=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_narrow_types(dtype, tolerance):
    mechanism, tensors = built(), drawn()
    narrow = [tensor.detach().to(dtype) for tensor in tensors]
    torch.nn.init.normal_(mechanism.location.weight, std=0.5)
    mechanism.to(dtype)
    actual, alignment = mechanism.resume(*narrow, None)
    assert actual.dtype == dtype
    assert alignment.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mechanism(*narrow), actual)
    expected = mechanism.double()(*(tensor.double() for tensor in narrow))
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance)


def test_what_it_refuses():
    mechanism, (query, key, value) = built(), drawn()
    with pytest.raises(
        Unsupported, match="location_aware cannot honour a bias; use a position that is added to the in"
    ):
        mechanism(query, key, value, bias=torch.zeros(1, 1, 5, 7))
    with pytest.raises(Unsupported, match="location_aware cannot honour relative positions; use"):
        mechanism.effective_weights(query, key, relative=Relative(low=0, scalar=torch.zeros(1, 1)))
    for call in (
        lambda: mechanism(query, key, value, query_start=3),
        lambda: mechanism.effective_weights(query, key, query_start=3),
    ):
        with pytest.raises(Unsupported, match=r"first query at position 3 and does not know where .* resume"):
            call()
    for width, advice in ((4, 5), (0, 1), (-3, 4)):
        with pytest.raises(ConfigError, match=rf"width \({width}\) must be odd, .*; try {advice}"):
            LocationAware(4, 6, 11, width=width)
    with pytest.raises(ConfigError, match=r"sharpening \(0.0\) must be above 0; 1 leaves the scores as they are"):
        LocationAware(4, 6, 11, sharpening=0.0)


def test_shapes_that_do_not_fit(untyped):
    mechanism, (query, key, value) = built(), drawn()
    with pytest.raises(ShapeError, match=r"Additive was built for \(query_dim, key_dim\) = \(4, 6\), got \(4, 4\)"):
        mechanism(query, key[..., :4], value)
    with pytest.raises(ShapeError, match=r"alignment \(2, 3, 8\) does not fit \(batch, heads, keys\) = \(2, 3, 7\)"):
        mechanism.resume(query, key, value, torch.zeros(2, 3, 8))


def test_what_it_says_of_itself():
    assert mechanisms.mechanism_type("location_aware") is LocationAware
    sized = LocationAware.sized(head_dim=5, num_heads=3, max_len=7, dropout=0.5)
    assert "sharpening=1.0, normalizer=softmax, dropout=0.5" in repr(sized)
    assert sized.location.weight.shape == (10, 1, 31)
    assert sorted(sized.state_dict()) == [
        "combine.bias",
        "combine.weight",
        "location.weight",
        "score.key.weight",
        "score.query.weight",
        "score.value.weight",
    ]
