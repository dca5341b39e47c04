"""The certificate finds what is wrong: for every invariant there is a fault that makes it fail, and is shown."""

from dataclasses import replace

import pytest
import torch
from wrong import WRONG, Correct

from headwise.attention import kernels
from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Structure, Window
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.errors import Unsupported
from headwise.positions.alibi import Alibi
from headwise.positions.rotary import Rotary
from headwise.positions.sinusoidal import Sinusoidal
from headwise.records import Hide, edit
from headwise.testing import Case, certify, invariants
from headwise.testing.numbers import apart, not_finite

# annotations are checked where others test what is tried here
pytestmark = pytest.mark.usefixtures("untyped")


def found(target, *ids):
    return {verdict.id: verdict for verdict in certify(target, only=ids, quick=True)}


def test_what_is_right_passes_and_little_is_left_out():
    verdicts = found(Correct)
    assert not [verdict for verdict in verdicts.values() if verdict.state == "fails"]
    assert {id: verdict.reason for id, verdict in verdicts.items() if verdict.state == "does not apply"} == {
        "kernels": "it has one way to compute",
        "resume": "it has no recurrent form",
    }


@pytest.mark.parametrize(("kind", "ids"), WRONG.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_wrong_fails(kind, ids):
    for id, verdict in found(kind, *ids).items():
        assert verdict.state == "fails", id
        assert verdict.reason
        # the example, evaluated, is the case again
        assert str(eval(verdict.example, {"Case": Case, "torch": torch})) == verdict.example


def test_every_invariant_can_fail():
    assert {one.id for one in invariants(Correct)} - {id for ids in WRONG.values() for id in ids} == {
        "kernels",
        "hidden",
    }


def test_what_a_mask_hides_is_missed_where_nothing_zeroes_it(monkeypatch):
    monkeypatch.setattr(Call, "zero_unseen", lambda self: self)
    assert found(Scored, "hidden")["hidden"].state == "fails"


def test_a_kernel_that_is_off_is_found(monkeypatch):
    module = kernels.KERNELS["fused"]
    right = module.compute
    monkeypatch.setattr(module, "compute", lambda call: right(call) * 1.001)
    verdict = found(Scored, "kernels")["kernels"]
    assert verdict.state == "fails"
    assert verdict.reason.startswith("output of kernel fused against plain differs by ")


def test_the_first_example_is_the_smallest():
    wrong = {kind.__name__: kind for kind in WRONG}
    # with one key head, or as many as queries, repeating and interleaving are the same
    verdict = found(wrong["RepeatNotInterleave"], "groups")["groups"]
    assert verdict.example.startswith("Case(batch=2, heads=4, kv_heads=2, query_len=3, key_len=5")
    (verdict,) = certify(wrong["NoScale"], only=["definition"])
    # one key alone has weight 1 whatever the scale
    assert verdict.example == "Case(query_len=2, key_len=3)"


def test_a_function_is_tried_as_far_as_it_goes():
    def attention(query, key, value):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    verdicts = found(attention)
    reasons = {id: verdict.reason for id, verdict in verdicts.items() if verdict.state == "does not apply"}
    assert not [verdict for verdict in verdicts.values() if verdict.state == "fails" and verdict.id != "axes"]
    assert reasons["empty"] == "it takes no mask"
    assert reasons["bias"] == "it takes no bias on scores"
    assert reasons["steps"] == "it cannot hide later keys, and says so"
    assert verdicts["definition"].state == verdicts["groups"].state == verdicts["layer"].state == "holds"


def test_a_function_that_takes_options_is_given_them():
    def attention(query, key, value, mask=None, bias=None, query_start=0):
        shape = (*query.shape[:3], key.shape[2])
        keep = torch.ones(shape, dtype=torch.bool) if mask is None else mask.dense(*shape, query_start=query_start)
        keep = keep if bias is None else keep & (bias > float("-inf"))
        scores = query @ key.mT / query.shape[-1] ** 0.5 + (0.0 if bias is None else bias)
        return scores.masked_fill(~keep, float("-inf")).softmax(-1).masked_fill(~keep, 0.0).nan_to_num() @ value

    verdicts = found(attention, "definition", "weights", "bias", "steps", "honest", "padding", "hidden")
    assert {verdict.state for verdict in verdicts.values()} == {"holds"}


def test_an_error_is_a_failure_with_its_words():
    class TooLong(Correct):
        def scores(self, query, key):
            if key.shape[2] > 4:
                raise ValueError("too long\nfor me")
            return super().scores(query, key)

    verdict = found(TooLong, "groups")["groups"]
    assert (verdict.state, verdict.reason) == ("fails", "raised ValueError: too long for me")


def test_differences_in_words():
    one, two = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.5]])
    nan = torch.tensor([[1.0, float("nan")]])
    assert apart("x", one, one) is None
    assert apart("x", one, two, 0.3) is None
    assert apart("x", one, two, 0.1) == "x differs by 0.5 at (0, 1): 2, expected 2.5 (allowed 0.25)"
    assert apart("x", one, two[0], 1.0) == "x has shape (1, 2), expected (2,)"
    assert apart("x", nan, nan) is None
    assert apart("x", nan, one) == "x differs by inf at (0, 1): nan, expected 2 (allowed 0)"
    assert not_finite("x", one) is None
    assert not_finite("x", nan) == "x is nan at (0, 1)"
    assert apart("x", torch.empty(0), torch.empty(0)) is None


