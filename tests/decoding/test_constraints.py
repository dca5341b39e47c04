import math

import numpy as np
import pytest
import torch
from devices import seeded
from hypothesis import given
from hypothesis import strategies as st
from toys import BOS, EOS, Given, Logits, Prefixes, Table, forced_scores, rules_for

from headwise import native
from headwise.caches import Cache
from headwise.decoding.beam import beam_search
from headwise.decoding.constraints import allowed_log_probs, compiled_continuations, constraints
from headwise.decoding.sampling import greedy, sample
from headwise.decoding.top import continuations
from headwise.errors import ConfigError, Diverged, ShapeError


def by_beam(sentences, **options):
    rules = rules_for(sentences, **options)
    return beam_search(Table(sentences), Prefixes(len(sentences)), rules, beam_size=3, n_best=3)


def by_greedy(sentences, **options):
    return greedy(Table(sentences), Prefixes(len(sentences)), rules_for(sentences, **options))


def by_sampling(sentences, **options):
    generator = seeded(0)
    rules = rules_for(sentences, **options)
    return sample(Table(sentences), Prefixes(len(sentences)), rules, num_samples=3, generator=generator)


methods = pytest.mark.parametrize("decode", [by_greedy, by_beam, by_sampling])


@methods
@given(seed=st.integers(0, 10**6), data=st.data())
def test_every_hypothesis_obeys_every_rule(decode, seed, data):
    sentences = [Logits(seed + i, 9, dtype=torch.float32) for i in range(3)]
    longest = data.draw(st.lists(st.integers(3, 12), min_size=3, max_size=3))
    shortest = [data.draw(st.integers(0, n)) for n in longest]
    prefix = [data.draw(st.lists(st.integers(2, 8), max_size=3)) for _ in longest]
    banned = data.draw(st.lists(st.integers(2, 8), max_size=2))
    size = data.draw(st.integers(0, 3))
    rules = {"max_len": longest, "min_len": shortest, "prefix": prefix, "banned": banned, "no_repeat_ngram": size}
    for i, hypotheses in enumerate(decode(sentences, **rules)):
        for hypothesis in hypotheses:
            tokens, free = hypothesis.tokens, hypothesis.tokens[len(prefix[i]) :]
            assert tokens[: len(prefix[i])] == prefix[i]
            assert len(tokens) <= longest[i]
            assert not hypothesis.finished or len(tokens) >= shortest[i]
            assert not set(free) & set(banned)
            assert EOS not in tokens
            for end in range(len(prefix[i]) + 1, len(tokens) + 1):
                gram = tokens[max(0, end - size) : end] if size else []
                earlier = [tokens[start : start + size] for start in range(end - size)]
                assert not gram or gram not in earlier
            # only running out of allowed tokens ends one before its time
            assert hypothesis.finished or len(tokens) == longest[i] or size
            forced = forced_scores(Table([sentences[i]]), Prefixes(1), [tokens + [EOS] * hypothesis.finished])
            assert hypothesis.log_prob == pytest.approx(sum(forced[0]), abs=1e-5)


@methods
def test_a_prefix_stands_above_bans_and_repeats(decode):
    rules = {"max_len": 4, "banned": [3], "no_repeat_ngram": 1, "prefix": [[3, 3]]}
    for hypothesis in decode([Logits(5, 7)], **rules)[0]:
        assert hypothesis.tokens[:2] == [3, 3]
        assert 3 not in hypothesis.tokens[2:]


@methods
def test_each_sentence_has_its_own_minimum_length(decode):
    keen = [Given(4, {(2,) * n: {EOS: 1 - 1e-9, 2: 1e-9} for n in range(9)})] * 3
    results = decode(keen, max_len=5, min_len=[1, 3, 0])
    assert [len(hypotheses[0].tokens) for hypotheses in results] == [1, 3, 0]
    assert all(hypotheses[0].finished for hypotheses in results)


@methods
def test_a_hypothesis_at_its_maximum_length_is_not_finished(decode):
    endless = Given(4, {(2,) * n: {2: 1.0} for n in range(9)})
    for hypothesis in decode([endless], max_len=4)[0]:
        assert (hypothesis.tokens, hypothesis.finished, hypothesis.log_prob) == ([2] * 4, False, 0.0)


