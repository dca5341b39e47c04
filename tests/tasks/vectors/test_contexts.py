"""Windows around words and words drawn against them, compared with plain loops; the order and place of batches."""

import numpy as np
import pytest
import torch

from headwise.data.buckets import random_bits
from headwise.data.sources import Limits
from headwise.data.streams import Text
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.errors import DataError
from headwise.tasks.text.plain import text_of, word_counts
from headwise.tasks.vectors.contexts import (
    LONGEST_LINE,
    ContextConfig,
    Lines,
    Noise,
    Windows,
    context_source,
    kept_shares,
)

LINES = ["a b c d e a\n", "\n", "b\n", "x y a b a c a d b e\n", "c a rare b\n", "e d c b a\n"] * 3


@pytest.fixture
def tokenizer():
    return Tokenizer.train(LINES, TokenizerConfig(kind="word", min_frequency=6))


@pytest.fixture
def make(tokenizer):
    text = text_of(LINES, tokenizer)
    counts = word_counts(text, tokenizer.vocab_size)

    def made(kind="skip-gram", seed=5, **options):
        config = ContextConfig(**{"window": 3, "negatives": 2, "subsample": 0.0} | options)
        return Windows(Lines(text), counts, config, kind, seed)

    return made


def uniform(place, seed, stream):
    return (int(random_bits(np.array([place], dtype=np.uint64), seed, stream)[0]) >> 11) / 2**53


def looped(windows, epoch):
    """(line, inputs, right word) of every target, as the definition says."""
    lines, config, found = windows.lines, windows.config, []
    counts = word_counts(Text(lines.tokens, 1), 99)
    kept = kept_shares(counts, config.subsample)
    for number, (start, length) in enumerate(zip(lines.starts, lines.lengths, strict=True)):
        words = [(place, int(lines.tokens[place])) for place in range(start, start + length)]
        words = [(p, w) for p, w in words if w >= 4 and uniform(p, windows.seed, 4 * epoch) < kept[w]]
        for at, (place, word) in enumerate(words):
            reach = 1 + int(uniform(place, windows.seed, 4 * epoch + 1) * config.window)
            around = [words[n][1] for n in range(at - reach, at + reach + 1) if n != at and 0 <= n < len(words)]
            if windows.kind == "skip-gram":
                found += [(number, [word], other) for other in around]
            elif around:
                found.append((number, around, word))
    return found


@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
@pytest.mark.parametrize("subsample", [0.0, 0.05])
def test_targets_are_those_of_a_loop(make, kind, subsample):
    windows = make(kind, subsample=subsample)
    everything = list(range(len(windows.lines)))
    wanted = looped(windows, 2)
    batch = windows.batch(everything, 2)
    inputs = [row[known].tolist() for row, known in zip(batch.inputs, batch.given, strict=True)]
    assert list(zip(inputs, batch.outputs[:, 0].tolist(), strict=True)) == [(a, b) for _, a, b in wanted]
    assert batch.num_tokens == len(wanted) > 30
    assert batch.inputs[~batch.given].eq(Tokenizer.pad_id).all()
    # what is drawn is never special, and does not count where it is the right word
    assert int(batch.outputs.min()) >= 4
    assert torch.equal(batch.counted[:, 1:], batch.outputs[:, 1:] != batch.outputs[:, :1])
    assert batch.counted[:, 0].all()
    assert not batch.counted.all()


@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
def test_a_line_is_the_same_in_every_batch(make, kind):
    windows = make(kind, subsample=0.05)
    together = windows.batch([3, 0, 5], 1)
    alone = [windows.batch([line], 1) for line in (3, 0, 5)]
    for name in ("inputs", "given", "outputs", "counted"):
        assert torch.equal(getattr(together, name), torch.cat([getattr(one, name) for one in alone]))
    assert not torch.equal(windows.batch([3], 1).outputs, windows.batch([3], 2).outputs)
    assert not torch.equal(make(kind, seed=6).batch([3], 1).outputs, windows.batch([3], 1).outputs)


