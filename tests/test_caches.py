"""Caches against the obvious way: every hypothesis holds its own copy of everything, and copies are moved about."""

import pytest
import torch
from devices import seeded
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwise.caches import Ancestry, KeyValues, grown
from headwise.layers.inference import for_inference
from headwise.models import transformer_cache
from headwise.models.protocols import Memory
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig


class Walk(RuleBasedStateMachine):
    """Beams side by side with a table of ancestors, beside rows that are physically copied."""

    @initialize(batch=st.integers(1, 3), beams=st.integers(1, 4), shared=st.integers(0, 3))
    def start(self, batch, beams, shared):
        self.batch, self.beams, self.shared, self.steps, self.next = batch, beams, shared, 0, 0
        self.memory, self.bias = KeyValues(), None
        # rows[sentence][beam]: the numbers of the keys this hypothesis came by
        self.rows = [[[] for _ in range(beams)] for _ in range(batch)]
        for _ in range(shared):
            keys = self.stored(1)
            for rows, key in zip(self.rows, keys.flatten().tolist(), strict=True):
                for row in rows:
                    row.append(key)
        self.ancestry = Ancestry(batch, beams, shared, torch.get_default_device())

    def stored(self, beams):
        """Keys with new numbers, one for each beam, stored with their negatives as values."""
        keys = torch.arange(self.next, self.next + self.batch * beams).float().view(self.batch, 1, beams, 1)
        self.next += self.batch * beams
        all_keys, all_values = self.memory.append(keys, -keys)
        assert torch.equal(all_values, -all_keys)
        return keys

    @rule()
    def step(self):
        keys = self.stored(self.beams)
        self.bias = self.ancestry.step()
        for sentence in range(self.batch):
            for beam in range(self.beams):
                self.rows[sentence][beam].append(float(keys[sentence, 0, beam, 0]))
        self.steps += 1

    @rule(data=st.data())
    def reorder(self, data):
        index = [
            [data.draw(st.integers(0, self.beams - 1), label="from") for _ in range(self.beams)]
            for _ in range(self.batch)
        ]
        offsets = torch.arange(self.batch)[:, None] * self.beams
        self.ancestry.reorder((offsets + torch.tensor(index)).flatten())
        self.rows = [[list(rows[i]) for i in where] for rows, where in zip(self.rows, index, strict=True)]
        self.bias = None

    @precondition(lambda self: self.batch > 0)
    @rule(data=st.data())
    def keep(self, data):
        kept = data.draw(st.lists(st.integers(0, self.batch - 1), min_size=1, max_size=self.batch, unique=True))
        self.ancestry.keep(torch.tensor(kept))
        self.memory.keep(torch.tensor(kept))
        self.rows = [self.rows[sentence] for sentence in kept]
        self.batch, self.bias = len(kept), None

    @invariant()
    def each_beam_sees_its_own_past(self):
        if not getattr(self, "steps", 0):
            return
        table = self.ancestry._table[:, :, : self.ancestry.used]
        keys = self.memory.read()[0]
        stored = self.shared + self.steps * self.beams
        assert table.shape == (self.batch, self.beams, stored)
        assert self.memory.used == self.ancestry.used == stored
        for sentence in range(self.batch):
            for beam in range(self.beams):
                visible = table[sentence, beam] == 0
                assert bool(((table[sentence, beam] == float("-inf")) | visible).all())
                assert keys[sentence, 0, visible, 0].tolist() == self.rows[sentence][beam]
        if self.bias is not None:
            assert torch.equal(self.bias[:, 0], table)


Walk.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
TestWalk = Walk.TestCase


def test_keys_and_values_grow_by_doubling():
    torch.manual_seed(2)
    memory, keys, values, rooms = KeyValues(), [], [], []
    for size in (1, 2, 5, 1, 7, 3, 29, 1):
        keys.append(torch.randn(2, 3, size, 5))
        values.append(torch.randn(2, 3, size, 4))
        key, value = memory.append(keys[-1], values[-1])
        assert torch.equal(key, torch.cat(keys, 2))
        assert torch.equal(value, torch.cat(values, 2))
        rooms.append(memory.keys.shape[2])
    assert rooms == [16, 16, 16, 16, 16, 32, 64, 64]
    assert memory.used == 49


def test_first_room_fits_a_long_prefix():
    memory = KeyValues()
    memory.append(torch.zeros(1, 2, 23, 3), torch.zeros(1, 2, 23, 3))
    assert memory.keys.shape[2] == memory.values.shape[2] == 46