def test_forbidden_tokens_do_not_raise_the_others():
    logits = Given(4, {(): {EOS: 0.5, 2: 0.3, 3: 0.2}, (2,): {EOS: 1.0}, (3,): {EOS: 1.0}})
    for decode in (by_greedy, by_beam, by_sampling):
        best = decode([logits], max_len=3, min_len=1, banned=[2])[0][0]
        assert best.tokens == [3]
        assert math.exp(best.log_prob) == pytest.approx(0.2)


@methods
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 4, 300])
def test_logits_that_are_not_finite_are_an_error(decode, bad, place):
    def logits(prefix: tuple[int, ...]) -> torch.Tensor:
        row = torch.zeros(331)
        row[EOS] = -5.0
        if len(prefix) == 3:
            row[place] = bad
        return row

    with pytest.raises(Diverged, match=r"the model's logits are not finite \(NaN or infinity\) at step 3"):
        decode([logits], max_len=5)


@methods
def test_nowhere_to_go_ends_unfinished(decode):
    # with every word used once, no token but the end is left, and that has no probability
    logits = Given(4, {(): {2: 0.5, 3: 0.5}, (2,): {3: 1.0}, (3,): {2: 1.0}, (2, 3): {2: 1.0}, (3, 2): {3: 1.0}})
    for hypothesis in decode([logits], max_len=6, no_repeat_ngram=1)[0]:
        assert sorted(hypothesis.tokens) == [2, 3]
        assert not hypothesis.finished
        assert math.exp(hypothesis.log_prob) == pytest.approx(0.5)
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / 2)


@pytest.mark.parametrize("eos_id", [0, 4])
def test_a_dead_end_is_no_end_of_sentence(eos_id):
    nowhere = [lambda prefix: torch.full((5,), -math.inf)]
    rules = rules_for(nowhere, 3, bos_id=2, eos_id=eos_id)
    for hypotheses in (
        *greedy(Table(nowhere), Prefixes(1), rules),
        *beam_search(Table(nowhere), Prefixes(1), rules, beam_size=2),
        *sample(Table(nowhere), Prefixes(1), rules),
        *sample(Table(nowhere), Prefixes(1), rules, top_p=0.5),
    ):
        assert [(h.tokens, h.finished, h.log_prob) for h in hypotheses] == [([], False, 0.0)]


@methods
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_scored_in_fp32(decode, dtype):
    logits = Logits(3, 50, dtype=dtype)
    wide = Logits(3, 50, dtype=torch.float32)
    for hypothesis in decode([logits], max_len=4)[0]:
        target = hypothesis.tokens + [EOS] * hypothesis.finished
        prefixes = [(BOS, *target[:n]) for n in range(len(target))]
        rows = [wide(prefix).to(dtype).float().log_softmax(0) for prefix in prefixes]
        total = sum(float(row[token]) for row, token in zip(rows, target, strict=True))
        assert hypothesis.log_prob == pytest.approx(total, abs=1e-5)


@methods
def test_the_decoder_s_logits_are_not_written_into(decode):
    # logits that share one storage must not be written into
    shared = Logits(8, 11)((BOS,)).clone()
    before = shared.clone()
    decode([lambda prefix: shared], max_len=4, min_len=2, banned=[3], no_repeat_ngram=1)
    torch.testing.assert_close(shared, before, rtol=0, atol=0)


class Silent(Cache):
    """Does not tell how many sentences it holds."""

    def expand(self, beams):
        raise NotImplementedError

    reorder = keep = expand


