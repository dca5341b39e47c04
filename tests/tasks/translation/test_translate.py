"""The translation task on a tiny file: from pairs to batches, losses, scores, files and back to a translator."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from headwise.config import build as validated
from headwise.data.batches import Ragged
from headwise.data.sources import Limits
from headwise.decoding.search import DecodingConfig
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.metrics import bleu
from headwise.records import record
from headwise.tasks import registry
from headwise.tasks.task import Assets, Task
from headwise.tasks.translation.translate import Translate, TranslateConfig
from headwise.tasks.translation.translator import Translator

PAIRS = [
    ("go .", "va !"),
    ("i lost .", "j'ai perdu ."),
    ("he's calm .", "il est calme ."),
    ("i'm home .", "je suis chez moi ."),
    ("i'm home .", "je suis à la maison ."),
    ("the cat sleeps on the mat .", "le chat dort sur le tapis ."),
    ("we are late .", "nous sommes en retard ."),
    ("come in .", "entrez ."),
    ("she is at home .", "elle est chez elle ."),
    ("go home .", "rentre chez toi ."),
    ("the dog sleeps .", "le chien dort ."),
    ("are we late ?", "sommes-nous en retard ?"),
]
TRANSFORMER = {
    "kind": "transformer", "d_model": 16, "d_ff": 23, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1,
}  # fmt: skip
RECURRENT = {"kind": "recurrent", "embed_dim": 7, "hidden_dim": 11, "num_layers": 1}


@pytest.fixture
def pairs_file(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    return path


@pytest.fixture
def make(pairs_file):
    def made(model=TRANSFORMER, tokenizer=None, data=None, **fields):
        values = {
            "data": {"train": str(pairs_file), "valid_fraction": 0.2, "test_fraction": 0.1} | (data or {}),
            "tokenizer": {"kind": "word", "vocab_size": 200} | (tokenizer or {}),
            "model": model,
            "decoding": {"beam_size": 3, "max_len": 13},
        }
        config = validated(TranslateConfig, values | fields, "recipe")
        return Translate(config, Translate.prepare(config))

    return made


GREEDY = DecodingConfig(method="greedy", max_len=13)


def built_of(task, seed=3):
    torch.manual_seed(seed)
    model = task.build()
    task.initialise(model, seed)
    return model


def batches_of(task, split, examples=None):
    return list(task.source(split, Limits(1000, examples=examples)).once())


def scores_of(task, model, split, examples=None):
    with torch.no_grad():
        return task.summarise(task.measure(model, batches_of(task, split, examples)))


def all_of(task, split="train"):
    return task.collate(split, list(range(len(task.split(split).pairs))))


def log_probs(model, batch, tgt_in=None):
    logits = model(batch.src, batch.src_lens, batch.tgt_in if tgt_in is None else tgt_in)
    return logits.log_softmax(-1)


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT, RECURRENT | {"score": "none"}])
@pytest.mark.parametrize("joint", [True, False])
def test_builds_what_fits_its_tokenizers(make, model, joint):
    task = make(model, {"joint": joint})
    source, target = task.tokenizers
    assert (source is target) == joint
    built = built_of(task)
    assert built.decoder.output.weight.shape[0] == target.vocab_size
    assert built.encoder.embedding.weight.shape[0] == source.vocab_size
    same, other = built_of(task), built_of(task, 4)
    assert all(torch.equal(a, b) for a, b in zip(built.parameters(), same.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(built.parameters(), other.parameters(), strict=True))


def test_is_found_by_name():
    assert registry.task_type("translate") is Translate
    assert "translate" in registry.task_names()
    with pytest.raises(ConfigError, match=r"unknown task 'translat'; did you mean 'translate'\?"):
        registry.task_type("translat")
    assert issubclass(Translate, Task)
    assert Translate.config_type is TranslateConfig


def test_splits_never_share_a_source(make):
    task = make()
    sources = [{pair.source for pair in found.pairs} for found in task.assets.data.values()]
    assert sum(len(found.pairs) for found in task.assets.data.values()) == len(PAIRS)
    assert not sources[0] & sources[1]
    assert not (sources[0] | sources[1]) & sources[2]


def test_lengths_count_what_a_batch_holds(make):
    task = make()
    batch = all_of(task)
    found = task.split("train")
    assert np.array_equal(found.sources.lengths + 1, batch.src_lens.numpy())
    assert np.array_equal(found.targets.lengths + 1, batch.tgt_lens.numpy())
    assert batch.num_tokens == batch.tgt_lens.sum() == batch.num_target_tokens
    assert batch.indices == list(range(len(found.pairs)))
    assert make(data={"valid_fraction": 0.0}).source("valid", Limits(99)) is None


def test_decoder_reads_the_target_behind_its_begin(make):
    task = make()
    source, target = task.tokenizers
    batch = task.collate("train", [2, 0])
    for row, place in enumerate([2, 0]):
        pair = task.split("train").pairs[place]
        y = [*target.encode(pair.target), target.eos_id]
        n = len(y)
        assert batch.tgt_out[row].tolist()[:n] == y
        assert batch.tgt_in[row].tolist()[:n] == [target.bos_id, *y[:-1]]
        assert set(batch.tgt_in[row].tolist()[n:]) <= {target.pad_id}
        assert batch.src[row].tolist()[: int(batch.src_lens[row])] == [*source.encode(pair.source), source.eos_id]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT])
def test_loss_is_the_sum_over_real_target_tokens(make, model, smoothing):
    task = make(model, label_smoothing=smoothing)
    built, batch = built_of(task).double().eval(), all_of(task)
    odds = log_probs(built, batch)
    total = 0.0
    for row, length in enumerate(batch.tgt_lens.tolist()):
        for step in range(length):
            gold = odds[row, step, batch.tgt_out[row, step]]
            total = total - (1 - smoothing) * gold - smoothing * odds[row, step].mean()
    torch.testing.assert_close(task.loss(built, batch), total, rtol=1e-10, atol=1e-10)
    # and so the sum over its sentences
    singles = [task.loss(built, task.collate("train", [row])) for row in batch.indices]
    torch.testing.assert_close(task.loss(built, batch), sum(singles), rtol=1e-10, atol=1e-10)


def test_loss_without_padding_is_the_same_sum(make):
    task = make()
    built, batch = built_of(task).double().eval(), task.collate("train", [1, 1])
    assert batch.num_tokens == batch.tgt_out.numel()
    torch.testing.assert_close(
        task.loss(built, batch), 2 * task.loss(built, task.collate("train", [1])), rtol=1e-10, atol=1e-10
    )


def test_scores_are_perplexity_and_bleu_over_the_same_examples(make):
    task = make()
    built = built_of(task).eval()
    for limit, rows in ((None, range(10)), (3, range(3))):
        chosen = [row for row in rows if row < len(task.split("valid").pairs)]
        scores = scores_of(task, built, "valid", limit)
        batch = task.collate("valid", chosen)
        odds = log_probs(built, batch)
        real = torch.arange(batch.tgt_out.shape[1]) < batch.tgt_lens[:, None]
        gold = odds.gather(-1, batch.tgt_out.unsqueeze(-1)).squeeze(-1)[real]
        assert scores["loss"] == pytest.approx(-float(gold.mean().detach()), rel=1e-5)
        assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]), rel=1e-9)
        assert scores["perplexity"] >= 1
        hits = (odds.argmax(-1) == batch.tgt_out)[real].double().mean()
        assert scores["accuracy"] == pytest.approx(float(hits))
        pairs = [task.split("valid").pairs[row] for row in chosen]
        outputs = task.predictor(built).translate([pair.source for pair in pairs], config=GREEDY)
        assert scores["bleu"] == pytest.approx(bleu(outputs, [pair.target for pair in pairs]).value)
        assert set(scores) == {metric.name for metric in task.metrics}


def test_counts_of_batches_add_up(make):
    task = make()
    built, batches = built_of(task).eval(), batches_of(task, "valid")
    with torch.no_grad():
        parts = [task.measure(built, [batch]) for batch in batches]
    together = {name: sum(part[name] for part in parts) for name in parts[0]}
    assert task.summarise(together) == pytest.approx(scores_of(task, built, "valid"))


def test_bleu_meets_references_in_the_case_of_the_outputs(make):
    task = make(tokenizer={"lowercase": True}, bleu={"tokenize": "char"})
    translator = task.predictor(built_of(task).eval())
    assert translator.bleu_options() == ("char", True)
    assert translator.evaluate(task.split("valid").pairs)["bleu_signature"].startswith(
        "nrefs:1|case:lc|eff:no|tok:char"
    )


def test_measuring_and_samples_leave_the_model_as_it_was(make):
    task = make()
    built = built_of(task).eval()
    before = {name: value.clone() for name, value in built.state_dict().items()}
    scores_of(task, built, "valid")
    task.samples(built)
    assert all(torch.equal(before[name], value) for name, value in built.state_dict().items())
    assert all(parameter.grad is None for parameter in built.parameters())


def test_samples_are_those_named_or_the_first(make):
    shown = make(show=["i'm home .", "never seen ."])
    samples = shown.samples(built_of(shown).eval())
    assert [sample.partition("  →  ")[0] for sample in samples] == ["i'm home .", "never seen ."]
    assert samples[0].endswith(("    (je suis chez moi .)", "    (je suis à la maison .)"))
    assert not samples[1].endswith(")")
    first = make(num_shown=2)
    sources = [sample.partition("  →  ")[0] for sample in first.samples(built_of(first).eval())]
    assert sources == [pair.source for pair in first.split("valid").pairs[:2]]


def test_what_is_left_out_is_told(make, pairs_file, tmp_path):
    task = make(data={"max_source_len": 5, "valid": str(pairs_file), "test_fraction": 0.0})
    assert task.assets.notes[0].startswith("valid: 12 of 12 held-out sources are in the training part")
    assert task.assets.notes[1:] == (
        "train: 1 of 12 pairs are longer than max_source_len 5, max_target_len 256",
        "valid: 1 of 12 pairs are longer than max_source_len 5, max_target_len 256",
    )
    assert len(task.split("train").pairs) == 11


@pytest.mark.parametrize("joint", [True, False])
def test_files_restore_a_predictor(make, joint):
    task = make(tokenizer={"joint": joint})
    built = built_of(task).eval()
    files = task.assets.files
    assert list(files) == (["source.tokenizer.json"] if joint else ["source.tokenizer.json", "target.tokenizer.json"])
    again = Translate(task.config, Assets(files))
    empty = built_of(again, 99).eval()
    empty.load_state_dict(built.state_dict())
    sentences = ["i'm home .", "go ."]
    ours, theirs = task.predictor(built), again.predictor(empty)
    assert isinstance(theirs, Translator)
    assert [[t.tokens for t in found] for found in ours.n_best(sentences)] == [
        [t.tokens for t in found] for found in theirs.n_best(sentences)
    ]
    with pytest.raises(CheckpointError, match=r"source.tokenizer.json is missing from the run folder"):
        Translate(task.config, Assets({}))


def test_fingerprint_changes_with_the_data(make, pairs_file):
    before = make().assets.digests
    assert list(before) == ["train"]
    assert len(before["train"]) == 64
    pairs_file.write_text(pairs_file.read_text(encoding="utf-8") + "new\tneuf\n", encoding="utf-8")
    assert make().assets.digests != before


def test_card_tells_what_it_is(make):
    card = make().card({"bleu": 12.3456, "loss": 1.0})
    assert "headwise predict RUN" in card
    assert "bleu 12.35, loss 1" in card
    assert "transformer encoder-decoder over word tokens" in card


def test_data_that_leave_nothing(make, pairs_file):
    with pytest.raises(
        DataError, match="every pair is longer than max_source_len 1, max_target_len 256; raise the limits"
    ):
        make(data={"max_source_len": 1})
    pairs_file.write_text("", encoding="utf-8")
    with pytest.raises(DataError):
        make()


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT])
def test_free_running_reads_only_what_it_guessed(make, model):
    task = make(model | {"dropout": 0.0}, scheduled_sampling=1)
    built, batch = built_of(task).train(), all_of(task)
    seen = []
    hidden = built.decoder.hidden
    built.decoder.hidden = lambda tokens, *rest: (
        seen.append((tokens.clone(), torch.is_grad_enabled())) or hidden(tokens, *rest)
    )
    task.loss(built, batch).backward()
    inputs, _ = seen[-1]
    # a pass for each position, and the one that is learned from
    assert len(seen) == batch.tgt_in.shape[1]
    assert [learning for _, learning in seen] == [False] * (len(seen) - 1) + [True]
    assert torch.equal(inputs[:, 0], batch.tgt_in[:, 0])
    # the guess after every prefix of guesses is the next input
    with torch.no_grad():
        states = hidden(inputs, built.encoder(batch.src, batch.src_lens), batch.src_lens)
        assert torch.equal(built.decoder.output(states).argmax(-1)[:, :-1], inputs[:, 1:])


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT])
def test_scheduled_sampling_replaces_inputs_by_guesses(make, model):
    task = make(model | {"dropout": 0.0}, scheduled_sampling=0.5)
    built, batch = built_of(task).train(), all_of(task)
    seen = []
    hidden = built.decoder.hidden
    built.decoder.hidden = lambda tokens, *rest: (
        seen.append((tokens.clone(), torch.is_grad_enabled())) or hidden(tokens, *rest)
    )
    task.loss(built, batch).backward()
    (gold, recorded), (mixed, learned) = seen
    assert (recorded, learned) == (False, True)
    assert torch.equal(gold, batch.tgt_in)
    assert torch.equal(mixed[:, 0], batch.tgt_in[:, 0])
    changed = mixed != gold
    assert 0.2 < changed[:, 1:].float().mean() < 0.8
    # what replaces an input is what the model would have said one step before
    with torch.no_grad():
        guesses = log_probs(built, batch).argmax(-1)[:, :-1]
    assert torch.equal(mixed[:, 1:][changed[:, 1:]], guesses[changed[:, 1:]])
    seen.clear()
    task.loss(built.eval(), batch)
    assert len(seen) == 1
    assert torch.equal(seen[0][0], batch.tgt_in)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT | {"embed_dim": 16}])
def test_pretrained_vectors(make, tmp_path, model, frozen):
    path = tmp_path / "vectors.txt"
    words = ["home", "go", "the", "cat"]
    numbers = torch.randn(len(words), 16, generator=torch.Generator().manual_seed(2))
    rows = [f"{word} " + " ".join(f"{x:.6f}" for x in row) for word, row in zip(words, numbers.tolist(), strict=True)]
    path.write_text("\n".join(rows) + "\n")
    task = make(model, {"joint": False}, vectors={"source": str(path), "frozen": frozen})
    built, batch = task.build(), all_of(task)
    (note,) = task.initialise(built, 3)
    embedding = built.encoder.embedding
    tokenizer = task.tokenizers[0]
    token = tokenizer.encode("home")[0]
    rows = embedding.weight[token] * getattr(embedding, "scale", 1.0)
    torch.testing.assert_close(rows.detach(), numbers[0], rtol=0, atol=1e-5)
    known = [word for word in words if tokenizer.unk_id not in tokenizer.encode(word)]
    assert f"vectors of 16 numbers for {len(known)} of" in note
    # a run that is loaded reads no file of vectors
    path.unlink()
    assert Translate(task.config, Assets(task.assets.files)).build().encoder.embedding.weight.requires_grad != frozen
    assert embedding.weight.requires_grad != frozen
    before = embedding.weight.detach().clone()
    optimizer = torch.optim.SGD(built.parameters(), lr=0.1)
    task.loss(built, batch).backward()
    optimizer.step()
    moved = not torch.equal(embedding.weight, before)
    assert moved != frozen
    other = next(parameter for name, parameter in built.named_parameters() if "output" in name)
    assert other.grad.abs().sum() > 0


def test_a_table_of_both_sides_is_frozen_by_either(make, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("home " + "1 " * 15 + "1\n")
    for side in ("source", "target"):
        model = make(TRANSFORMER, {"joint": True}, vectors={side: str(path), "frozen": True}).build()
        assert model.encoder.embedding.weight is model.decoder.output.weight
        assert not model.encoder.embedding.weight.requires_grad


def test_vectors_of_another_width(make, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("home 1 2 3\n")
    task = make(vectors={"source": str(path)})
    with pytest.raises(ConfigError, match=r"vectors.txt has vectors of 3 numbers, the model's embeddings have 16"):
        built_of(task)


SENTENCES = ["i'm home .", "", "go .", "the cat sleeps on the mat .", "   ", "home", "are we late ?", "go ."]


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT, RECURRENT | {"score": "none", "bidirectional": True}])
@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_translations_do_not_depend_on_neighbours_or_order(make, model, method):
    task = make(model)
    built = built_of(task).double().eval()
    translator = task.predictor(built)
    config = DecodingConfig(method=method, beam_size=3, n_best=1 if method == "greedy" else 2, max_len=11)
    together = translator.n_best(SENTENCES, config)
    assert [len(found) for found in together] == [0 if not text.strip() else config.n_best for text in SENTENCES]
    order = [5, 2, 7, 0, 3, 1, 6, 4]
    shuffled = translator.n_best([SENTENCES[place] for place in order], config)
    for place, text in enumerate(SENTENCES):
        alone = translator.n_best([text], config)[0]
        for other in (together[place], shuffled[order.index(place)]):
            assert [found.tokens for found in other] == [found.tokens for found in alone]
            assert [found.log_prob for found in other] == pytest.approx([found.log_prob for found in alone], abs=1e-9)
    assert translator.translate(SENTENCES, config=config) == [found[0].text if found else "" for found in together]
    assert together[2][0].text == together[7][0].text


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT])
@pytest.mark.parametrize("change", ["step", "fused", "load", "copy"])
def test_translations_are_those_of_the_weights_of_now(make, model, change):
    task = make(model)
    built, other = built_of(task).eval(), built_of(task, 4).eval()
    translator, config = task.predictor(built), DecodingConfig(max_len=7)
    before = translator.n_best(SENTENCES, config)
    if change == "load":
        built.load_state_dict(other.state_dict())
    elif change == "copy":
        with torch.no_grad():
            for parameter, wanted in zip(built.parameters(), other.parameters(), strict=True):
                parameter.copy_(wanted)
    else:
        optimizer = torch.optim.AdamW(built.parameters(), lr=0.1, fused=change == "fused")
        task.loss(built, all_of(task)).backward()
        optimizer.step()
    after = translator.n_best(SENTENCES, config)
    assert after == task.predictor(built).n_best(SENTENCES, config)
    assert after != before


def test_looking_while_translating_changes_nothing(make):
    task = make()
    built = built_of(task).eval()
    translator, config = task.predictor(built), DecodingConfig(max_len=7)
    plain = translator.n_best(SENTENCES, config)
    with record(built, "decoder.*.cross_attention") as trace:
        watched = translator.n_best(["i'm home ."], config)
    assert [found.tokens for found in watched[0]] == [found.tokens for found in plain[0]]
    assert len(trace["decoder.blocks.0.cross_attention"].calls) > 0


def test_empty_inputs(make):
    task = make()
    translator = task.predictor(built_of(task).eval())
    assert translator.translate([]) == []
    assert translator.translate(["", " \u00a0"]) == ["", ""]
    with pytest.raises(DataError, match="there is nothing to score: no examples"):
        translator.evaluate([])


def test_beams_of_one_are_greedy_and_scores_are_those_of_the_model(make):
    task = make()
    built = built_of(task).double().eval()
    translator = task.predictor(built)
    sentences = [pair.source for pair in task.split("train").pairs]
    greedy = translator.n_best(sentences, DecodingConfig(method="greedy", max_len=11))
    single = translator.n_best(sentences, DecodingConfig(method="beam", beam_size=1, max_len=11))
    wide = translator.n_best(sentences, DecodingConfig(method="beam", beam_size=4, n_best=3, max_len=11))
    tokenizer = task.tokenizers[1]
    for one, two, many, text in zip(greedy, single, wide, sentences, strict=True):
        assert one[0].tokens == two[0].tokens
        assert one[0].log_prob == pytest.approx(two[0].log_prob, abs=1e-9)
        assert [found.score for found in many] == sorted((found.score for found in many), reverse=True)
        for found in many:
            rows = Ragged.of(translator.source_tokenizer.encode_batch([text]))
            batch = translator.collated(rows, Ragged.of([[]]), [0])
            rows = torch.tensor([[tokenizer.bos_id, *found.tokens]])
            odds = log_probs(built, batch, rows)[0].detach()
            targets = torch.tensor([*found.tokens, tokenizer.eos_id])
            steps = odds.gather(1, targets[:, None]).squeeze(1)
            forced = [float(steps[: len(found.tokens)].sum()), float(steps.sum())]
            assert any(found.log_prob == pytest.approx(value, abs=1e-8) for value in forced)
            assert not {tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id} & set(found.tokens)


def test_samples_are_one_seeded_stream_that_leaves_the_global_one_alone(make):
    task = make()
    model = built_of(task).eval()
    translator = task.predictor(model)
    config = DecodingConfig(method="sample", num_samples=3, max_len=7)
    torch.manual_seed(5)
    # what was drawn since the seed was given does not count
    torch.rand(3)
    before = torch.get_rng_state()
    first, second = (translator.n_best(["i'm home ."] * 2, config) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first != second
    assert task.predictor(model).n_best(["i'm home ."] * 2, config) == first
    translator.writing.draws.seed(5)
    with torch.random.fork_rng():
        torch.manual_seed(9)
        assert translator.n_best(["i'm home ."] * 2, config) == first


def test_evaluate_of_a_translator_has_signatures(make):
    task = make()
    scores = task.predictor(built_of(task).eval()).evaluate(task.split("train").pairs)
    names = {"bleu", "bleu_signature", "chrf", "chrf_signature", "loss", "perplexity", "accuracy", "exact", "unseen"}
    assert set(scores) == names
    assert "nrefs:1" in scores["bleu_signature"]


def learned(task, steps, learning_rate):
    """A model of the task after so many steps on all of its data."""
    model = built_of(task)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    batch = all_of(task)
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        (task.loss(model, batch) / batch.num_tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        TRANSFORMER | {"d_model": 32, "d_ff": 64, "dropout": 0.0},
        RECURRENT | {"embed_dim": 32, "hidden_dim": 64, "dropout": 0.0},
    ],
)
def test_learns_its_pairs_by_heart(make, model):
    task = make(model, data={"valid_fraction": 0.0, "test_fraction": 0.0}, label_smoothing=0.0)
    translator = task.predictor(learned(task, 120, 1e-2))
    outputs = translator.translate([source for source, _ in PAIRS])
    wanted = {}
    for source, target in PAIRS:
        wanted.setdefault(source, []).append(target)
    hits = [output in wanted[source] for (source, _), output in zip(PAIRS, outputs, strict=True)]
    assert sum(hits) == len(PAIRS)
    scores = translator.evaluate(task.split("train").pairs)
    # "i'm home ." has two translations, so not every token can be told
    assert scores["loss"] < 0.15


def reversal(path, count, seed, longest=7):
    generator = np.random.default_rng(seed)
    lines = set()
    while len(lines) < count:
        letters = [str(letter) for letter in generator.choice(list("abcdefg"), generator.integers(1, longest + 1))]
        lines.add(f"{' '.join(letters)}\t{' '.join(letters[::-1])}\n")
    path.write_text("".join(sorted(lines)))
    return path


@pytest.mark.slow
def test_learns_to_reverse_and_attention_is_what_helps(make, tmp_path):
    data = {
        "train": str(reversal(tmp_path / "train.tsv", 500, 1)),
        "valid": str(reversal(tmp_path / "valid.tsv", 60, 2)),
        "valid_fraction": 0.0,
        "test_fraction": 0.0,
    }
    options = {"data": data, "label_smoothing": 0.0}
    recurrent = RECURRENT | {"embed_dim": 32, "hidden_dim": 48, "dropout": 0.0, "bidirectional": True}
    exact = {}
    for name, model in (("attention", recurrent), ("none", recurrent | {"score": "none"})):
        task = make(model, **options)
        translator = task.predictor(learned(task, 70, 2e-2))
        pairs = task.split("valid").pairs
        outputs = translator.translate(
            [pair.source for pair in pairs], config=DecodingConfig(method="greedy", max_len=9)
        )
        exact[name] = sum(pair.target == output for pair, output in zip(pairs, outputs, strict=True)) / len(pairs)
    assert exact["attention"] > 0.8, exact
    assert exact["attention"] > exact["none"] + 0.2, exact


def test_a_copy_of_a_translator_in_use_has_weights_of_its_own(make):
    task = make()
    translator = task.predictor(task.build().eval())
    [[before]] = translator.n_best(["go ."])
    copied, fresh = copy.deepcopy(translator), task.predictor(copy.deepcopy(translator.model))
    for other in (copied, fresh):
        with torch.no_grad():
            for parameter in other.model.parameters():
                parameter.mul_(0.5)
    assert copied.n_best(["go ."]) == fresh.n_best(["go ."]) != [[before]]
    assert translator.n_best(["go ."]) == [[before]]
    assert pickle.loads(pickle.dumps(translator)).n_best(["go ."]) == [[before]]
