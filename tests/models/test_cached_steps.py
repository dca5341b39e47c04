"""Step by step with a cache is all at once: every kind of model, beams that change places, sentences that leave."""

import pytest
import torch
from devices import seeded

LENS = torch.tensor([7, 3, 5])
KINDS = [
    {"norm_order": norm, "position": position, "num_kv_heads": kv_heads, "activation": activation, "d_model": 18}
    for norm in ("pre", "post")
    for position in ("sinusoidal", "rotary", "learned", "none")
    for kv_heads, activation in ((None, "relu"), (1, "swiglu"))
]
BARE = {"norm": "rms", "residual": False, "d_ff": 0}
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def walk(model, memory, beams, steps, keeps, shared=0, seed=9):
    """Checks each step of a random walk of hypotheses against a full pass over what each of them holds.

    The hypotheses of a sentence part after `shared` steps; `keeps` says after which steps which sentences stay.
    """
    generator = seeded(seed)
    sentences = torch.arange(3)
    cache = model.decoder.start(memory, LENS)
    held, width = torch.empty(3, 0, dtype=torch.int64), 1
    for step in range(steps):
        if step == shared:
            cache.expand(beams)
            held, width = held.repeat_interleave(beams, 0), beams
        new = torch.randint(4, 19, (len(held),), generator=generator)
        logits = model.decoder.step(new, cache)
        held = torch.cat([held, new[:, None]], 1)
        rows = sentences.repeat_interleave(width)
        states = memory._replace(states=memory.states[rows])
        torch.testing.assert_close(logits, model.decoder(held, states, LENS[rows])[:, -1], **EXACT)
        assert cache.length == step + 1
        own = torch.arange(len(sentences))[:, None] * width
        index = (own + torch.randint(width, (len(sentences), width), generator=generator)).flatten()
        cache.reorder(index)
        held = held[index]
        if step in keeps:
            kept = torch.tensor(keeps[step])
            cache.keep(kept)
            held, sentences = held.unflatten(0, (-1, width))[kept].flatten(0, 1), sentences[kept]


@pytest.mark.parametrize("options", [*KINDS, BARE])
@pytest.mark.parametrize(("beams", "shared"), [(1, 0), (3, 0), (3, 1), (2, 3)])
@torch.no_grad()
def test_cached_is_full(build, tokens, options, beams, shared):
    model = build(**options)
    walk(model, model.encoder(tokens(3, 7), LENS), beams, 6, {1: [2, 0], 4: [1]}, shared)


@pytest.mark.parametrize(("beams", "shared"), [(1, 0), (2, 0), (2, 1), (3, 17)])
@torch.no_grad()
def test_cached_is_full_while_the_cache_grows(build, tokens, beams, shared):
    # room for 16 steps at first, then 32, then 64
    model = build(position="rotary", d_model=18, encoder_layers=1, decoder_layers=1)
    walk(model, model.encoder(tokens(3, 7), LENS), beams, 35, {2: [0, 2], 20: [1]}, shared)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-1)])
@torch.no_grad()
def test_narrow_numbers(build, tokens, dtype, tolerance):
    model, tgt = build(dtype=dtype, spread=1.0), tokens(3, 11, seed=6)
    memory = model.encoder(tokens(3, 7), LENS)
    cache = model.decoder.start(memory, LENS)
    steps = torch.stack([model.decoder.step(column, cache) for column in tgt.unbind(1)], 1)
    torch.testing.assert_close(steps, model.decoder(tgt, memory, LENS), rtol=0, atol=tolerance)


@torch.no_grad()
def test_uninitialised_room_is_never_read(build, tokens):
    # in this mode new memory is filled with NaN
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        model = build(encoder_layers=1)
        walk(model, model.encoder(tokens(3, 7), LENS), 3, 19, {2: [0, 2]})
    finally:
        torch.use_deterministic_algorithms(before)


@torch.no_grad()
def test_beams_are_made_once(build, tokens):
    model = build()
    cache = model.decoder.start(model.encoder(tokens(3, 7), LENS), LENS)
    cache.expand(2)
    with pytest.raises(AssertionError, match="beams are made once"):
        cache.expand(2)


@torch.no_grad()
def test_memory_is_projected_once_and_shared_by_beams(build, tokens):
    model = build()
    cache = model.decoder.start(model.encoder(tokens(3, 7), LENS), LENS)
    held = [cross.keys for _, cross in cache.layers]
    cache.expand(5)
    model.decoder.step(tokens(15), cache)
    assert all(cross.keys is keys and keys.shape[0] == 3 for (_, cross), keys in zip(cache.layers, held, strict=True))


@torch.no_grad()
def test_a_source_without_tokens(build, tokens):
    model, lens = build(), torch.tensor([7, 0, 3])
    memory, tgt = model.encoder(tokens(3, 7), lens), tokens(3, 5, seed=6)
    cache = model.decoder.start(memory, lens)
    steps = torch.stack([model.decoder.step(column, cache) for column in tgt.unbind(1)], 1)
    torch.testing.assert_close(steps, model.decoder(tgt, memory, lens), **EXACT)
