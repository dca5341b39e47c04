"""The tagging task on a tiny treebank: from files to batches, losses, scores, run folders and back to a tagger."""

import json

import pytest
import torch
from life import baselines_of, built_of, fitted, restored, scores_of, task_of

from headwise.data.sources import Limits
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks import registry
from headwise.tasks.tagging.tag import Tag
from headwise.tasks.task import Assets, Task

DETERMINERS, NOUNS, VERBS = ["a", "the", "this"], ["saw", "dog", "cat", "walk"], ["saw", "walk", "sees"]
MODEL = {"kind": "window", "d_model": 12, "d_ff": 17, "radius": 1, "dropout": 0.0}


def treebank():
    """Sentences in which the word before tells whether "saw" and "walk" are nouns or verbs."""
    places = [(d, n, v) for d in range(3) for n in range(4) for v in range(3)]
    rows = []
    for d, n, v in places:
        words = [DETERMINERS[d], NOUNS[n], VERBS[v], DETERMINERS[(d + v) % 3], NOUNS[(n + v) % 4]]
        rows.append((words, ["DET", "NOUN", "VERB", "DET", "NOUN"]))
    return rows


def conllu(rows):
    line = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    texts = ["".join(line.format(i, *pair) for i, pair in enumerate(zip(*row, strict=True), 1)) for row in rows]
    return "\n".join(texts)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "train.conllu").write_text(conllu(treebank()))
    held_out = [(["this", "bird", "sees"], ["DET", "NOUN", "VERB"]), (["Oh", "dog"], ["INTJ", "NOUN"]), treebank()[0]]
    lines = [json.dumps({"words": words, "tags": tags}) for words, tags in held_out]
    (tmp_path / "valid.jsonl").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def make(files):
    def made(model=MODEL, data=None, **fields):
        values = {
            "data": {"train": str(files / "train.conllu"), "valid_fraction": 0.2, "test_fraction": 0.1} | (data or {}),
            "tokenizer": {"kind": "bpe", "vocab_size": 40},
            "model": model,
        }
        return task_of("tag", values | fields)

    return made


def all_of(task, split="train"):
    return task.collate(split, list(range(len(task.split(split).sentences))))


def test_is_found_by_name():
    assert registry.task_type("tag") is Tag
    assert issubclass(Tag, Task)
    assert "tag" in registry.task_names()


def test_splits_never_share_a_sentence(make):
    task = make()
    texts = [{item.text for item in found.sentences} for found in task.assets.data.values()]
    assert sum(map(len, texts)) == len({" ".join(words) for words, _ in treebank()})
    assert not texts[0] & texts[1]
    assert not (texts[0] | texts[1]) & texts[2]
    assert make(data={"valid_fraction": 0.0}).source("valid", Limits(99)) is None
    assert len(make(data={"limit": 20, "test_fraction": 0.0}).split("test").sentences) == 0
    assert list(task.assets.digests) == ["train"]


def test_notes_tell_what_was_left_out_and_what_training_lacks(make, files):
    task = make(data={"valid": str(files / "valid.jsonl"), "test_fraction": 0.0, "max_len": 5})
    assert task.assets.notes == (
        "valid: 1 of 3 held-out sentences are in the training part, 1 with the same tags: line 3",
        "valid: 20.0% of 10 words are not in the training part",
        "valid: tags that training lacks, so that they cannot be got right: INTJ (1)",
    )
    assert list(task.assets.digests) == ["train", "valid"]
    assert all(len(digest) == 64 for digest in task.assets.digests.values())
    path = str(files / "valid.jsonl")
    short = make(data={"train": path, "valid": path, "test_fraction": 0.0, "max_len": 3})
    assert short.assets.notes[1] == "train: 1 of 3 sentences are longer than max_len 3"
    with pytest.raises(DataError, match="every sentence is longer than max_len 4; raise the limit"):
        make(data={"max_len": 4})


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_sum_over_words_whose_tag_is_known(make, files, smoothing):
    task = make(data={"valid": str(files / "valid.jsonl"), "test_fraction": 0.0}, label_smoothing=smoothing)
    model, batch = built_of(task).double().eval(), all_of(task, "valid")
    odds = model(batch.tokens, batch.pieces).log_softmax(-1)
    total, known = 0.0, 0
    for row, item in enumerate(task.split("valid").sentences):
        for word, tag in enumerate(item.tags):
            if tag in task.tags:
                gold = odds[row, word, task.tags.index(tag)]
                total, known = total - (1 - smoothing) * gold - smoothing * odds[row, word].mean(), known + 1
    torch.testing.assert_close(task.loss(model, batch), total, rtol=1e-12, atol=1e-12)
    singles = [task.loss(model, task.collate("valid", [row])) for row in batch.indices]
    torch.testing.assert_close(task.loss(model, batch), sum(singles), rtol=1e-12, atol=1e-12)
    assert (known, batch.num_tokens) == (9, 10)
    if not smoothing:
        assert scores_of(task, model, "valid")["loss"] == pytest.approx(float(total.detach()) / known)


