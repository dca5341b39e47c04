"""Masked windows: which tokens are told, what stands there; both depend on seed, pass and place alone."""

import numpy as np
import pytest
import torch

from headwise.data.streams import Text
from headwise.errors import ConfigError
from headwise.tasks.language.masked import MASK_ID, Masking, MaskingConfig, masked_windows

SIZE, VOCAB = 20_011, 47


@pytest.fixture(scope="module")
def text():
    # from 2, so that there are ends of lines and unknown tokens
    return Text(np.concatenate([[1], np.random.default_rng(0).integers(2, VOCAB, SIZE)]), chars=SIZE)


def masking(seed=5, **config):
    return Masking(MaskingConfig(**config), VOCAB, seed)


def flat(batch):
    return batch.inputs.flatten()[batch.places]


def test_shares_are_those_of_the_paper(text):
    batch = masking().batch(text, [(0, SIZE)], 0)
    known = int((text.tokens[1:] > 3).sum())
    assert batch.num_tokens / known == pytest.approx(0.15, abs=0.01)
    told, wanted = flat(batch), batch.targets
    assert float((told == MASK_ID).float().mean()) == pytest.approx(0.8, abs=0.03)
    # a drawn token is the right one once in 43 times
    assert float((told == wanted).float().mean()) == pytest.approx(0.1 + 0.1 / 43, abs=0.02)
    assert int(wanted.min()) == 4
    assert set(told.tolist()) <= {MASK_ID, *range(4, VOCAB)}


def test_what_is_not_told_is_the_text(text):
    batch = masking().batch(text, [(0, 301), (301, 400)], 2)
    tokens = batch.inputs.flatten().clone()
    tokens[batch.places] = batch.targets
    rows = tokens.view(2, 301)
    assert rows[0].tolist() == text.tokens[1:302].tolist()
    assert rows[1, :99].tolist() == text.tokens[302:401].tolist()
    assert not rows[1, 99:].any()
    assert batch.lens.tolist() == [301, 99]
    assert int((batch.places >= 400).sum()) == 0


def test_masks_depend_on_the_place_alone(text):
    whole, alone = masking().batch(text, [(0, 50), (50, 83)], 3), masking().batch(text, [(50, 83)], 3)
    assert torch.equal(whole.inputs[1, :33], alone.inputs[0])
    shifted = masking().batch(text, [(40, 83)], 3)
    assert torch.equal(shifted.inputs[0, 10:], alone.inputs[0])


@pytest.mark.parametrize("other", [{"epoch": 4}, {"seed": 6}])
def test_another_pass_or_seed_masks_others(text, other):
    one = masking().batch(text, [(0, 500)], 3)
    two = masking(other.get("seed", 5)).batch(text, [(0, 500)], other.get("epoch", 3))
    shared = set(one.places.tolist()) & set(two.places.tolist())
    assert 0 < len(shared) < one.num_tokens / 2


def test_a_source_that_goes_on_masks_as_one_that_never_stopped(text):
    first, second = (masked_windows(text.first(130), 13, 3, masking(), shuffle=True) for _ in range(2))
    steps = first.size()
    seen = [batch for _ in range(3 * steps) for batch in first.take(1)]
    second.restore({"epoch": 1, "position": 2}, {})
    for wanted, found in zip(seen[steps + 2 :], [b for _ in range(steps) for b in second.take(1)], strict=False):
        assert torch.equal(wanted.inputs, found.inputs)
        assert torch.equal(wanted.places, found.places)
    assert any(a.inputs.tolist() != b.inputs.tolist() for a, b in zip(seen[:steps], seen[steps:], strict=False))


def test_masks_are_drawn_anew_in_every_pass(text):
    # a single window, which is the same in every pass
    source = masked_windows(text.first(13), 13, 1, masking(), shuffle=True)
    passes = {tuple(batch.places.tolist()) for _ in range(8) for batch in source.take(1)}
    assert len(passes) > 1


def test_evaluation_masks_the_same_in_every_pass(text):
    source = masked_windows(text.first(50), 13, 2, masking(0), shuffle=False)
    passes = [[batch.inputs.tolist() for batch in source.take(source.size())] for _ in range(2)]
    assert passes[0] == passes[1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden": 0.8, "random": 0.3}, r"hidden \(0.8\) and masking.random \(0.3\).*1 together"),
        ({"share": 0.0}, "share"),
        ({"share": 1.5}, "share"),
    ],
)
def test_shares_that_cannot_be_are_refused(values, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        MaskingConfig(**values)