class TableOfOthers(Window):
    def over(self, batch, head, query, key):
        return ~super().over(batch, head, query, key)


class SaysTheOpposite(Window):
    def allows(self, batch, head, query, key):
        return not super().allows(batch, head, query, key)


class TooNarrow(Window):
    def structure(self, place=None):
        return Structure(self, place, within=(self.left, self.right - 1))


class CountsFromZero(Window):
    def dense(self, *size, query_start=0, key_start=0, device=None):
        return super().dense(*size, key_start=key_start, device=device)


class WrongBand(Window):
    def structure(self, place=None):
        band = (self.left, self.right + 1)
        return Structure(self, place, band, within=band)


class SeesMore(Window):
    def structure(self, place=None):
        return Structure(self, place)

    def key_mask(self, structure):
        return None


class SeenByFewer(SeesMore):
    def key_mask(self, structure):
        return structure.reach()[0]

    def query_mask(self, structure):
        return (torch.arange(structure.at.query_len) > 0).view(1, 1, -1)


MASKS = {
    TableOfOthers: ("predicate",),
    SaysTheOpposite: ("predicate",),
    TooNarrow: ("told",),
    CountsFromZero: ("predicate",),
    WrongBand: ("told", "kernels"),
    SeesMore: ("told",),
    SeenByFewer: ("told",),
}


