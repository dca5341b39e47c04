"""Searches that share their steps find what each finds alone, whenever it joins."""

import pytest
import torch
from toys import Logits, Prefixes, Table, rules_for

from headwise.decoding.beam import BeamSearch, Flow, Member, beam_search, take_all
from headwise.decoding.constraints import constraints
from headwise.errors import Diverged, ShapeError
from headwise.layers.inference import for_inference
from headwise.models.protocols import Decoder
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent

VOCAB, SIZES = 23, {"d_model": 24, "d_ff": 20, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 2}
MODELS = {
    "plain": {},
    "rotary, grouped": {"position": "rotary", "num_kv_heads": 2, "norm_order": "post"},
    "swiglu": {"activation": "swiglu", "position": "learned"},
    "alibi": {"position": "alibi"},
    "relative": {"position": "transformer_xl"},
    "states": {"decoder_mechanism": "linear", "position": "none"},
    "recurrent": None,
}


class Several(Table):
    """Tables of several searches, by their caches."""

    def __init__(self, tables):
        self.tables = tables

    def step_all(self, tokens, caches, beside):
        beside()
        return torch.cat([self.tables[cache].step(own, cache) for own, cache in zip(tokens, caches, strict=True)])


def model_of(name):
    torch.manual_seed(7)
    if MODELS[name] is None:
        model = build_recurrent(RecurrentConfig(embed_dim=12, hidden_dim=16), VOCAB, VOCAB)
    else:
        model = build_transformer(TransformerConfig(**SIZES, **MODELS[name]), VOCAB, VOCAB, joint=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.double().eval()


def begun(model, lengths, seed, **options):
    """A search of sentences of these lengths, and the function that makes it anew."""
    src = torch.randint(4, VOCAB, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    lens = torch.tensor(lengths)

    def start():
        rules = constraints([3 + 2 * length for length in lengths], bos_id=1, eos_id=2, banned=[0])
        return BeamSearch(model.decoder.start(model.encoder(src, lens), lens), rules, **options)

    return start


def alone(model, search):
    while search.open:
        take_all([search], model.decoder.step(search.tokens(), search.cache))
    return search.results()


def same(one, other):
    assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-10)


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_whoever_joins_finds_what_it_finds_alone(name, twin):
    model = model_of(name)
    model = for_inference(model) if twin else model
    makers = [
        begun(model, [5, 2, 7], 1, beam_size=3, n_best=2),
        begun(model, [1], 2, beam_size=1),
        begun(model, [4, 4], 3, beam_size=5, n_best=5),
        begun(model, [6, 3, 3, 8], 4, beam_size=3),
    ]
    joins, flow, found, step = {0: [0], 2: [1, 2], 5: [3]}, Flow(model.decoder), {}, 0
    while step <= max(joins) or len(flow):
        for number in joins.get(step, []):
            search = makers[number]()
            flow.join(Member(search, [(number, place) for place in range(search.open)], 1))
        for sentence, hypotheses in flow.step():
            assert sentence not in found
            found[sentence] = hypotheses
        step += 1
    for number, make in enumerate(makers):
        for place, hypotheses in enumerate(alone(model, make())):
            same(found.pop((number, place)), hypotheses)
    assert not found


def test_a_sentence_is_told_as_soon_as_it_is_done():
    sentences = [Logits(seed, 7) for seed in range(4)]
    search = BeamSearch(Prefixes(4), rules_for(sentences, [1, 3, 3, 6], min_len=[1, 3, 3, 6]), beam_size=2)
    flow = Flow(Several({search.cache: Table(sentences)}))
    flow.join(Member(search, "abcd", 2))
    told = []
    while len(flow):
        assert flow.tokens == 2 * len(flow)
        told.append([name for name, _ in flow.step()])
    assert told == [["a"], [], ["b", "c"], [], [], ["d"]]
    assert flow.step() == []


def test_who_is_dropped_leaves_with_the_next_step_and_the_others_find_the_same():
    sentences = [Logits(seed, 7) for seed in range(3)]
    rules = rules_for(sentences, 6, min_len=[6, 6, 6])
    search = BeamSearch(Prefixes(3), rules, beam_size=2)
    flow = Flow(Several({search.cache: Table(sentences)}))
    flow.join(Member(search, [10, 11, 12], 1))
    assert flow.step() == []
    flow.drop({11, 99})
    assert flow.step() == []
    assert len(flow) == 2
    found = {}
    while len(flow):
        found |= flow.step()
    expected = beam_search(Table(sentences), Prefixes(3), rules, beam_size=2)
    assert found == {10: expected[0], 12: expected[2]}


def test_numbers_that_are_not_finite_are_told():
    sentences = [Logits(1, 5), lambda prefix: torch.full((5,), float("nan"))]
    searches = [BeamSearch(Prefixes(1), rules_for([one], 4), beam_size=2) for one in sentences]
    tables = {search.cache: Table([one]) for search, one in zip(searches, sentences, strict=True)}
    flow = Flow(Several(tables))
    for search in searches:
        flow.join(Member(search, [0], 1))
    with pytest.raises(Diverged):
        flow.step()


def test_every_decoder_has_a_joint_step():
    class Slow(Decoder):
        def hidden(self, tokens, memory, memory_lens): ...

        def start(self, memory, memory_lens): ...

        def step(self, tokens, cache):
            return torch.stack([tokens * 1.0, tokens + cache.sentences * 10.0], 1)

    found = Slow().step_all([torch.tensor([1, 2]), torch.tensor([5])], [Prefixes(1), Prefixes(2)])
    assert found.tolist() == [[1, 11], [2, 12], [5, 25]]


def test_rows_that_nobody_asked_for_are_refused_at_every_step():
    search = BeamSearch(Prefixes(1), rules_for([0], 6), beam_size=2)
    take_all([search], torch.zeros(1, 9, requires_grad=True))
    with pytest.raises(ShapeError, match="the decoder returned 3 rows of logits for 2 tokens"):
        take_all([search], torch.zeros(3, 9))