def test_a_line_without_pairs_gives_an_empty_batch(make):
    batch = make().batch([1], 0)
    assert batch.num_tokens == 0
    assert batch.outputs.shape == (0, 3)
    assert make("cbow").batch([1], 0).inputs.shape == (0, 6)


def test_noise_has_exactly_the_probabilities_of_counts_to_a_power():
    counts = np.array([0, 0, 0, 0, 90, 1, 25, 0, 4])
    noise = Noise(counts, 0.75)
    shares = noise.accept.copy()
    for column, other in enumerate(noise.alias):
        shares[other] += 1 - noise.accept[column] if other != column else 0.0
    wanted = np.where(counts > 0, counts**0.75, 0.0)
    np.testing.assert_allclose(shares / len(counts), wanted / wanted.sum(), atol=1e-12)
    drawn = noise.draw(random_bits(np.arange(20_000, dtype=np.uint64), 1, 2))
    np.testing.assert_allclose(np.bincount(drawn, minlength=9) / 20_000, wanted / wanted.sum(), atol=0.015)
    flat = Noise(counts, 0.0).draw(random_bits(np.arange(4_000, dtype=np.uint64), 1, 2))
    assert set(flat.tolist()) == {4, 5, 6, 8}
    with pytest.raises(DataError, match="no word has a count, so there is none to draw"):
        Noise(np.zeros(5, dtype=np.int64), 0.75)


def test_frequent_words_are_left_out_by_the_formula():
    counts = np.array([0, 0, 0, 0, 9000, 990, 10])
    # sqrt(t / f) + t / f with t = 0.001: f = 0.9, 0.099, 0.001
    np.testing.assert_allclose(kept_shares(counts, 1e-3)[4:], [0.033333 + 0.001111, 0.100504 + 0.010101, 1], atol=1e-6)
    assert kept_shares(counts, 0.0).tolist() == [1.0] * 7


def test_lines_end_at_line_ends_and_long_ones_are_cut(tokenizer):
    lines = Lines(text_of(LINES, tokenizer))
    assert lines.lengths.tolist() == [6, 1, 10, 4, 5] * 3
    long = Lines(text_of(["a b " * LONGEST_LINE + "a\n", "c\n"], tokenizer))
    assert long.lengths.tolist() == [LONGEST_LINE, LONGEST_LINE, 1, 1]
    assert long.starts.tolist() == [1, 1 + LONGEST_LINE, 1 + 2 * LONGEST_LINE, 3 + 2 * LONGEST_LINE]
    assert len(Lines(text_of(["\n", "\n"], tokenizer))) == 0


def test_batches_hold_every_line_once_and_resume(make):
    def drawn(**limits):
        return context_source(make(), Limits(12, seed=3, **limits), shuffle=True)

    source = drawn()
    batches = list(source.once())
    assert sorted(line for batch in batches for line in batch.indices) == list(range(15))
    lengths = make().lines.lengths
    # a line begins within the budget
    assert all(sum(lengths[batch.indices[:-1]]) < 12 for batch in batches)
    assert len(batches) == source.size() > 3
    again = drawn()
    again.restore({"epoch": 0, "position": 2}, {})
    for one, two in zip(batches[2:], again.once(), strict=True):
        assert one.indices == two.indices
        assert torch.equal(one.outputs, two.outputs)
    second = list(source.once())
    assert [batch.indices for batch in second] != [batch.indices for batch in batches]
    assert {len(batch.indices) for batch in drawn(sentences=1).once()} == {1}
    assert sum(len(batch.indices) for batch in drawn(examples=4).once()) == 4


def test_evaluation_draws_the_same_in_every_pass(make):
    source = context_source(make(subsample=0.05), Limits(12), shuffle=False)
    passes = [list(source.once()) for _ in range(2)]
    assert [batch.indices for batch in passes[0]] == [batch.indices for batch in passes[1]]
    assert all(torch.equal(one.outputs, two.outputs) for one, two in zip(*passes, strict=True))