def test_scores_are_those_of_the_tagger(make, files):
    task = make(data={"valid": str(files / "valid.jsonl"), "test_fraction": 0.0})
    model = built_of(task).eval()
    scores, told = scores_of(task, model, "valid"), task.predictor(model).evaluate(task.split("valid").sentences)
    assert scores["accuracy"] == pytest.approx(told["accuracy"])
    assert scores["macro_f1"] == pytest.approx(told["macro_f1"])
    assert scores["accuracy_unseen"] == pytest.approx(told["accuracy_unseen"])
    assert scores["accuracy_seen"] == pytest.approx(told["accuracy_seen"])
    assert list(scores) == [metric.name for metric in task.metrics if metric.name != "span_f1"]


def test_samples_are_those_named_or_the_first(make):
    task = make(show=["the saw", "never seen"])
    lines = task.samples(built_of(task).eval())
    assert [[pair.split("/")[0] for pair in line.split()] for line in lines] == [["the", "saw"], ["never", "seen"]]
    first = make(num_shown=2)
    assert len(first.samples(built_of(first).eval())) == 2


@pytest.mark.parametrize("longest", [0, 3])
def test_files_restore_a_tagger(make, longest):
    task = make(spelling={"longest": longest, "min_frequency": 1}, pooling={"place": "before"})
    names = ["spelling.tokenizer.json", "tags.json", "tokenizer.json", "words.json"]
    assert sorted(task.assets.files) == names[0 if longest else 1 :]
    model, texts = built_of(task).eval(), ["a saw saw the saw", "birds zzz"]
    assert restored(task, model).tag(texts) == task.predictor(model).tag(texts)
    assert Tag(task.config, Assets(task.assets.files)).split("train").sentences == []


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("tags.json", b"{}", "tags.json: not a list of tags; restore it from a copy of the run"),
        ("tags.json", b"[", "tags.json: not a list of tags"),
        ("words.json", b"[]", "words.json: not a table of words; restore it"),
    ],
)
def test_damaged_files_are_named(make, name, data, message):
    task = make()
    with pytest.raises(CheckpointError, match=message):
        Tag(task.config, Assets({**task.assets.files, name: data}))
    with pytest.raises(CheckpointError, match=f"{name} is missing from the run folder"):
        Tag(task.config, Assets({key: value for key, value in task.assets.files.items() if key != name}))


def test_spelling_needs_pooling_before_the_encoder(make):
    with pytest.raises(ConfigError, match=r'spelling has no order to read: set pooling.place = "before" and pooling.k'):
        make(spelling={"longest": 2})


def test_card_tells_what_it_is(make):
    card = make().card({"accuracy": 0.98765})
    assert "headwise predict RUN" in card
    assert "accuracy 0.9877" in card
    assert "kind window over bpe tokens that gives each word one of 3 tags" in card


@pytest.mark.parametrize("kind", ["token", "window"])
def test_context_tells_nouns_from_verbs(make, kind):
    model = {"kind": kind, "d_model": 12, "d_ff": 17, "dropout": 0.0}
    task = make(model, data={"valid_fraction": 0.3, "test_fraction": 0.0})
    accuracy = scores_of(task, fitted(task, 60), "valid")["accuracy"]
    assert accuracy == 1.0 if kind == "window" else accuracy < 0.9


SPANS = "Ann B-PER\nLee I-PER\nsaw O\nRome B-LOC\n\nin O\nOslo B-LOC\n\nLee B-PER\n"


@pytest.fixture
def spanned(make, files):
    """The task on spans; its validation part breaks the scheme, and has a label and words that training lacks."""
    (files / "spans.conll").write_text(SPANS)
    (files / "more.conll").write_text("Bo I-PER\nsaw O\n\nAnn B-ORG\nRome B-LOC\n")
    paths = {"train": str(files / "spans.conll"), "valid": str(files / "more.conll"), "test_fraction": 0.0}

    def made(**fields):
        data = paths | fields.pop("data", {})
        return make(fields.pop("model", MODEL), data, tokenizer={"kind": "char"}, **fields)

    return made


def test_spans_are_scored_in_validation_as_in_evaluation(spanned):
    task = spanned(output={"kind": "crf", "legal": True})
    model = fitted(task, 30)
    scores, told = scores_of(task, model), restored(task, model).evaluate(task.split("valid").sentences)
    assert {name: told[name] for name in scores if name != "loss"} == pytest.approx(
        {name: score for name, score in scores.items() if name != "loss"}
    )
    # Bo and Rome could be right, Ann as ORG cannot
    assert 0 < scores["span_f1"] <= 2 * 2 / 6
    # the most frequent tags make PER of Ann, LOC of Rome, and O of Bo, as of most words that occur once
    found = baselines_of(task, model, task.split("valid").sentences)
    assert found["most frequent tag of each word"]["span_f1"] == pytest.approx(2 * 1 / (2 + 3))


