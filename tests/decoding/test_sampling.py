import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toys import BOS, EOS, Given, Logits, Prefixes, Table, rules_for

from headwise.decoding.constraints import constraints
from headwise.decoding.sampling import draw, greedy, sample
from headwise.errors import ConfigError

IDS = {"bos_id": BOS, "eos_id": EOS}


def run(sentences, *, seed=0, max_len=6, **options):
    generator = torch.Generator().manual_seed(seed)
    rules = rules_for(sentences, max_len)
    return sample(Table(sentences), Prefixes(len(sentences)), rules, generator=generator, **options)


def far(counts: torch.Tensor, probabilities: torch.Tensor) -> float:
    """Chi-square per degree of freedom."""
    expected = probabilities * counts.sum()
    kept = expected > 0
    assert counts[~kept].sum() == 0
    return float(((counts - expected)[kept] ** 2 / expected[kept]).sum()) / max(1, int(kept.sum()) - 1)


def test_the_same_seed_gives_the_same_samples():
    sentences = [Logits(i, 12) for i in range(3)]
    assert run(sentences, num_samples=4) == run(sentences, num_samples=4)
    assert run(sentences, num_samples=4) != run(sentences, seed=1, num_samples=4)


def test_without_a_generator_the_global_seed_counts():
    def once():
        torch.manual_seed(5)
        return sample(Table([Logits(0, 12)]), Prefixes(1), constraints([6], **IDS))

    assert once() == once()


def test_draws_are_the_host_s_whatever_the_default_device_is():
    logits = torch.randn(2, 12)
    decoder = SimpleNamespace(step=lambda tokens, cache: logits[: tokens.shape[0]])
    with torch.device("meta"):
        assert len(sample(decoder, Prefixes(1), constraints([3], **IDS), num_samples=2)[0]) == 2


def test_whole_hypotheses_have_their_probability():
    tree = Given(4, {(): {2: 0.7, 3: 0.3}, (2,): {EOS: 0.4, 3: 0.6}, (3,): {EOS: 1.0}, (2, 3): {EOS: 1.0}})
    counts = Counter(tuple(h.tokens) for h in run([tree], num_samples=4001)[0])
    seen = torch.tensor([counts[(2,)], counts[(3,)], counts[(2, 3)]], dtype=torch.float64)
    assert seen.sum() == 4001
    assert far(seen, torch.tensor([0.28, 0.3, 0.42], dtype=torch.float64)) < 3


@pytest.mark.parametrize("vocab", [11, 5003])
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 5, 1.0), (1.0, 0, 0.7), (0.7, 7, 0.8), (1.0, 6000, 1.0)],
)
def test_frequencies_agree_with_the_probabilities(vocab, temperature, top_k, top_p):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(vocab, generator=generator, dtype=torch.float64)
    logits[torch.randperm(vocab, generator=generator)[:9]] += 9
    expected = (logits / temperature).softmax(0)
    order = expected.argsort(descending=True, stable=True)
    kept = order[:top_k] if top_k else order
    shares = (expected[kept] / expected[kept].sum()).cumsum(0).tolist()
    if top_p < 1:
        kept = kept[: 1 + sum(share < top_p for share in shares)]
    allowed = torch.zeros(vocab, dtype=torch.float64)
    allowed[kept] = expected[kept] / expected[kept].sum()
    rows = logits.log_softmax(0).expand(500, vocab)
    counts = torch.zeros(vocab, dtype=torch.float64)
    for _ in range(8):
        noise = torch.rand(500, generator=generator, dtype=torch.float64)
        drawn = draw(rows, noise, temperature=temperature, top_k=top_k, top_p=top_p)
        counts += torch.bincount(drawn, minlength=vocab)
    assert (counts[allowed == 0] == 0).all()
    # the rare ones in one class, so that each class is expected often enough
    common = allowed * 4000 >= 8
    pooled = torch.cat([counts[common], counts[~common].sum()[None]])
    assert far(pooled, torch.cat([allowed[common], allowed[~common].sum()[None]])) < 3


def test_top_p_where_nothing_stands_out_keeps_the_fewest():
    # 400 equal tokens: three quarters of them are needed, the first ones
    rows = torch.zeros(300, 400).log_softmax(1)
    noise = torch.linspace(0, 1 - 1e-9, 300, dtype=torch.float64)
    drawn = draw(rows, noise, temperature=1.0, top_k=0, top_p=0.75)
    assert drawn.max() in (299, 300)
    assert drawn.min() == 0