def test_reading_copies_nothing():
    memory = KeyValues()
    key, _ = memory.append(torch.ones(1, 2, 3, 5), torch.ones(1, 2, 3, 5))
    memory.keys[0, 0, 1] = 7
    assert key[0, 0, 1, 0] == 7


def test_filled_memory_is_kept_as_it_is():
    key, value = torch.randn(3, 2, 7, 5), torch.randn(3, 2, 7, 4)
    memory = KeyValues()
    memory.fill(key, value)
    assert memory.fixed
    assert memory.keys is key
    assert memory.values is value
    memory.keep(torch.tensor([2, 0]))
    assert torch.equal(memory.read()[0], key[[2, 0]])
    assert torch.equal(memory.read()[1], value[[2, 0]])


def test_keep_before_anything_is_stored():
    memory = KeyValues()
    memory.keep(torch.tensor([0]))
    assert memory.keys is None


def test_grown_holds_what_was_there():
    old = torch.randn(2, 3, 5)
    for dim in range(3):
        larger = grown(old, dim, 4)
        assert larger.shape[dim] == 2 * old.shape[dim]
        assert torch.equal(larger.narrow(dim, 0, old.shape[dim]), old)
    assert grown(old, 2, 100).shape == (2, 3, 100)


def test_one_table_serves_all_layers():
    config = TransformerConfig(d_model=12, d_ff=7, num_heads=3, encoder_layers=1, decoder_layers=3)
    torch.manual_seed(2)
    model, lens = build_transformer(config, 17, 17, joint=True).eval(), torch.tensor([3, 2])
    with torch.inference_mode():
        cache = model.decoder.start(model.encoder(torch.full((2, 3), 5), lens), lens)
        model.decoder.step(torch.full((2,), 6), cache)
        cache.expand(2)
        for _ in range(3):
            model.decoder.step(torch.full((4,), 6), cache)
    # one step that the beams share, then two keys a step
    assert cache.ancestry.used == 7
    assert [own.used for own, _ in cache.layers] == [7, 7, 7]


def decoder(**changes):
    config = TransformerConfig(
        d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=2, dropout=0.0, **changes
    )
    return build_transformer(config, 11, 11, joint=False).eval()


def stepped(model, beams, steps=4):
    """The logits of these steps, of beams that part after the first and change places."""
    generator = seeded(5)
    cache = model.decoder.start(Memory(torch.randn(2, 3, 8, generator=generator)), torch.tensor([3, 2]))
    found = [model.decoder.step(torch.tensor([4, 5]), cache)]
    cache.expand(beams)
    for _ in range(steps):
        found.append(model.decoder.step(torch.randint(4, 11, (2 * beams,), generator=generator), cache))
        rows = torch.randint(beams, (2, beams), generator=generator) + torch.arange(2)[:, None] * beams
        cache.reorder(rows.flatten())
    cache.keep(torch.tensor([1]))
    found.append(model.decoder.step(torch.randint(4, 11, (beams,), generator=generator), cache))
    return found


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "t5"])
@torch.no_grad()
def test_many_hypotheses_have_rows_of_their_own(monkeypatch, position):
    """What they compute is what they compute side by side."""
    torch.manual_seed(3)
    model = decoder(position=position)
    for each in (model, for_inference(model)):
        together = stepped(each, 5)
        with monkeypatch.context() as patch:
            patch.setattr(transformer_cache, "SIDE_BY_SIDE", 2)
            apart = stepped(each, 5)
        for one, two in zip(together, apart, strict=True):
            torch.testing.assert_close(one, two)


@torch.no_grad()
def test_memory_of_many_hypotheses_is_linear_in_their_number():
    """20,000 side by side asked for 25.6 GB."""
    model = decoder()
    cache = model.decoder.start(Memory(torch.randn(1, 3, 8)), torch.tensor([3]))
    model.decoder.step(torch.tensor([4]), cache)
    cache.expand(20_000)
    assert cache.ancestry is None
    model.decoder.step(torch.randint(4, 11, (20_000,)), cache)
    stored = sum(own.keys.numel() + own.values.numel() for own, _ in cache.layers)
    assert stored <= 2 * 2 * 20_000 * 8 * 2 * caches_room(2)


def caches_room(steps):
    """Steps for which there is room after so many."""
    return max(16, 2 * steps)