def test_a_cache_need_not_tell_its_number_of_sentences():
    class Constant:
        def step(self, tokens, cache):
            return torch.tensor([[0.0, 2.0, 1.0]]).expand(len(tokens), 3)

    assert len(greedy(Constant(), Silent(), constraints([3, 3], bos_id=BOS, eos_id=EOS))) == 2


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"max_len": 0}, r"sentence 0: max_len \(0\) must be 1 or more, min_len \(0\) 0 or more"),
        ({"max_len": 3, "min_len": -1}, r"min_len \(-1\) 0 or more"),
        ({"max_len": [5, 3], "min_len": 4}, r"sentence 1: min_len \(4\) is above max_len \(3\)"),
        ({"max_len": 2, "prefix": [[2], [2, 3, 2]]}, "sentence 1: the prefix has 3 tokens, max_len allows 2"),
        ({"max_len": 5, "prefix": [[2, EOS], []]}, r"sentence 0: the prefix contains the end of sentence \(1\)"),
        ({"max_len": 5, "prefix": [[2], [9]]}, "token 9 is outside the vocabulary of 7 tokens"),
        ({"max_len": 5, "banned": [-1]}, "token -1 is outside the vocabulary of 7 tokens"),
        ({"max_len": 5, "no_repeat_ngram": -2}, r"no_repeat_ngram \(-2\) must be 0 \(off\) or more"),
        ({"max_len": 5, "min_len": [1]}, "the number of sentences is not clear: max_len 2, min_len 1"),
        ({"max_len": 5, "prefix": [[2]]}, "the number of sentences is not clear: max_len 2, prefix 1"),
        ({"max_len": 5, "bos_id": [0] * 3}, "the number of sentences is not clear: max_len 2, bos_id 3"),
        ({"max_len": [5, 5, 5]}, "max_len is for 3 sentences, but the decoder was started with 2"),
    ],
)
@methods
def test_contradicting_rules_are_errors(decode, rules, message):
    with pytest.raises(ConfigError, match=message):
        decode([Logits(1, 7), Logits(2, 7)], **rules)


@methods
def test_a_vocabulary_of_one_is_an_error(decode):
    with pytest.raises(ConfigError, match="a vocabulary needs the end of sentence and at least one more token"):
        decode([lambda prefix: torch.zeros(1)], max_len=3)


def test_a_decoder_with_the_wrong_number_of_rows_is_an_error():
    class Wrong:
        def step(self, tokens, cache):
            return torch.zeros(len(tokens) + 1, 5)

    with pytest.raises(ShapeError, match="the decoder returned 3 rows of logits for 2 tokens"):
        greedy(Wrong(), Prefixes(2), constraints([3, 3], bos_id=BOS, eos_id=EOS))


@pytest.mark.skipif(native.build().library is None, reason="no C++ compiler that builds native.cpp here")
@pytest.mark.parametrize("vocab", [2, 63, 64, 65, 301, 8_000])
@pytest.mark.parametrize("k", [1, 7, 10])
def test_the_ranking_in_cpp_is_that_of_pytorch(vocab, k):
    generator = torch.Generator().manual_seed(vocab + k)
    for trial in range(7):
        # many equal numbers in every other trial, and some that are minus infinity
        logits = torch.randn(6, vocab, generator=generator).mul(3)
        logits = logits.round() if trial % 2 else logits
        logits[torch.rand(6, vocab, generator=generator) < 0.1 * trial] = float("-inf")
        logits[:, 1] = 1.0
        totals = np.array([[0.0, -1.5], [-1.5, float("-inf")], [-3.0, -3.0]])
        rules = constraints([9, 9, 9], bos_id=0, eos_id=1, min_len=[0, 5, 9], banned=[0] if trial < 5 else [])
        expected = continuations(allowed_log_probs(logits, [(rules, np.zeros((6, 3), np.int64))]), totals, k)
        found = compiled_continuations(logits, rules, 3, totals, k)
        assert found is not None
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
        there = expected[2] >= 0
        assert (there == (found[2] >= 0)).all()
        for own, other in zip(found[1:], expected[1:], strict=True):
            assert (own[there] == other[there]).all()


def test_the_ranking_in_cpp_refuses_what_it_does_not_do():
    rules = constraints([9, 9], bos_id=0, eos_id=1, prefix=[[3], []])
    logits, totals = torch.randn(2, 70), np.zeros((2, 1))
    assert compiled_continuations(logits, rules, 0, totals, 2) is None
    assert compiled_continuations(logits.double(), rules, 1, totals, 2) is None
    assert compiled_continuations(logits[:1], rules, 1, totals, 2) is None
    for wrong in (float("nan"), float("inf")):
        bad = logits.clone()
        bad[1, 65] = wrong
        assert compiled_continuations(bad, rules, 1, totals, 2) is None
    logits[0] = float("-inf")
    assert compiled_continuations(logits, rules, 1, totals, 2) is None
