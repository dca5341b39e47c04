import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import EOS, Given, Logits, Prefixes, Table, exhaustive, forced_scores, rules_for

from headwise.decoding import beam
from headwise.decoding.beam import beam_search
from headwise.decoding.sampling import greedy
from headwise.errors import ConfigError

SEEDS = st.integers(0, 10**6)
ALPHAS = st.sampled_from([0.0, 0.6, 1.0, 2.0])
COURSE_BOOK = Given(
    6,
    {
        (): {2: 0.6, 3: 0.4},
        (2,): {4: 0.55, 5: 0.45},
        (3,): {4: 0.9, 5: 0.1},
        **{(first, second): {EOS: 1.0} for first in (2, 3) for second in (4, 5)},
    },
)


def run(sentences, *, max_len=5, beam_size=3, n_best=1, **options):
    cache, rules = Prefixes(len(sentences)), rules_for(sentences, max_len, **options)
    return beam_search(Table(sentences), cache, rules, beam_size=beam_size, n_best=n_best)


def test_the_example_of_the_course_book():
    # P(A)=.6 P(x|A)=.55, P(B)=.4 P(x|B)=.9: the greedy path has .33, the best .36
    best = greedy(Table([COURSE_BOOK]), Prefixes(1), rules_for([COURSE_BOOK], 5))[0][0]
    assert best.tokens == [2, 4]
    assert math.exp(best.log_prob) == pytest.approx(0.33, abs=1e-12)
    first, second = run([COURSE_BOOK], beam_size=2, n_best=2)[0]
    assert (first.tokens, second.tokens) == ([3, 4], [2, 4])
    assert math.exp(first.log_prob) == pytest.approx(0.36, abs=1e-12)
    assert first.score == pytest.approx(first.log_prob / 3, abs=1e-12)
    assert first.finished


@given(seed=SEEDS, alpha=ALPHAS, levels=st.sampled_from([0, 2]), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_one_beam_is_greedy(seed, alpha, levels, dtype):
    sentences = [Logits(seed + i, 7, levels=levels, dtype=dtype) for i in range(3)]
    limits = [5, 1, 8]
    one = run(sentences, max_len=limits, beam_size=1, length_penalty=alpha)
    assert one == greedy(Table(sentences), Prefixes(3), rules_for(sentences, limits, length_penalty=alpha))


@given(seed=SEEDS, alpha=ALPHAS, holes=st.sampled_from([0.0, 0.3]), shortest=st.integers(0, 2))
def test_a_full_beam_is_exhaustive_search(seed, alpha, holes, shortest):
    logits = Logits(seed, 3, holes=holes)
    wanted = exhaustive(logits, 4, alpha, shortest)
    result = run([logits], max_len=4, beam_size=3**4, n_best=3**4, length_penalty=alpha, min_len=shortest)[0]
    if wanted:
        assert len(result) == len(wanted)
        torch.testing.assert_close([h.score for h in result], [w[0] for w in wanted], rtol=0, atol=1e-9)
        assert {(tuple(h.tokens), h.finished) for h in result} == {(tuple(w[1]), w[3]) for w in wanted}


@given(seed=SEEDS, alpha=ALPHAS, size=st.integers(1, 6))
def test_no_beam_finds_more_than_there_is(seed, alpha, size):
    logits = Logits(seed, 4)
    best = run([logits], max_len=4, beam_size=size, length_penalty=alpha)[0][0]
    assert best.score <= exhaustive(logits, 4, alpha)[0][0] + 1e-12


@given(seed=SEEDS, alpha=ALPHAS, size=st.integers(1, 5))
def test_the_score_is_that_of_forced_decoding(seed, alpha, size):
    sentences = [Logits(seed + i, 6, dtype=torch.float32) for i in range(2)]
    for sentence, hypotheses in zip(
        sentences, run(sentences, beam_size=size, n_best=size, length_penalty=alpha), strict=True
    ):
        for hypothesis in hypotheses:
            target = hypothesis.tokens + [EOS] * hypothesis.finished
            forced = forced_scores(Table([sentence]), Prefixes(1), [target])[0]
            assert hypothesis.log_prob == pytest.approx(sum(forced), abs=1e-6)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / len(target) ** alpha, abs=1e-9)
            assert max(forced) <= 0


