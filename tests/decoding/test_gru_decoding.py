"""The loops over a decoder with real state: what a hypothesis gets must not depend on how its row moved."""

import pytest
import torch
from devices import seeded
from torch import Tensor, nn
from toys import forced_scores

from headwise.caches import Cache
from headwise.decoding.beam import beam_search
from headwise.decoding.constraints import constraints
from headwise.decoding.sampling import greedy, sample

BOS, EOS, VOCAB, HIDDEN = 1, 2, 211, 13
IDS = {"bos_id": BOS, "eos_id": EOS}


class State(Cache):
    def __init__(self, hidden: Tensor):
        self.hidden, self.beams, self.sentences = hidden, 1, len(hidden)

    def expand(self, beams):
        self.beams = beams
        self.hidden = self.hidden.repeat_interleave(beams, 0)

    def reorder(self, index):
        self.hidden = self.hidden[index]

    def keep(self, sentences):
        self.hidden = self.hidden.unflatten(0, (-1, self.beams))[sentences].flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.cell = nn.GRUCell(HIDDEN, HIDDEN)
        self.output = nn.Linear(HIDDEN, VOCAB)
        with torch.no_grad():
            self.output.weight *= 9
            self.output.bias[EOS] += 6.0

    def step(self, tokens, cache):
        cache.hidden = self.cell(self.embedding(tokens), cache.hidden)
        cache.length += 1
        return self.output(cache.hidden)


@pytest.fixture
def decoder():
    return Recurrent()


@pytest.fixture
def hidden():
    return torch.randn(5, HIDDEN, generator=seeded(2))


def test_scores_are_those_of_forced_decoding(decoder, hidden):
    rules = constraints([9, 4, 15, 15, 1], no_repeat_ngram=3, **IDS)
    for i, hypotheses in enumerate(beam_search(decoder, State(hidden), rules, beam_size=4, n_best=4)):
        targets = [h.tokens + [EOS] * h.finished for h in hypotheses]
        forced = forced_scores(decoder, State(hidden[i].repeat(len(targets), 1)), targets, bos_id=BOS)
        assert [len(scores) for scores in forced] == [len(target) for target in targets]
        for hypothesis, scores in zip(hypotheses, forced, strict=True):
            assert hypothesis.log_prob == pytest.approx(sum(scores), abs=1e-5)


def test_batch_is_single_and_order_does_not_matter(decoder, hidden):
    options, rules = {"beam_size": 4, "n_best": 4}, constraints([12] * 5, **IDS)
    together = beam_search(decoder, State(hidden), rules, **options)
    reversed_ = beam_search(decoder, State(hidden.flip(0)), rules, **options)[::-1]
    alone = [beam_search(decoder, State(row[None]), constraints([12], **IDS), **options)[0] for row in hidden]
    assert len({len(h.tokens) for hypotheses in together for h in hypotheses}) > 2
    for a, b, c in zip(together, reversed_, alone, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b] == [h.tokens for h in c]
        torch.testing.assert_close([h.score for h in a], [h.score for h in c], rtol=0, atol=1e-5)


def test_one_beam_is_greedy_and_so_is_one_likely_token(decoder, hidden):
    rules = constraints([12] * 5, **IDS)
    best = greedy(decoder, State(hidden), rules)
    assert beam_search(decoder, State(hidden), rules, beam_size=1) == best
    assert sample(decoder, State(hidden), rules, top_k=1) == best


def test_no_graph_is_built(decoder, hidden):
    cache = State(hidden)
    greedy(decoder, cache, constraints([3] * 5, **IDS))
    assert cache.hidden.is_inference()
