"""Trains the course book's translator twice, interleaved in one process on one thread: with d2l's pieces and with ours.

    python benchmarks/bahdanau.py --data fra-eng.tsv.gz              # speed, in CPU time
    python benchmarks/bahdanau.py --data fra-eng.tsv.gz --quality    # and the four sentences, over three seeds

The peer is d2l 1.0.3: `pip install --no-deps d2l==1.0.3`. Its encoder, additive attention, loss and clipping are used
as they are; the decoder that the package lacks is written here after the book.
"""

import argparse
import importlib.machinery
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import torch
from torch import Tensor, nn

from headwise import runtime
from headwise.data.buckets import token_batches
from headwise.data.files import read_lines
from headwise.decoding.constraints import constraints
from headwise.decoding.sampling import greedy
from headwise.layers.loss import output_loss
from headwise.metrics import textbook_bleu
from headwise.models.protocols import Seq2Seq
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent
from headwise.training import numerics

# the recipe of the book, section 10.4
PAIRS, STEPS, BATCH, EPOCHS = 600, 10, 64, 250
EMBED, HIDDEN, LAYERS, DROPOUT, RATE, CLIP = 32, 32, 2, 0.1, 0.005, 1.0
PAD, BOS, EOS, UNK = range(4)
SENTENCES = {
    "go .": "va !",
    "i lost .": "j'ai perdu .",
    "he's calm .": "il est calme .",
    "i'm home .": "je suis chez moi .",
}


class Vocabulary:
    """Words seen at least twice, the most frequent first."""

    def __init__(self, lines: list[list[str]]):
        counts = Counter(word for line in lines for word in line)
        kept = [word for word, count in counts.most_common() if count >= 2]
        self.words = ["<pad>", "<bos>", "<eos>", "<unk>", *kept]
        self.number = {word: number for number, word in enumerate(self.words)}

    def rows(self, lines: list[list[str]]) -> tuple[Tensor, Tensor]:
        """Token numbers, ended and cut to STEPS, and their lengths."""
        cut = [[*(self.number.get(word, UNK) for word in line), EOS][:STEPS] for line in lines]
        return torch.tensor([row + [PAD] * (STEPS - len(row)) for row in cut]), torch.tensor([len(row) for row in cut])


@dataclass
class Corpus:
    """The first pairs of the file as the book prepares them."""

    src_vocab: Vocabulary
    tgt_vocab: Vocabulary
    arrays: tuple[Tensor, Tensor, Tensor, Tensor]

    @classmethod
    def read(cls, path: Path) -> "Corpus":
        pairs = [line.split("\t")[:2] for _, line in islice(read_lines(path), PAIRS)]
        src, tgt = ([words(pair[side]) for pair in pairs] for side in (0, 1))
        source, target = Vocabulary(src), Vocabulary(tgt)
        return cls(source, target, (*source.rows(src), *target.rows(tgt)))

    def batches(self, epoch: int, sorted_by_length: bool) -> Iterator[list[Tensor]]:
        """One epoch in random order, or of sentences of like length in batches of random order."""
        if sorted_by_length:
            lengths = torch.stack([self.arrays[1], self.arrays[3]], 1).numpy()
            chosen = token_batches(lengths, max_tokens=BATCH * STEPS, max_sentences=BATCH, epoch=epoch)
        else:
            order = torch.randperm(len(self.arrays[0]), generator=torch.Generator().manual_seed(epoch))
            chosen = [part.tolist() for part in order.split(BATCH)]
        for batch in chosen:
            yield [array[batch] for array in self.arrays]

    @property
    def target_tokens(self) -> int:
        """Real target tokens of an epoch."""
        return int(self.arrays[3].sum())


def words(text: str) -> list[str]:
    """Lower case, no-break spaces as spaces, punctuation apart."""
    text = text.replace("\u202f", " ").replace("\xa0", " ").lower()
    for mark in ",.!?":
        text = text.replace(mark, f" {mark}")
    return text.split()