def test_top_p_stops_at_the_token_that_reaches_it():
    # powers of two, so that the sums are exact: one half and a quarter are three quarters
    row = torch.tensor([[0.125, 0.5, 0.125, 0.25]], dtype=torch.float64).log()
    noise = torch.linspace(0, 1 - 1e-9, 64, dtype=torch.float64)
    for top_k in (0, 4):
        drawn = draw(row.expand(64, 4), noise, temperature=1.0, top_k=top_k, top_p=0.75)
        assert set(drawn.tolist()) == {1, 3}


@given(seed=st.integers(0, 10**6), levels=st.sampled_from([0, 4]))
@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-9}])
def test_the_sharpest_cut_is_greedy(options, seed, levels):
    sentences = [Logits(seed + i, 9, levels=levels) for i in range(3)]
    drawn = run(sentences, **options)
    assert drawn == greedy(Table(sentences), Prefixes(3), constraints([6] * 3, **IDS))


@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([1e-4, 1e-20, 1e-300]))
def test_low_temperature_is_greedy(seed, temperature):
    sentences = [Logits(seed + i, 9, dtype=torch.float32) for i in range(3)]
    assert run(sentences, temperature=temperature) == greedy(Table(sentences), Prefixes(3), constraints([6] * 3, **IDS))


def test_scores_are_the_model_s_own():
    logits = Given(4, {(): {2: 0.75, 3: 0.25}, (2,): {EOS: 1.0}, (3,): {EOS: 1.0}})
    samples = run([logits], num_samples=50, temperature=3.0, top_k=2)[0]
    assert {(h.tokens[0], round(math.exp(h.log_prob), 9), round(h.score, 9)) for h in samples} == {
        (2, 0.75, round(math.log(0.75) / 2, 9)),
        (3, 0.25, round(math.log(0.25) / 2, 9)),
    }


def test_the_content_of_neighbours_does_not_change_a_sample():
    mine = Logits(4, 12)
    short, long = Given(12, {(): {EOS: 1.0}}), Given(12, {(2,) * n: {2: 1.0} for n in range(9)})
    results = [run([neighbour, mine, neighbour], num_samples=2)[1] for neighbour in (short, long, Logits(9, 12))]
    assert results[0] == results[1] == results[2]


def test_a_sentence_leaves_with_its_last_sample():
    cache = Prefixes(2)
    sentences = [Given(5, {(): {EOS: 1.0}}), Given(5, {(2,) * n: {2: 1.0} for n in range(6)})]
    results = sample(Table(sentences), cache, constraints([4, 4], **IDS), num_samples=3)
    assert [[h.tokens for h in hypotheses] for hypotheses in results] == [[[]] * 3, [[2] * 4] * 3]
    assert cache.sizes == [6, 3, 3, 3]


@pytest.mark.parametrize("noise", [0.0, 0.5, 1 - 2.0**-53])
def test_a_token_without_probability_is_never_drawn(noise):
    row = torch.tensor([[-math.inf, 0.0, -math.inf, -1.0, -math.inf]]).log_softmax(1)
    for options in ({"top_k": 0, "top_p": 1.0}, {"top_k": 5, "top_p": 1.0}, {"top_k": 0, "top_p": 0.99}):
        drawn = draw(row, torch.tensor([noise], dtype=torch.float64), temperature=1.0, **options)
        assert drawn.item() in (1, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, r"temperature \(0.0\) must be a positive number; greedy search is its limit at 0"),
        ({"temperature": -1.0}, "must be a positive number"),
        ({"temperature": math.nan}, "must be a positive number"),
        ({"temperature": math.inf}, "must be a positive number"),
        ({"top_k": -1}, r"top_k \(-1\) must be 0 \(all tokens\) or more"),
        ({"top_p": 0.0}, r"top_p \(0.0\) must be above 0 and at most 1"),
        ({"top_p": 1.5}, "must be above 0 and at most 1"),
        ({"num_samples": 0}, r"num_samples \(0\) must be 1 or more"),
    ],
)
def test_values_out_of_range_are_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        run([Logits(0, 5)], **options)
