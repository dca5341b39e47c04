"""Summaries: what is cut and told, ROUGE while training and of a loaded model; the rest is that of translation."""

import pytest
import torch
from life import baselines_of, batch_of, built_of, scores_of, task_of

from headwise.data.batches import Ragged, fit_lengths
from headwise.tasks.translation.summarise import Summarise

MODEL = {"kind": "recurrent", "embed_dim": 5, "hidden_dim": 5, "num_layers": 1}


@pytest.fixture
def make(tmp_path):
    rows = [f"{a} {b} c d e\t{a}" + " x x" * (a == "k") for a in "fghijk" for b in "lmnop"]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")

    def made(**data):
        keys = {"train": str(tmp_path / "train.tsv"), "test_fraction": 0.0, "valid_fraction": 0.3}
        values = {"data": keys | {"max_source_len": 3, "max_target_len": 2, **data}, "model": MODEL}
        return task_of("summarise", values | {"tokenizer": {"kind": "word"}, "decoding": {"max_len": 4}})

    return made


def test_sources_are_cut_and_long_summaries_left_out(make):
    task = make()
    for split in ("train", "valid"):
        found = task.split(split)
        assert set(found.sources.lengths.tolist()) == {3}
        assert not any(pair.source.startswith("k") for pair in found.pairs)
    told = "\n".join(task.assets.notes)
    kept, lost = len(task.split("train").pairs), 5
    assert f"of {kept:,} of " in told
    assert "pairs only what is within max_source_len 3, max_target_len 2 are read" in told
    assert "pairs are longer than max_target_len 2" in told
    assert kept + len(task.split("valid").pairs) == 30 - lost


@pytest.mark.parametrize(
    ("rule", "kept", "lengths", "cut"),
    [("drop", [0], [2], 0), ("truncate", [0, 1, 2], [2, 2, 1], 2), ("truncate_source", [0, 1], [2, 2], 1)],
)
def test_rules_for_pairs_that_are_too_long(rule, kept, lengths, cut):
    sources, targets = Ragged.of([[4, 5], [4, 5, 6], [4]]), Ragged.of([[7], [7], [7, 8]])
    found = fit_lengths(sources, targets, max_source_len=2, max_target_len=1, too_long=rule)
    assert found.kept.tolist() == kept
    assert found.sources.lengths.tolist() == lengths
    assert set(found.targets.lengths.tolist()) == {1}
    assert (found.too_long, found.cut) == (2, cut)


def test_rouge_is_a_score_of_training_and_of_the_predictor(make):
    task = make()
    assert [metric.name for metric in task.metrics][-3:] == ["rouge1", "rouge2", "rougeL"]
    model = built_of(task).eval()
    scores = scores_of(task, model)
    assert list(scores) == [metric.name for metric in task.metrics]
    summariser = task.predictor(model)
    options = summariser.options({"method": "greedy"})
    told = summariser.evaluate(task.split("valid").pairs, options=options)
    assert {name: told[name] for name in scores} == pytest.approx(scores, rel=1e-5)


def test_only_the_beginning_is_read_without_a_warning(make):
    task = make()
    summariser = task.predictor(built_of(task).eval())
    assert summariser.predict(["f l c d e d e"]) == summariser.predict(["f l c"])
    dropped = make(too_long="drop", max_source_len=5, max_target_len=3)
    with pytest.warns(UserWarning, match=r"has 21 tokens; only the first 20 are read"):
        dropped.predictor(built_of(dropped).eval()).translate("f " * 21)


def test_a_suggestion_cuts_long_sources(make, tmp_path):
    (tmp_path / "long.tsv").write_text("".join(f"{'word ' * 900}{n}\tshort {n}\n" for n in range(40)))
    found = Summarise.suggest({"train": str(tmp_path / "long.tsv")})
    assert found.values["data"]["max_source_len"] == 512
    assert found.values["data"]["too_long"] == "truncate_source"
    assert found.values["training"]["monitor"] == "rougeL"
    assert found.about == "Summaries, fitted to the 40 pairs"


def test_without_attention_a_source_speaks_through_its_last_state_alone(make):
    task = make()
    config = task.config.model_copy(update={"model": task.config.model.model_copy(update={"score": "none"})})
    model = built_of(Summarise(config, task.assets)).eval()
    batch = batch_of(task)
    memory = model.encoder(batch.src, batch.src_lens)
    noise = memory._replace(states=torch.full_like(memory.states, torch.nan))
    one, two = (model.decoder(batch.tgt_in, given, batch.src_lens) for given in (memory, noise))
    torch.testing.assert_close(one, two, rtol=0, atol=0)
    moved = memory._replace(summary=memory.summary + 1)
    assert not torch.allclose(one, model.decoder(batch.tgt_in, moved, batch.src_lens))


def test_the_beginning_of_a_text_is_a_baseline(make):
    task = make(max_target_len=9)
    pairs = task.examples(task.config, "valid")
    found = baselines_of(task, built_of(task), pairs)
    # summaries have one word, or three; the first word of a text is the first one of its summary
    (name,) = found
    assert name == "lead of 1 words"
    wanted = sum(100 if len(pair.target.split()) == 1 else 50 for pair in pairs) / len(pairs)
    assert found[name]["rouge1"] == pytest.approx(wanted)