def test_what_breaks_the_scheme_is_told(spanned):
    notes = spanned().assets.notes
    assert "valid: tags of 1 of 2 sentences break the scheme iob2" in notes
    assert not any(note.startswith("train:") for note in notes)
    assert "train: tags of 3 of 3 sentences break the scheme iob1" in spanned(data={"scheme": "iob1"}).assets.notes


def test_the_scheme_is_kept_with_the_run(spanned):
    task = spanned()
    assert task.assets.files["spans.json"] == b'{"scheme": "iob2"}\n'
    for damaged in (b"[]", b'{"scheme": "iob"}', b"{"):
        with pytest.raises(CheckpointError, match=r"spans.json: names no scheme of spans; restore it from a copy"):
            Tag(task.config, Assets({**task.assets.files, "spans.json": damaged}))
    assert "spans.json" not in spanned(data={"scheme": "none"}).assets.files


def test_only_legal_sequences_are_chosen(spanned):
    free, legal = (spanned(output={"kind": "crf", "legal": chosen}) for chosen in (False, True))
    model = built_of(free)
    # inside is what every word says
    model.head.bias.data[free.tags.index("I-PER")] = 50.0
    assert restored(free, model).tag(["a b"]) == [["I-PER", "I-PER"]]
    (tags,) = restored(legal, model).tag(["a b"])
    assert tags == ["B-PER", "I-PER"]


def test_smoothing_and_a_single_tag(make, files):
    (files / "one.conll").write_text("a X\nb X\n\nc X\n\nd X\n")
    data = {"train": str(files / "one.conll"), "valid_fraction": 0.0, "test_fraction": 0.0}
    task = make(data=data, tokenizer={"kind": "char"}, output={"kind": "crf"}, label_smoothing=0.2)
    model = built_of(task)
    loss = task.loss(model, all_of(task))
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    chosen = task.predictor(model.eval()).predict(["a z", ""])
    assert [one.tags for one in chosen] == [["X", "X"], []]
    assert chosen[0].probabilities == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("output", "scheme", "message"),
    [
        ({"kind": "softmax", "legal": True}, "auto", r'softmax does not see: set output.kind = "crf"'),
        ({"kind": "crf", "legal": True}, "none", "output.legal: the tags of the training part mark no spans"),
    ],
)
def test_what_cannot_be_legal_is_refused(spanned, output, scheme, message):
    with pytest.raises(ConfigError, match=message):
        spanned(output=output, data={"scheme": scheme}).build()


def test_untagged_words_are_read_and_neither_learned_nor_scored(make, files):
    """As if their places had no tag: the same loss and scores as by hand, and no output for the mark."""
    rows = [(words, [tag if tag == "NOUN" else "-" for tag in tags]) for words, tags in treebank()[:12]]
    rows += [(["a", "saw"], ["-", "VERB"])]
    text = "\n".join(json.dumps({"words": words, "tags": tags}) for words, tags in rows)
    (files / "partly.jsonl").write_text(text)
    data = {"train": str(files / "partly.jsonl"), "valid": str(files / "partly.jsonl"), "test_fraction": 0.0}
    task = make(data=data | {"untagged": "-"})
    assert task.tags == ["NOUN", "VERB"]
    model = built_of(task)
    batch = all_of(task)
    assert batch.num_tokens == sum(tag != "-" for _, tags in rows for tag in tags)
    with torch.no_grad():
        scores = model(batch.tokens, batch.pieces)
        loss, stats = task.loss(model, batch), task.measure(model, [batch])
    expected = torch.zeros(())
    right = count = 0
    for row, example in enumerate(task.split("train").sentences):
        for place, tag in enumerate(example.tags):
            if tag != "-":
                expected = expected - scores[row, place].log_softmax(-1)[task.tags.index(tag)]
                right += int(scores[row, place].argmax()) == task.tags.index(tag)
                count += 1
    torch.testing.assert_close(loss, expected)
    measured = task.summarise(stats)
    assert measured["accuracy"] == pytest.approx(right / count)
    assert measured["loss"] == pytest.approx(float(expected) / count)
    predictor = task.predictor(model)
    scored = predictor.evaluate(task.split("train").sentences)
    assert scored["accuracy"] == pytest.approx(right / count)
    assert "-" not in predictor.words.values()
    (baseline,) = predictor.baselines(task.split("train").sentences)
    assert baseline.scores["accuracy"] > 0.9


def test_data_where_everything_is_untagged(make, files):
    (files / "none.jsonl").write_text(
        json.dumps({"words": ["a", "b"], "tags": ["-", "-"]}) + "\n" + '{"words": ["c"], "tags": ["-"]}'
    )
    with pytest.raises(DataError, match="every tag is '-', data\\.untagged: nothing to learn"):
        make(data={"train": str(files / "none.jsonl"), "valid_fraction": 0.0, "test_fraction": 0.0, "untagged": "-"})
    predictor = (task := make(data={"untagged": "-"})).predictor(built_of(task))
    with pytest.raises(DataError, match="there is nothing to score: every tag is '-'"):
        predictor.evaluate([next(iter(predictor.read(files / "none.jsonl")))])
