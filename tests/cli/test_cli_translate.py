"""Train, predict, evaluate, explain and init on a tiny run."""

import json
import os
import threading
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import headwise as package
from headwise.cli import serve
from headwise.decoding.search import DecodingConfig
from headwise.errors import ConfigError
from headwise.explain.explanation import Explanation
from headwise.explain.figures import heads
from headwise.layers import inference
from headwise.service.loaded import load_runs
from headwise.training import precision


def _given(method, given, n_best):
    return {**given, **({} if method is None else {"method": method}), **({} if n_best == 1 else {"n_best": n_best})}


SENTENCES = b"one and two .\n\nsix and seven .\r\nthree and four ."


def test_training_ends_with_the_folder_and_what_to_do_next(headwise, pairs_file, tmp_path):
    folder = tmp_path / "run"
    recipe = pairs_file.parent / "recipe.toml"
    code, out, _ = headwise("train", recipe, "training.max_steps=2", "model.num_heads=4", "--run-folder", folder)
    assert code == 0
    assert "total: " in (folder / "log.txt").read_text()
    assert f"trained: {folder} (step 2" in out
    assert f"next:    headwise explain {folder}" in out
    assert tomllib.loads((folder / "config.toml").read_text())["model"]["num_heads"] == 4


def test_training_again_continues_or_refuses(headwise, pairs_file, tmp_path):
    recipe, folder = pairs_file.parent / "recipe.toml", tmp_path / "run"
    code, _, err = headwise("train", recipe, "--run-folder", folder, "--resume", "must")
    assert code == 2
    assert "has no checkpoint to resume from" in err
    assert headwise("train", recipe, "training.max_steps=1", "--run-folder", folder)[0] == 0
    code, out, _ = headwise("train", recipe, "training.max_steps=2", "--run-folder", folder)
    assert code == 0
    assert "(step 2" in out
    assert headwise("train", recipe, "--run-folder", folder, "--resume", "never")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["phrasbook"], 2, "unknown recipe 'phrasbook'; did you mean 'phrasebook'?"),
        (["phrasebook", "model.num_haeds=2"], 2, "num_heads'?"),
        (["phrasebook", "model.num_heads=3"], 2, "num_heads (3) must divide d_model (128)"),
        (["phrasebook", "data.train=nowhere.tsv"], 3, "nowhere.tsv: not found in"),
        (["phrasebook", "nonsense"], 2, "'nonsense' is not an override"),
        (["phrasebook", "--resume", "maybe", "--run-folder", "never-made"], 2, "unknown --resume 'maybe'"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_one_line(headwise, arguments, code, message):
    number, out, err = headwise("train", *arguments)
    assert (number, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


def test_sentences_files_and_standard_input_keep_their_order(headwise, trained, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(SENTENCES)
    by_argument = headwise("predict", trained, "one and two .", "", "six and seven .", "three and four .")
    by_file = headwise("predict", trained, path)
    by_stdin = headwise("predict", trained, "-", "--batch", 2, stdin=SENTENCES)
    assert by_argument == by_file == by_stdin
    lines = by_file[1].splitlines()
    assert (by_file[0], len(lines), lines[1]) == (0, 4, "")
    expected = package.load(trained).translate(["one and two .", "", "six and seven .", "three and four ."])
    assert lines == expected


def test_the_output_file_is_there_when_it_is_complete(headwise, trained, tmp_path):
    target = tmp_path / "out.txt"
    code, out, err = headwise("predict", trained, "-", "--output", target, stdin=SENTENCES)
    assert (code, out, err) == (0, "", "")
    assert target.read_text().count("\n") == 4
    target.write_text("old")
    code, _, err = headwise("predict", trained, "-", "--output", target, stdin=b"one .\n\xff\n")
    assert code == 3
    assert "standard input:2:" in err
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
    code, _, err = headwise("predict", trained, "one .", "--output", tmp_path / "no" / "out.txt")
    assert code == 5
    assert f"there is no folder {tmp_path / 'no'}; make it first" in err


def test_an_input_is_not_replaced_by_its_answers(headwise, trained, tmp_path):
    (tmp_path / "in.txt").write_bytes(SENTENCES)
    (tmp_path / "link").symlink_to("in.txt")
    code, out, err = headwise("predict", trained, "--file", tmp_path / "in.txt", "--output", tmp_path / "link")
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'link'}: is one of the inputs; name another file with --output" in err
    assert (tmp_path / "in.txt").read_bytes() == SENTENCES


def test_lines_of_json_are_no_sentences(headwise, trained, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"source": "one and two ."}\n')
    code, out, err = headwise("predict", trained, tmp_path / "in.jsonl")
    assert (code, out) == (3, "")
    assert "in.jsonl: holds JSON lines, and each line of a file is read as a text; write plain texts" in err


def test_lines_of_several_columns_are_no_sentences(headwise, trained, tmp_path):
    (tmp_path / "in.tsv").write_text("one .\none and two .\tein und zwei .\n")
    code, out, err = headwise("predict", trained, tmp_path / "in.tsv")
    assert code == 3
    assert "in.tsv:2: has several columns, and each line is read as a text; write the sources alone" in err
    assert "\t" not in out
    (tmp_path / "in.tsv").write_text("one .\n")
    assert headwise("predict", trained, tmp_path / "in.tsv")[0] == 0


def test_columns_of_n_best_with_scores_and_links(headwise, trained):
    arguments = ["--n-best", 2, "--scores", "--alignments"]
    code, out, _ = headwise("predict", trained, "-", *arguments, stdin=b"one and two .\n\nsix .\n")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2"]
    assert rows[2] == ["1"]
    translations = package.load(trained).n_best(["one and two ."], DecodingConfig(beam_size=5, n_best=2, max_len=11))[0]
    assert [(row[1], row[2]) for row in rows[:2]] == [(f"{found.score:.4f}", found.text) for found in translations]
    for row in (rows[0], rows[1], rows[3], rows[4]):
        for link in row[3].split():
            source, target = map(int, link.split("-"))
            assert 0 <= source < 4
            assert 0 <= target < len(row[2].split())


def test_control_characters_of_a_translation_are_shown(headwise, trained, monkeypatch):
    from headwise.data.tokenizers import Tokenizer

    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "a\x1b[2J\tb")
    code, out, _ = headwise("predict", trained, "one .")
    assert (code, out) == (0, "a\\x1b[2J\\tb\n")


def test_sampling_is_repeatable_by_seed(headwise, trained):
    arguments = ["predict", trained, "one and two .", "--temperature", 2.0, "--n-best", 3]
    first, again, other = (headwise(*arguments, "--seed", seed) for seed in (1, 1, 2))
    assert first[0] == 0
    assert first == again != other


@pytest.mark.parametrize(
    ("method", "given", "n_best", "expected"),
    [
        (None, {}, 1, {"method": "greedy", "n_best": 1}),
        (None, {"beam_size": 3}, 1, {"method": "beam", "beam_size": 3}),
        (None, {}, 7, {"method": "beam", "beam_size": 7, "n_best": 7}),
        (None, {"top_k": 5}, 2, {"method": "sample", "num_samples": 2, "top_k": 5}),
        ("beam", {"length_penalty": 0.0}, 1, {"method": "beam", "length_penalty": 0.0}),
    ],
)
def test_options_choose_the_method(method, given, n_best, expected):
    config = DecodingConfig(method="greedy").with_options(_given(method, given, n_best))
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("method", "given", "n_best", "message"),
    [
        ("beam", {"temperature": 2.0}, 1, "--temperature needs --method sample, not beam"),
        ("greedy", {"top_k": 2}, 1, "--top-k needs --method sample, not greedy"),
        ("sample", {"beam_size": 2}, 1, "--beam needs --method beam, not sample"),
        ("greedy", {}, 2, "--n-best needs --method beam or sample; greedy finds one output"),
        ("bem", {}, 1, "options: unknown method 'bem'; did you mean 'beam'"),
        (None, {"top_p": 2.0}, 1, "options: top_p: must be 1 or less, not 2"),
        (None, {"beam_size": "a"}, 1, "options: beam_size: must be a whole number"),
    ],
)
def test_options_that_do_not_fit_are_named(method, given, n_best, message):
    with pytest.raises(ConfigError, match=message):
        DecodingConfig().with_options(_given(method, given, n_best))