class Ours:
    """Headwise's model, loss and clipping in a plain loop.

    Batches are cut to their longest sentence, or padded to STEPS as the book's are; their order is random, as the
    book's, or sentences of like lengths go together.
    """

    def __init__(self, corpus: Corpus, seed: int, cut: bool = True, sorted_by_length: bool = False):
        torch.manual_seed(seed)
        config = RecurrentConfig(embed_dim=EMBED, hidden_dim=HIDDEN, num_layers=LAYERS, dropout=DROPOUT)
        self.cut, self.sorted_by_length = cut, sorted_by_length
        self.model: Seq2Seq = build_recurrent(config, len(corpus.src_vocab.words), len(corpus.tgt_vocab.words))
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=RATE, fused=True)

    def step(self, src: Tensor, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> float:
        """One update; returns the loss summed over tokens."""
        if self.cut:
            src, tgt = src[:, : int(src_lens.max())], tgt[:, : int(tgt_lens.max())]
        tgt_in = torch.cat([torch.full_like(tgt[:, :1], BOS), tgt[:, :-1]], 1)
        real = (torch.arange(tgt.shape[1]) < tgt_lens[:, None]).flatten().nonzero().squeeze(1)
        decoder = self.model.decoder
        hidden = decoder.hidden(tgt_in, self.model.encoder(src, src_lens), src_lens).flatten(0, 1)
        loss = output_loss(decoder.output, hidden.index_select(0, real), tgt.flatten()[real]) / STEPS
        loss.backward()
        gradients = numerics.gradients(self.parameters)
        value, norm = numerics.read_together(loss.detach(), numerics.global_norm(gradients))
        numerics.clip(self.parameters, norm, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return value * STEPS


def book_decoder(d2l: Any, vocab_size: int) -> nn.Module:
    """The decoder of the book's section 10.4: one query a step, the context beside the embedding."""

    class AttentiveDecoder(d2l.Decoder):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.attention = d2l.AdditiveAttention(HIDDEN, DROPOUT)
            self.embedding = nn.Embedding(vocab_size, EMBED)
            self.rnn = nn.GRU(EMBED + HIDDEN, HIDDEN, LAYERS, dropout=DROPOUT)
            self.dense = nn.LazyLinear(vocab_size)

        def init_state(self, encoded: tuple[Tensor, Tensor], lens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            outputs, state = encoded
            return outputs.transpose(0, 1), state, lens

        def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Any]:
            memory, hidden, lens = state
            outputs = []
            for x in self.embedding(tokens).transpose(0, 1):
                context = self.attention(hidden[-1].unsqueeze(1), memory, memory, lens)
                out, hidden = self.rnn(torch.cat((context, x.unsqueeze(1)), -1).transpose(0, 1), hidden)
                outputs.append(out)
            return self.dense(torch.cat(outputs)).transpose(0, 1), (memory, hidden, lens)

    return AttentiveDecoder()


class Book:
    """d2l's encoder, attention, loss and clipping, in its loop."""

    sorted_by_length = False

    def __init__(self, d2l: Any, corpus: Corpus, seed: int):
        torch.manual_seed(seed)
        self.d2l = d2l
        encoder = d2l.Seq2SeqEncoder(len(corpus.src_vocab.words), EMBED, HIDDEN, LAYERS, DROPOUT)
        self.model = d2l.EncoderDecoder(encoder, book_decoder(d2l, len(corpus.tgt_vocab.words)))
        self.model(*(corpus.arrays[place][:2] for place in (0, 2, 1)))
        self.model.apply(d2l.init_seq2seq)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE)
        self.loss = d2l.MaskedSoftmaxCELoss()

    def step(self, src: Tensor, src_lens: Tensor, tgt: Tensor, tgt_lens: Tensor) -> float:
        self.optimizer.zero_grad()
        bos = torch.tensor([BOS] * tgt.shape[0]).reshape(-1, 1)
        loss = self.loss(self.model(src, torch.cat([bos, tgt[:, :-1]], 1), src_lens), tgt, tgt_lens)
        loss.sum().backward()
        self.d2l.grad_clipping(self.model, CLIP)
        self.optimizer.step()
        return loss.sum().item() * STEPS


def load_peer() -> Any | None:
    """d2l, with empty stand-ins for what it imports and this benchmark does not need; None, said aloud, if it fails."""
    if importlib.util.find_spec("d2l") is None:
        print("peer skipped: d2l is not installed; pip install --no-deps d2l==1.0.3")
        return None
    for name in ("torchvision", "PIL", "pandas", "requests", "IPython", "matplotlib_inline", "scipy", "gym"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules |= {name: _Stub(name), f"{name}.spatial": _Stub(name)}
    try:
        return importlib.import_module("d2l.torch")
    except ImportError as error:
        print(f"peer skipped: d2l cannot be imported ({error}); pip install --no-deps d2l==1.0.3")
        return None


class _Stub(ModuleType):
    """A module in which every name is there and means nothing."""

    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


def epoch(trainer: Any, corpus: Corpus, number: int) -> tuple[float, float]:
    """(CPU seconds, loss a token) of one pass over the corpus."""
    started = process_time()
    # as `train` does
    with runtime.products_for(trainer.model):
        total = sum(trainer.step(*batch) for batch in corpus.batches(number, trainer.sorted_by_length))
    return process_time() - started, total / corpus.target_tokens


def compare(corpus: Corpus, rounds: int) -> None:
    """Speed: epochs of every variant in turn."""
    trainers: dict[str, Any] = {
        "headwise": Ours(corpus, 0),
        "headwise, like lengths": Ours(corpus, 0, sorted_by_length=True),
        "headwise, all padded": Ours(corpus, 0, cut=False),
    }
    d2l = load_peer()
    if d2l is not None:
        trainers["d2l"] = Book(d2l, corpus, 0)
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    losses = {}
    for number in range(rounds + 1):
        for name, trainer in trainers.items():
            spent, losses[name] = epoch(trainer, corpus, number)
            # the first round warms up
            seconds[name] += [spent] * (number > 0)
    for name, spent in seconds.items():
        median = statistics.median(spent)
        update = 1e3 * median / -(-PAIRS // BATCH)
        line = f"{name:<23} {corpus.target_tokens / median:7,.0f} target tokens / CPU s  {update:6.2f} ms / update"
        line += f"  {EPOCHS * median:5.1f} s / {EPOCHS} epochs  loss {losses[name]:.3f} after {rounds + 1}"
        if d2l is not None:
            ratio = statistics.median(b / a for a, b in zip(spent, seconds["d2l"], strict=True))
            line += f"  {ratio:.2f} times d2l"
        print(line, flush=True)


def quality(corpus: Corpus, seeds: int) -> None:
    """The four sentences after the whole recipe, greedily decoded, by the book's BLEU with k = 2."""
    means = []
    for seed in range(seeds):
        trainer, spent, loss = Ours(corpus, seed), 0.0, 0.0
        for number in range(EPOCHS):
            cost, loss = epoch(trainer, corpus, number)
            spent += cost
        outputs = translate(trainer.model, corpus, list(SENTENCES))
        results = [textbook_bleu(output, target, 2) for output, target in zip(outputs, SENTENCES.values(), strict=True)]
        means.append(statistics.mean(results))
        shown = "; ".join(outputs)
        print(f"seed {seed}: {spent:.1f} CPU s, loss {loss:.3f}, mean BLEU {means[-1]:.4f}: {shown}", flush=True)
    print(f"mean over {seeds} seeds: {statistics.mean(means):.3f}")


@torch.no_grad()
def translate(model: Seq2Seq, corpus: Corpus, sources: list[str]) -> list[str]:
    model.eval()
    src, lens = corpus.src_vocab.rows([source.split() for source in sources])
    cache = model.decoder.start(model.encoder(src, lens), lens)
    found = greedy(model.decoder, cache, constraints([STEPS] * len(sources), bos_id=BOS, eos_id=EOS))
    return [" ".join(corpus.tgt_vocab.words[token] for token in hypotheses[0].tokens) for hypotheses in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="English-French pairs, tab between, plain or gzip")
    parser.add_argument("--rounds", type=int, default=20, help="epochs of each variant that are timed")
    parser.add_argument("--quality", action="store_true", help="train the whole recipe and score the four sentences")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    data = options.data or Path(os.environ.get("HEADWISE_DATA", "data"), "tatoeba-en-fr", "fra-eng.tsv.gz")
    if not data.exists():
        sys.exit(f"{data}: no such file; give --data, or HEADWISE_DATA with tatoeba-en-fr/fra-eng.tsv.gz in it")
    runtime.apply(threads=1)
    corpus = Corpus.read(data)
    words = [len(vocab.words) for vocab in (corpus.src_vocab, corpus.tgt_vocab)]
    print(f"{PAIRS} pairs, {words} words, {corpus.target_tokens} target tokens an epoch")
    compare(corpus, options.rounds)
    if options.quality:
        quality(corpus, options.seeds)


if __name__ == "__main__":
    main()