@pytest.mark.parametrize(("kind", "ids"), MASKS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_wrong_masks_fail(kind, ids):
    for verdict in found(kind(2, 1), *ids).values():
        assert verdict.state == "fails", verdict.id
        assert verdict.example.startswith("Place(batch=")


class TurnedTwice(Rotary):
    """Angles grow with the square of the position."""

    def rotate(self, heads, start):
        parts = [
            super(TurnedTwice, self).rotate(heads[:, :, i : i + 1], (start + i) ** 2) for i in range(heads.shape[2])
        ]
        return torch.cat(parts, 2)


class ByPlace(Alibi):
    """What is added depends on where the query stands."""

    def relative(self, query, key, low, high):
        return None

    def bias(self, query, key, start):
        rows = torch.arange(start, start + query.shape[2], dtype=query.dtype)
        return (rows[:, None] * torch.arange(key.shape[2], dtype=query.dtype)).expand(1, 1, -1, -1) / 10


class Wraps(Sinusoidal):
    def embed(self, x, start):
        table = torch.randn(49, x.shape[-1], generator=torch.Generator().manual_seed(1)).to(x.dtype)
        return x + table[torch.arange(start, start + x.shape[-2]) % 49]


class StartForgotten(Sinusoidal):
    def embed(self, x, start):
        return super().embed(x, 0)


class Widens(Sinusoidal):
    def embed(self, x, start):
        return x.double()


POSITIONS = {
    TurnedTwice: ("padding",),
    ByPlace: ("padding",),
    Wraps: ("beyond",),
    StartForgotten: ("layer",),
    Widens: ("layer",),
}


@pytest.mark.parametrize(("kind", "ids"), POSITIONS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_wrong_positions_fail(kind, ids):
    for verdict in found(kind, *ids).values():
        assert verdict.state == "fails", verdict.id
        assert verdict.example.startswith("Place(length=")


def test_every_invariant_of_a_family_can_fail():
    for target, wrong in ((Causal(), MASKS), (Rotary, POSITIONS)):
        assert {one.id for one in invariants(target)} == {id for ids in wrong.values() for id in ids}


class Mean(Mechanism):
    """The docstring's example: honours no mask, and says so by saying nothing."""

    def compute(self, call):
        mean = call.value.mean(2, keepdim=True).repeat_interleave(call.group, 1)
        return mean.expand(-1, -1, call.query.shape[2], -1)


class Averaging:
    """A base that is no mechanism, with the method of one."""

    def compute(self, call):
        return call.value


class Mixed(Averaging, Mechanism):
    pass


class AnyMean(Mean):
    facts = Facts(honours="any", causal=True)


class CausalMean(Mean):
    facts = Facts(causal=True)


def test_a_mechanism_that_declares_nothing_is_asked_for_nothing():
    assert not [verdict for verdict in certify(Mean, quick=True) if verdict.state == "fails"]


@pytest.mark.parametrize(
    ("kind", "ids"), [(AnyMean, ("empty", "support")), (CausalMean, ("support",))], ids=["any", "causal"]
)
def test_a_mechanism_that_ignores_a_mask_it_declares_fails(kind, ids):
    for verdict in certify(kind, only=ids, quick=True):
        assert verdict.state == "fails", verdict.id


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": Causal()}, "Mean cannot honour the mask Causal; it honours none; use mechanism 'scored'"),
        ({"mask": Padding(torch.tensor([2])).shared()}, "Mean cannot honour the mask Padding; it honours none"),
        ({"mask": Causal() | Window(0, 1)}, "Mean cannot honour the mask Or; it honours none"),
        ({"bias": torch.zeros(1, 1, 1, 3)}, "Mean has no scores that a bias could be added to"),
        ({"query_start": 1}, "Mean reads a sequence as a whole and cannot go on from position 1"),
        ({"cross": True}, "Mean is self-attention: the keys are of another sequence"),
        ({"query": torch.ones(1, 1, 2, 4)}, r"Mean is self-attention: query_len \(2\) and key_len \(3\) must be equal"),
    ],
)
def test_what_is_not_declared_never_reaches_a_mechanism(changes, message):
    x = torch.ones(1, 1, 3, 4)
    call = replace(Call(x, x, x), **changes)
    for asked in (Mean(), Mean().weights, Mean().stages):
        with pytest.raises(Unsupported, match=message):
            asked(call)
    with pytest.raises(Unsupported, match=message.replace("Mean", "Mixed")):
        Mixed()(call)
    assert Mean()(Call(x, x, x)).shape == x.shape


def test_an_edit_cannot_hide_from_a_mechanism_what_it_ignores():
    """A mask that an edit adds comes after all that a layer could check."""
    model = torch.nn.ModuleDict({"layer": Mean()})
    x = torch.ones(1, 1, 3, 4)
    with pytest.raises(Unsupported, match="Mean cannot honour the mask"), edit(model, Hide("layer", tokens=[1])):
        model["layer"](Call(x, x, x))
