"""Whoever watches a search is told all of it: what was continued, what goes on, what ended; and changes nothing."""

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
    return {(place, *tokens): total for place, tokens, total in rows if total > float("-inf")}


def log_prob(key):
    place, *tokens = key
    logits = sentences()[place]
    return sum(float(logits((0, *tokens[:at])).log_softmax(0)[token]) for at, token in enumerate(tokens))


@pytest.mark.parametrize("search", [beam, follow, drawn])
def test_every_step_goes_on_from_the_one_before(search):
    told = []
    with observe_search(told.append):
        found = search()
    assert found == search()
    assert [one.step for one in told] == list(range(len(told)))
    assert alive(told[0].before) == {(0,): 0.0, (1,): 0.0, (2,): 0.0}
    for one, then in pairwise(told):
        known = alive(one.after)
        # what is continued went on, and with the same log-probability
        assert all(known[key] == total for key, total in alive(then.before).items())
    for one in told:
        parents = alive(one.before)
        for key, total in alive(one.after).items():
            assert key[:-1] in parents
            assert total == pytest.approx(log_prob(key))
        for place, ended in one.ended:
            key = (place, *ended.tokens)
            assert (key in parents) if ended.finished else (key[:-1] in parents)
            assert ended.log_prob == pytest.approx(log_prob((*key, EOS) if ended.finished else key))
    for place, hypotheses in enumerate(found):
        ended = [hypothesis for one in told for where, hypothesis in one.ended if where == place]
        assert all(hypothesis in ended for hypothesis in hypotheses)


def test_what_is_told_stays_as_it_was():
    told = []

    def watcher(found):
        told.append((found, found.before.tokens.copy(), found.after.totals.copy()))

    with observe_search(watcher):
        beam()
    for found, tokens, totals in told:
        np.testing.assert_array_equal(found.before.tokens, tokens)
        np.testing.assert_array_equal(found.after.totals, totals)


def test_who_watches_already_is_told_first_and_may_end_the_search():
    told = []

    def outer(found):
        told.append("outer")
        if found.step == 1:
            raise TimeoutError

    with observe_search(outer), observe_search(lambda _: told.append("inner")), pytest.raises(TimeoutError):
        follow()
    assert told == ["outer", "inner", "outer"]
    told.clear()
    with observe_search(outer):
        with observe_search(lambda _: told.append("inner")):
            pass
        with pytest.raises(TimeoutError):
            follow()
    assert told == ["outer", "outer"]
