"""The linear chain against all sequences written out: sums, best ones, probabilities, gradients, padding."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from headwise.data import spans
from headwise.errors import ConfigError, ShapeError
from headwise.tasks.tagging.model import Independent, Legal, LinearChain

TAGS = ["O", "B-X", "I-X"]
LENS = [0, 1, 2, 4]


def chain_of(num_tags=3, legal=None, seed=5):
    torch.manual_seed(seed)
    chain = LinearChain(num_tags, legal).double()
    for parameter in chain.parameters():
        torch.nn.init.normal_(parameter)
    return chain


def scores_of(num_tags=3, lens=LENS, padding=math.nan):
    torch.manual_seed(7)
    scores = torch.randn(len(lens), max(lens, default=0), num_tags, dtype=torch.double)
    for row, count in zip(scores, lens, strict=True):
        row[count:] = padding
    return scores, torch.tensor(lens, dtype=torch.long)


def score(chain, scores, tags):
    """s(x, y) by its definition."""
    if not tags:
        return scores.new_zeros(())
    total = chain.first[tags[0]] + chain.last[tags[-1]]
    for place, tag in enumerate(tags):
        total = total + scores[place, tag]
    for one, other in itertools.pairwise(tags):
        total = total + chain.between[one, other]
    return total


def sequences(chain, scores, count):
    """All sequences of so many tags and their scores."""
    found = list(itertools.product(range(len(chain.first)), repeat=count))
    return found, torch.stack([score(chain, scores, tags) for tags in found])


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("num_tags", [1, 3])
def test_the_loss_is_that_of_all_sequences(num_tags, smoothing):
    chain, (scores, lens) = chain_of(num_tags), scores_of(num_tags)
    tags = torch.randint(0, num_tags, scores.shape[:2])
    expected = 0.0
    for row, count in enumerate(LENS):
        _, every = sequences(chain, scores[row], count)
        gold = score(chain, scores[row], tags[row, :count].tolist())
        expected += every.logsumexp(0) - (1 - smoothing) * gold - smoothing * every.mean()
    torch.testing.assert_close(chain(scores, tags, lens, smoothing), expected, rtol=1e-12, atol=1e-12)


def test_what_is_not_known_is_summed_over():
    chain, (scores, lens) = chain_of(), scores_of()
    tags = torch.tensor([[9, 9, 9, 9], [-1, 9, 9, 9], [2, -1, 9, 9], [7, 1, -1, 0]])
    expected = 0.0
    for row, count in enumerate(LENS):
        found, every = sequences(chain, scores[row], count)
        wanted = tags[row, :count].tolist()
        agree = [all(a == b or not 0 <= b < 3 for a, b in zip(one, wanted, strict=True)) for one in found]
        expected += every.logsumexp(0) - every[torch.tensor(agree)].logsumexp(0)
    torch.testing.assert_close(chain(scores, tags, lens, 0.0), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scheme", [None, "iob2"])
def test_the_best_sequence_and_the_probabilities_of_tags(scheme):
    allowed = None if scheme is None else Legal(*spans.legal(TAGS, scheme))
    chain, (scores, lens) = chain_of(legal=allowed, seed=4), scores_of()
    # without the scheme the best sequences break it
    scores[..., 2] += 1.5
    best, odds = chain.best(scores, lens), chain.probabilities(scores, lens)
    for row, count in enumerate(LENS):
        found, every = sequences(chain, scores[row], count)
        if allowed is not None:
            keep = [not spans.illegal_sentences([[TAGS[tag] for tag in tags]], "iob2") for tags in found]
            every = every.masked_fill(~torch.tensor(keep), -torch.inf)
        assert best[row, :count].tolist() == list(found[int(every.argmax())])
        expected = torch.zeros(4, 3, dtype=torch.double)
        for chance, tags in zip(every.softmax(0), found, strict=True):
            for place, tag in enumerate(tags):
                expected[place, tag] += chance
        torch.testing.assert_close(odds[row], expected, rtol=1e-10, atol=1e-12)
        assert best[row, count:].tolist() == [0] * (4 - count)
    illegal = spans.illegal_sentences([[TAGS[tag] for tag in best[3].tolist()]], "iob2")
    assert illegal == (scheme is None)


def test_without_transitions_it_takes_each_word_alone():
    chain, (scores, lens) = LinearChain(3, None).double(), scores_of()
    tags = torch.randint(0, 3, scores.shape[:2])
    for smoothing in (0.0, 0.2):
        alone = Independent()(scores, tags, lens, smoothing)
        torch.testing.assert_close(chain(scores, tags, lens, smoothing), alone, rtol=1e-12, atol=1e-12)
        inside = [scores[row, :count] for row, count in enumerate(LENS)]
        wanted = [tags[row, :count] for row, count in enumerate(LENS)]
        sums = F.cross_entropy(torch.cat(inside), torch.cat(wanted), reduction="sum", label_smoothing=smoothing)
        torch.testing.assert_close(alone, sums, rtol=1e-12, atol=1e-12)
    assert torch.equal(chain.best(scores, lens), Independent().best(scores, lens))
    torch.testing.assert_close(chain.probabilities(scores, lens), Independent().probabilities(scores, lens))


def test_gradients_are_exact_and_padding_has_none():
    chain, (scores, lens) = chain_of(), scores_of(padding=0.0)
    tags = torch.randint(0, 3, scores.shape[:2])
    tags[3, 1] = -1
    parameters = [parameter.detach().requires_grad_() for parameter in chain.parameters()]
    names = [name for name, _ in chain.named_parameters()]

    def loss(given, *values):
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(chain, state, (given, tags, lens, 0.1))

    assert torch.autograd.gradcheck(loss, (scores.requires_grad_(), *parameters))
    spoilt = scores_of(padding=math.nan)[0].requires_grad_()
    chain(spoilt, tags, lens, 0.1).backward()
    loss(scores, *parameters).backward()
    assert torch.equal(spoilt.grad, scores.grad)
    assert not spoilt.grad[0].any()
    for one, other in zip(chain.parameters(), parameters, strict=True):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("lens", [[], [0, 0]])
def test_nothing_costs_nothing(lens):
    chain, (scores, lens) = chain_of(), scores_of(lens=lens)
    scores.requires_grad_()
    loss = chain(scores, torch.zeros(scores.shape[:2], dtype=torch.long), lens, 0.1)
    loss.backward()
    assert loss.item() == 0.0
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in chain.parameters())
    assert chain.best(scores, lens).shape == scores.shape[:2]
    assert chain.probabilities(scores, lens).shape == scores.shape


def test_longer_padding_and_other_rows_change_nothing():
    chain, (scores, lens) = chain_of(), scores_of()
    wide = torch.cat([scores, torch.full((4, 3, 3), math.inf, dtype=torch.double)], 1)
    torch.testing.assert_close(chain.probabilities(wide, lens)[:, :4], chain.probabilities(scores, lens))
    assert torch.equal(chain.best(wide, lens)[:, :4], chain.best(scores, lens))
    for row, count in enumerate(LENS):
        one = scores[row : row + 1, :count], lens[row : row + 1]
        assert torch.equal(chain.best(*one)[0], chain.best(scores, lens)[row, :count])
        torch.testing.assert_close(chain.probabilities(*one)[0], chain.probabilities(scores, lens)[row, :count])


def test_large_scores_stay_finite():
    chain, (scores, lens) = chain_of(), scores_of(padding=0.0)
    large = (scores * 1e4).float().requires_grad_()
    chain = chain.float()
    chain(large, torch.ones(scores.shape[:2], dtype=torch.long), lens, 0.1).backward()
    assert large.grad.isfinite().all()
    assert chain.probabilities(large, lens).isfinite().all()


def test_halves_are_computed_in_float32():
    chain, (scores, lens) = chain_of().float(), scores_of(padding=0.0)
    tags, half = torch.ones(scores.shape[:2], dtype=torch.long), scores.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        loss, odds = chain(half, tags, lens, 0.1), chain.probabilities(half, lens)
    assert loss.dtype == odds.dtype == torch.float32
    assert torch.equal(loss, chain(half.float(), tags, lens, 0.1))
    assert torch.equal(odds, chain.probabilities(half.float(), lens))


@pytest.mark.slow
def test_one_graph_holds_it(untyped):
    torch.compiler.reset()
    chain, (scores, lens) = chain_of(), scores_of(padding=0.0)
    tags = torch.ones(scores.shape[:2], dtype=torch.long)
    compiled = torch.compile(chain, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(scores, tags, lens, 0.1), chain(scores, tags, lens, 0.1))


def test_what_cannot_be_is_refused():
    nothing, every = np.zeros(2, dtype=bool), np.ones((2, 2), dtype=bool)
    with pytest.raises(ConfigError, match=r"some lengths have no legal sequence: .* \(output.legal = false\)"):
        LinearChain(2, Legal(nothing, every, ~nothing))
    with pytest.raises(ShapeError, match="legal is for 2 tags, the chain has 3"):
        LinearChain(3, Legal(nothing, every, ~nothing))


def test_weights_are_the_transitions_alone():
    allowed = Legal(*spans.legal(TAGS, "iob2"))
    assert list(LinearChain(3, allowed).state_dict()) == ["first", "last", "between"]
    with torch.device("meta"):
        assert LinearChain(3, allowed).bar_between.device.type == "meta"