# a longer hypothesis wins seldom
@settings(max_examples=120)
@given(seed=SEEDS, alpha=ALPHAS, size=st.integers(1, 5), data=st.data())
def test_stopping_early_changes_nothing_and_n_best_are_sorted(seed, alpha, size, data):
    sentences = [Logits(seed + i, 6) for i in range(2)]
    n_best = data.draw(st.integers(1, size))
    options = {"beam_size": size, "n_best": n_best, "length_penalty": alpha, "max_len": 7}
    early = run(sentences, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "attainable", lambda log_probs, norms: np.where(log_probs == -math.inf, -math.inf, 0.0))
        late = run(sentences, **options)
    assert early == late
    for hypotheses in early:
        assert len({(tuple(h.tokens), h.finished) for h in hypotheses}) == len(hypotheses)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert all(h.finished or len(h.tokens) == 7 for h in hypotheses)
        assert all(EOS not in h.tokens for h in hypotheses)


def test_the_bound_saves_steps():
    sure = Given(5, {(): {EOS: 0.9, 2: 0.1}, (2,): {3: 1.0}})
    cache = Prefixes(1)
    beam_search(Table([sure]), cache, rules_for([sure], 50, length_penalty=0.0), beam_size=3)
    assert cache.length == 1


@given(seed=SEEDS, alpha=ALPHAS, size=st.integers(1, 4), data=st.data())
def test_a_sentence_does_not_depend_on_its_neighbours(seed, alpha, size, data):
    sentences = [Logits(seed + i, 6, levels=data.draw(st.sampled_from([0, 3])), holes=0.1) for i in range(5)]
    limits = data.draw(st.lists(st.integers(1, 9), min_size=5, max_size=5))
    options = {"beam_size": size, "n_best": size, "length_penalty": alpha}
    alone = [run([s], max_len=[n], **options)[0] for s, n in zip(sentences, limits, strict=True)]
    order = data.draw(st.permutations(range(5)))
    together = run([sentences[i] for i in order], max_len=[limits[i] for i in order], **options)
    assert together == [alone[i] for i in order]


def test_finished_sentences_leave_the_batch_and_settled_beams_are_not_reordered():
    short = Given(5, {(): {EOS: 1.0}})
    long = Given(5, {(2,) * n: {2: 1.0} for n in range(6)})
    cache = Prefixes(3)
    sentences = [short, long, short]
    results = beam_search(Table(sentences), cache, rules_for(sentences, 6, length_penalty=1.0), beam_size=2)
    assert [hypotheses[0].tokens for hypotheses in results] == [[], [2] * 6, []]
    # the first step is shared by the hypotheses of a sentence
    assert cache.sizes == [3, 2, 2, 2, 2, 2]
    # there is only one way, so no row takes another's place
    assert cache.reorders == []


def test_equal_scores_keep_the_order_of_token_ids():
    flat = Given(5, {(): dict.fromkeys(range(2, 5), 1 / 3), **{(a,): {EOS: 1.0} for a in range(2, 5)}})
    assert [h.tokens for h in run([flat], beam_size=3, n_best=3)[0]] == [[2], [3], [4]]


def test_a_beam_wider_than_the_vocabulary():
    assert len(run([Logits(3, 3)], beam_size=11, n_best=11, max_len=5)[0]) == 11


def test_a_dead_end_is_dropped_unless_it_is_all_there_is():
    fork = Given(5, {(): {2: 0.9, 3: 0.1}, (3,): {EOS: 1.0}})
    only = run([fork], beam_size=2, n_best=2)[0]
    assert [(h.tokens, h.finished) for h in only] == [([3], True)]
    # one beam follows the likelier way into nothing
    stuck = run([fork], beam_size=1)[0]
    assert [(h.tokens, h.finished) for h in stuck] == [([2], False)]
    assert stuck[0].log_prob == pytest.approx(math.log(0.9))
    nothing = run([Given(5, {})], beam_size=2)[0]
    assert [(h.tokens, h.finished, h.log_prob, h.score) for h in nothing] == [([], False, 0.0, 0.0)]


def test_no_sentences_give_no_results():
    assert run([], max_len=[]) == []


@pytest.mark.parametrize(("beam_size", "n_best"), [(2, 3), (0, 0), (3, 0)])
def test_n_best_must_fit_the_beam(beam_size, n_best):
    with pytest.raises(ConfigError, match=rf"n_best \({n_best}\) must be from 1 to beam_size \({beam_size}\)"):
        run([Logits(0, 5)], beam_size=beam_size, n_best=n_best)


@pytest.mark.parametrize("penalty", [-0.5, math.nan, math.inf])
def test_the_length_penalty_is_not_negative(penalty):
    with pytest.raises(ConfigError, match="must be zero or a positive number"):
        run([Logits(0, 5)], length_penalty=penalty)