def test_a_setting_of_another_type_names_the_option(headwise, trained):
    code, out, err = headwise("predict", trained, "one .", "--set", "n_best=a")
    assert (code, out) == (2, "")
    assert "options: n_best:" in err


def test_a_folder_that_is_no_run_is_exit_4(headwise, tmp_path):
    for verb in (["predict"], ["explain"]):
        code, out, err = headwise(*verb, tmp_path / "nowhere", "one .")
        assert (code, out) == (4, "")
        assert "nowhere" in err


def test_evaluation_prints_scores_and_signatures(headwise, trained, pairs_file):
    code, out, _ = headwise("evaluate", trained, "--data", pairs_file, "--limit", 11)
    assert code == 0
    assert "11 examples" in out.replace("\n", "")
    for word in ("bleu", "chrf", "perplexity", "accuracy", "nrefs:1|case:mixed"):
        assert word in out


def test_evaluation_as_json(headwise, trained, pairs_file, tmp_path):
    for side, column in (("en", 0), ("fr", 1)):
        lines = [line.split("\t")[column] for line in pairs_file.read_text().splitlines()[:7]]
        (tmp_path / side).write_text("\n".join(lines) + "\n")
    whole = headwise("evaluate", trained, "--data", pairs_file, "--limit", 7, "--json")
    parallel = headwise("evaluate", trained, "--data", tmp_path / "en", "--target-data", tmp_path / "fr", "--json")
    scores = json.loads(whole[1])
    assert whole == parallel
    assert scores["examples"] == 7
    assert {"bleu", "chrf", "perplexity", "accuracy", "bleu_signature"} <= set(scores)


