import pytest

from headwise.data.files import data_cache
from headwise.errors import ConfigError, DataError
from headwise.training import recipes
from headwise.training.recipe import read_recipe

NAMES = [
    "backcopy",
    "bahdanau-fra-eng",
    "brackets",
    "copy",
    "cora",
    "dialogues",
    "eshop-mean",
    "eshop",
    "esol",
    "ewt-upos",
    "fashion-mnist-pixels",
    "fashion-mnist-vit",
    "fashion-mnist",
    "fsdd-digits",
    "fsdd-frames",
    "fsdd-speakers",
    "fsdd-strings-attention",
    "fsdd-strings",
    "hops",
    "largest",
    "listops",
    "lookup",
    "match",
    "mqar",
    "multi30k-recurrent",
    "multi30k-tiny",
    "needle",
    "odd",
    "ones",
    "parity",
    "pathfinder",
    "phrasebook",
    "recall",
    "refills",
    "repeat",
    "retrieval",
    "reverse",
    "shapes-pixels",
    "shapes",
    "shift",
    "sort",
    "sst2-1000",
    "sst2-characters",
    "sst2-masked",
    "sst2",
    "tatoeba-en-fr",
    "tiny-shakespeare",
    "waves",
    "wikitext-2-vectors",
    "wikitext-2",
]


def test_recipes_ship_with_a_line_about_each():
    assert list(recipes.shipped()) == NAMES
    assert all(line.endswith(".") for line in recipes.catalogue().values())


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_recipe_is_valid_and_every_key_is_commented(name):
    path = recipes.find(name)
    read_recipe(path)
    for line in path.read_text(encoding="utf-8").splitlines():
        assert not line or line.startswith("#") or "  # " in line


def test_the_course_recipe_has_the_course_settings():
    recipe = read_recipe(recipes.find("bahdanau-fra-eng"))
    model, training = recipe.model, recipe.training
    assert (model.cell, model.embed_dim, model.hidden_dim, model.num_layers) == ("gru", 32, 32, 2)
    assert (model.score, model.dropout, recipe.data.limit) == ("additive", 0.1, 600)
    assert (training.learning_rate, training.max_epochs, training.batch_sentences) == (0.005, 250, 64)


def test_the_sizes_of_the_multi30k_recipe():
    recipe = read_recipe(recipes.find("multi30k-tiny"))
    m = recipe.model
    assert (m.encoder_layers, m.decoder_layers, m.d_model, m.d_ff, m.num_heads, m.dropout) == (4, 4, 128, 256, 4, 0.3)
    assert (recipe.tokenizer.kind, recipe.tokenizer.vocab_size, recipe.tokenizer.joint) == ("bpe", 8000, True)


def test_the_sizes_of_the_tagging_recipe():
    recipe = read_recipe(recipes.find("ewt-upos"))
    assert (recipe.model.kind, recipe.model.d_model, recipe.model.hidden_dim) == ("rnn", 128, 128)
    assert (recipe.tokenizer.kind, recipe.spelling.longest, recipe.pooling.place) == ("bpe", 4, "before")


def test_the_phrasebook_needs_no_file_of_the_user():
    recipe = recipes.read("phrasebook", ["model.num_heads=8"])
    assert recipe.data.train == "headwise:phrasebook.en-fr.tsv"
    assert recipe.model.num_heads == 8


def test_an_unknown_name_has_the_nearest_one():
    with pytest.raises(
        ConfigError, match=r"unknown recipe 'phrasbook'; did you mean 'phrasebook'\? \(a recipe of your own"
    ):
        recipes.find("phrasbook")
    with pytest.raises(ConfigError, match=r"mine\.toml: no such file; `headwise list recipes` names the recipes"):
        recipes.find("mine.toml")


def test_data_is_found_beside_the_recipe_then_here_then_in_the_cache(pairs_file, tmp_path, monkeypatch):
    here, cached = tmp_path / "here", tmp_path / "cache"
    recipe = pairs_file.parent / "recipe.toml"
    for folder in (here, cached):
        folder.mkdir()
        (folder / "other.tsv").write_text("a\tb\n")
        (folder / "pairs.tsv").write_text("a\tb\n")
    (cached / "third.tsv").write_text("a\tb\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("HEADWISE_DATA", str(cached))
    assert recipes.read(str(recipe), []).data.train == str(pairs_file)
    assert recipes.read(str(recipe), ["data.train=other.tsv"]).data.train == str(here / "other.tsv")
    assert recipes.read(str(recipe), ["data.train=pairs.tsv"]).data.train == str(here / "pairs.tsv")
    assert recipes.read(str(recipe), ["data.train=third.tsv"]).data.train == str(cached / "third.tsv")
    assert recipes.read(str(recipe), [f"data.train={pairs_file}"]).data.train == str(pairs_file)


def test_data_that_is_nowhere_names_every_place(pairs_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWISE_DATA", "/nowhere")
    with pytest.raises(DataError) as error:
        recipes.read(str(pairs_file.parent / "recipe.toml"), ["data.valid=missing.tsv"])
    expected = f"missing.tsv: not found in {tmp_path}, {pairs_file.parent}, /nowhere; "
    assert str(error.value) == expected + "set HEADWISE_DATA to the folder of data, or data.valid=PATH"
    # one that can be fetched
    with pytest.raises(DataError, match=r"data.valid=PATH, or run `headwise data fetch esol`$"):
        recipes.read(str(pairs_file.parent / "recipe.toml"), ["data.valid=esol/x.tsv"])


def test_the_cache_is_in_the_home_folder_unless_named(monkeypatch):
    monkeypatch.delenv("HEADWISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert str(data_cache()) == "/caches/headwise/data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(data_cache()) == "/home/somebody/.cache/headwise/data"


@pytest.mark.slow
def test_the_command_keeps_nothing(headwise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = "model.d_model=8", "model.d_ff=16", "data.limit=120", "decoding.max_len=5"
    code, out, _ = headwise("train", "phrasebook", *small, "--smoke")
    assert code == 0
    assert "works:   phrasebook (on at most 8 examples after a few steps: bleu " in out
    assert list(tmp_path.iterdir()) == []
