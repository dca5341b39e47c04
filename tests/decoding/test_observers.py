"""An observer of a search sees every step: what was continued, what goes on, what ended; and changes nothing."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from toys import EOS, Logits, Prefixes, Table, rules_for

from headwise.decoding.beam import beam_search
from headwise.decoding.hypotheses import observe_search
from headwise.decoding.sampling import greedy, sample

LIMITS = [6, 2, 5]


def sentences():
    return [Logits(seed, 5) for seed in range(3)]


def beam():
    return beam_search(Table(sentences()), Prefixes(3), rules_for(range(3), LIMITS), beam_size=3, n_best=3)


def follow():
    return greedy(Table(sentences()), Prefixes(3), rules_for(range(3), LIMITS))


def drawn():
    generator = torch.Generator().manual_seed(5)
    return sample(Table(sentences()), Prefixes(3), rules_for(range(3), LIMITS), num_samples=4, generator=generator)


def alive(partial):
    rows = zip(partial.sentences.tolist(), partial.tokens.tolist(), partial.totals.tolist(), strict=True)
    return {(sentence, *tokens): total for sentence, tokens, total in rows if total > float("-inf")}


def log_prob(key):
    sentence, *tokens = key
    logits = sentences()[sentence]
    return sum(float(logits((0, *tokens[:at])).log_softmax(0)[token]) for at, token in enumerate(tokens))


@pytest.mark.parametrize("search", [beam, follow, drawn])
def test_every_step_goes_on_from_the_one_before(search):
    steps = []
    with observe_search(steps.append):
        results = search()
    assert results == search()
    assert [step.step for step in steps] == list(range(len(steps)))
    assert alive(steps[0].before) == {(0,): 0.0, (1,): 0.0, (2,): 0.0}
    for step, following in pairwise(steps):
        after = alive(step.after)
        # what is continued went on, and with the same log-probability
        assert all(after[key] == total for key, total in alive(following.before).items())
    for step in steps:
        parents = alive(step.before)
        for key, total in alive(step.after).items():
            assert key[:-1] in parents
            assert total == pytest.approx(log_prob(key))
        for sentence, ended in step.ended:
            key = (sentence, *ended.tokens)
            assert (key in parents) if ended.finished else (key[:-1] in parents)
            assert ended.log_prob == pytest.approx(log_prob((*key, EOS) if ended.finished else key))
    for sentence, hypotheses in enumerate(results):
        ended = [hypothesis for step in steps for index, hypothesis in step.ended if index == sentence]
        assert all(hypothesis in ended for hypothesis in hypotheses)


def test_steps_are_copies():
    steps = []

    def observer(step):
        steps.append((step, step.before.tokens.copy(), step.after.totals.copy()))

    with observe_search(observer):
        beam()
    for step, tokens, totals in steps:
        np.testing.assert_array_equal(step.before.tokens, tokens)
        np.testing.assert_array_equal(step.after.totals, totals)


def test_an_outer_observer_is_called_first_and_may_end_the_search():
    calls = []

    def outer(step):
        calls.append("outer")
        if step.step == 1:
            raise TimeoutError

    with observe_search(outer), observe_search(lambda _: calls.append("inner")), pytest.raises(TimeoutError):
        follow()
    assert calls == ["outer", "inner", "outer"]
    calls.clear()
    with observe_search(outer):
        with observe_search(lambda _: calls.append("inner")):
            pass
        with pytest.raises(TimeoutError):
            follow()
    assert calls == ["outer", "outer"]