def test_explain_draws_one_page_and_a_table(headwise, trained, tmp_path):
    options = ["--target", "un et deux .", "--folder", tmp_path, "--format", "svg", "--layer", 1, "--heads", "1"]
    code, out, err = headwise("explain", trained, "one and two .", *options)
    assert (code, err) == (0, "")
    assert "one and two . → un et deux ." in out
    assert "decoder.blocks.1.cross_attention, head 1: what each token looks at" in out
    assert "rows sum to one within " in out
    assert f"{tmp_path}/attention.svg" in out
    assert [path.name for path in tmp_path.iterdir()] == ["attention.svg"]


def test_explain_draws_every_layer_where_it_is_asked_for(headwise, trained, tmp_path, monkeypatch):
    # the figures themselves are drawn in another test
    monkeypatch.setattr(
        Explanation, "figures", lambda self: {next(iter(self.layers)): heads(np.eye(2)[None], "ab", "ab")}
    )
    assert headwise("explain", trained, "one and two .", "--folder", tmp_path, "--all", "--format", "svg")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.svg", "encoder.blocks.0.self_attention.svg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one .", "--format", "gif"], "unknown format 'gif'; known: pdf, png, svg"),
        (["one .", "--layer", "7"], "layer 7 is not there; the model has 2 cross-attention layers, from 0"),
        (["one .", "--layer", "decoder.blocks.1.cros"], "unknown layer 'decoder.blocks.1.cros'"),
        (["one .", "--heads", "0,2"], "head 2 is not there; this layer has heads 0 to 1"),
        (["one .", "--heads", "first"], "--heads 'first': give numbers from 0, separated by commas, such as 0,2"),
        ([" "], "the sentence is empty; there is nothing to look at"),
    ],
)
def test_explain_names_what_is_wrong(headwise, trained, tmp_path, arguments, message):
    code, _, err = headwise("explain", trained, *arguments, "--folder", tmp_path)
    assert code == 2
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_unknown_words_are_told_once_for_all_inputs(headwise, trained, pairs_file):
    given = ["one and ten .", "ten .", "two and six ."]
    code, out, err = headwise("predict", trained, *given, "--batch", 1)
    assert code == 0
    assert len(out.splitlines()) == 3
    told = "warning: 2 of 10 words were never seen in training, or too rarely to be learned: ten\n"
    assert err == told
    assert headwise("predict", trained, given[2])[2] == ""
    assert json.loads(headwise("evaluate", trained, "--data", pairs_file, "--json")[1])["unseen"] == 0.0


def test_init_writes_a_commented_recipe_that_trains(headwise, pairs_file, tmp_path):
    recipe = tmp_path / "deep" / "my.toml"
    recipe.parent.mkdir()
    code, out, err = headwise("init", "translate", "--data", pairs_file, "--output", recipe)
    assert (code, err) == (0, "")
    assert f"next: headwise train {recipe}" in out
    for line in recipe.read_text().splitlines():
        assert not line or line.startswith("#") or "  # " in line
    small = ["model.d_model=8", "model.num_heads=2", "model.d_ff=8", "training.max_steps=1"]
    assert headwise("train", recipe, *small, "--run-folder", tmp_path / "run")[0] == 0


def test_init_keeps_what_is_there_unless_forced(headwise, pairs_file, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("mine")
    code, _, err = headwise("init", "translate", "--data", pairs_file, "--output", recipe)
    assert (code, recipe.read_text()) == (2, "mine")
    assert "is there already; give another --output, or --force to replace it" in err
    arguments = ["--output", recipe, "--force", "--columns", 1, 0]
    assert headwise("init", "translate", "--data", pairs_file, *arguments)[0] == 0
    assert tomllib.loads(recipe.read_text())["data"]["columns"] == [1, 0]


def test_init_knows_its_tasks(headwise, pairs_file):
    code, _, err = headwise("init", "transalte", "--data", pairs_file)
    assert (code, err) == (
        2,
        "error: unknown task 'transalte'; did you mean 'translate'?"
        "; one of your own is named module:Class, such as my_module:MyTask\n",
    )


def test_the_data_report(headwise, pairs_file):
    code, out, _ = headwise("data", "report", pairs_file)
    assert code == 0
    assert out.startswith(f"{pairs_file}: 42 pairs\n")
    assert "\npairs                    42\n" in out
    code, _, err = headwise("data", "report", pairs_file.parent / "nowhere.tsv")
    assert code == 3
    assert "nowhere.tsv" in err


def _version(package):
    if package in ("wandb", "mlflow"):
        raise metadata.PackageNotFoundError(package)
    return "3.17.2"


def test_the_doctor_reports_versions_fonts_and_data(headwise, monkeypatch):
    from headwise import runtime

    monkeypatch.setattr(runtime, "report", lambda: [("threads", "1", "more are faster")])
    monkeypatch.setattr("importlib.metadata.version", _version)
    monkeypatch.setenv("HEADWISE_DATA", "/nowhere")
    code, out, _ = headwise("doctor")
    assert code == 0
    # the package has another name than its module
    assert "  mlflow-skinny  3.17.2\n" in out
    assert "  wandb          not installed  (pip install 'headwise[wandb]')" in out
    assert "  threads  1  (more are faster)" in out
    for section in ("versions", "machine", "decoding", "extras", "fonts", "data"):
        assert f"{section}\n" in out
    assert "/nowhere is not there  (recipes look for data there; set HEADWISE_DATA" in out
    code, out, err = headwise("doctor", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found) == ["versions", "machine", "decoding", "extras", "fonts", "data"]
    assert found["machine"] == {"threads": {"value": "1", "advice": "more are faster"}}


def test_what_looks_like_a_file_is_not_predicted_as_words(headwise, trained, tmp_path):
    for name in ("tset.txt", "data/tset", str(tmp_path / "no.tsv.gz")):
        code, out, err = headwise("predict", trained, name)
        assert (code, out) == (2, "")
        assert f"{name}: no such file; if these are the words themselves, write --text" in err
    code, _, err = headwise("predict", trained, tmp_path)
    assert code == 3
    assert f"{tmp_path}: is a folder; name the files in it" in err
    assert headwise("predict", trained)[0] == 2
    assert headwise("predict", trained, "--text", "tset.txt")[0] == 0
    assert headwise("predict", trained, "one .")[1] == headwise("predict", trained, "--text", "one .")[1]


def test_files_pipes_and_texts_are_read_in_order(headwise, trained, tmp_path):
    path, pipe = tmp_path / "in.txt", tmp_path / "pipe"
    path.write_bytes(SENTENCES)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"six and seven .\n",))
    writer.start()
    code, out, _ = headwise("predict", trained, pipe, "--file", path, "--text", "three and four .")
    writer.join()
    assert code == 0
    wanted = ["six and seven .", "one and two .", "", "six and seven .", "three and four .", "three and four ."]
    assert out.splitlines() == package.load(trained).translate(wanted)


def test_predictions_as_json(headwise, trained):
    code, out, _ = headwise("predict", trained, "one and two .", "", "--json", "--n-best", 2, "--alignments")
    first, second = map(json.loads, out.splitlines())
    assert code == 0
    assert first["source"] == "one and two ."
    assert [set(found) for found in first["translations"]] == [{"text", "score", "log_prob", "tokens", "links"}] * 2
    assert second == {"source": "", "translations": []}


def test_samples_of_equal_lines_differ_over_batches(headwise, trained):
    arguments = ["--temperature", 3.0, "--seed", 1, "--batch", 2]
    code, out, _ = headwise("predict", trained, *["one and two ."] * 8, *arguments)
    assert code == 0
    assert len(set(out.splitlines())) > 2
    assert headwise("predict", trained, *["one and two ."] * 8, *arguments)[1] == out


@pytest.mark.filterwarnings("default")
def test_a_source_beyond_what_the_model_knows_is_cut_aloud(headwise, trained):
    longest = package.load(trained).longest
    code, out, err = headwise("predict", trained, "one " * (longest + 9))
    assert code == 0
    assert out.count("\n") == 1
    assert f"has {longest + 9:,} tokens; only the first {longest:,} are read" in err


def test_the_held_out_part_is_scored_without_naming_it(headwise, trained):
    code, out, _ = headwise("evaluate", trained, "--json")
    assert code == 0
    valid = headwise("evaluate", trained, "--split", "valid", "--json")[1]
    assert json.loads(out)["examples"] > 0
    assert json.loads(valid)["loss"] != json.loads(out)["loss"]
    code, _, err = headwise("evaluate", trained, "--split", "tset")
    assert code == 2
    assert "unknown split 'tset'; did you mean 'test'?" in err


def test_the_table_of_an_explanation_alone(headwise, trained, tmp_path):
    folder = tmp_path / "figures"
    code, out, _ = headwise("explain", trained, "one and two .", "--table", "--folder", folder)
    assert code == 0
    assert "mean of 2 heads" in out
    assert not folder.exists()


def test_a_file_is_scored_as_it_stands_whatever_the_recipe_says_of_its_own(headwise, pairs_file, tmp_path):
    lines = [line.split("\t") for line in pairs_file.read_text().splitlines()]
    for side, column in (("en", 0), ("fr", 1)):
        (tmp_path / side).write_text("".join(f"{line[column]}\n" for line in lines))
    recipe = pairs_file.parent / "recipe.toml"
    sides = {"": tmp_path / "en", "_target": tmp_path / "fr"}
    own = [f"data.{part}{end}={path}" for part in ("train", "test") for end, path in sides.items()]
    assert headwise("train", recipe, *own, "training.max_steps=1", "--run-folder", tmp_path / "run")[0] == 0
    code, out, err = headwise("evaluate", tmp_path / "run", "--data", pairs_file, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["examples"] == len(lines)
    assert out == headwise("evaluate", tmp_path / "run", "--json")[1]


def test_the_line_of_the_readme_that_draws_a_picture(trained, tmp_path, monkeypatch):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in readme.splitlines() if line.startswith("translator.explain(")]
    monkeypatch.chdir(tmp_path)
    exec(line, {"translator": package.load(trained)})
    assert [path.read_bytes()[:4] for path in tmp_path.iterdir()] == [b"\x89PNG"]


@pytest.fixture
def large_layers(monkeypatch):
    """As if the layers of the tiny run were large."""
    monkeypatch.setattr(inference, "SMALLEST_INT8", 1)
    monkeypatch.setattr(precision, "int8_gain", lambda: 4.0)


def test_a_precision_is_checked_reported_and_remembered(headwise, trained, large_layers):
    code, out, err = headwise("predict", trained, "--text", "one and two .", "--precision", "int8")
    assert code == 0
    assert out.count("\n") == 1
    assert err.startswith("precision int8: bleu ") or "8 bits would lose too much: bleu" in err
    assert " in place of " in err
    assert (trained / "decoding.json").exists()
    # an allowed loss is one of the same numbers for the other verb
    code, _, again = headwise("evaluate", trained, "--split", "train", "--limit", "3", "--precision", "int8", "--json")
    assert code == 0
    assert again == err
    assert "4.0 times the rate of float32 here" in headwise("predict", trained, "two", "--precision", "auto")[2] or (
        "would lose too much" in err
    )
    assert headwise("predict", trained, "two")[2] == ""


def test_a_service_settles_its_precision_before_requests(trained, large_layers, capsys):
    run = load_runs([trained])[trained.name]
    serve._search_in(run, "int8")
    assert capsys.readouterr().out.startswith(f"{trained.name}: precision ")
    twin, model = run.predictor.twin(), run.predictor.model
    assert twin.choice(model, "fp32") == twin.choice(model, "int8")
    # no request waits for a check
    other = load_runs([trained])[trained.name]
    serve._search_in(other, None)
    assert capsys.readouterr().out == ""
    assert "checked when the service starts" in other.predictor.twin().choice(other.predictor.model, "int8").reason
    assert other.predictor.twin().choice(other.predictor.model, "bf16").precision == "bf16"
    with pytest.raises(ConfigError, match="precision"):
        serve._search_in(other, "int4")


def test_a_precision_that_is_not_there_is_refused(headwise, trained):
    code, _, err = headwise("predict", trained, "--text", "one", "--precision", "int4")
    assert code == 2
    assert "precision" in err
    assert "int4" in err
