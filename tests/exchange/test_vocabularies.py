"""Folders without a tokenizer.json: sentencepiece models and word lists are read as transformers reads them."""

import json
import os
import sys

import pytest
import torch

transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")

from their_models import encoder, made  # noqa: E402

import headwise  # noqa: E402
from headwise.data.files import resolve  # noqa: E402
from headwise.decoding.search import DecodingConfig  # noqa: E402
from headwise.errors import CheckpointError, MachineError  # noqa: E402
from headwise.exchange import huggingface  # noqa: E402
from headwise.training.loading import recipe_of  # noqa: E402
from headwise.training.recipe import flattened  # noqa: E402
from headwise.training.start import Start  # noqa: E402

PAIRS = [line.split("\t")[:2] for line in resolve("headwise:phrasebook.en-fr.tsv").read_text().splitlines()[:600]]
TEXTS = [source for source, _ in PAIRS[:40]]
# spaces, characters that no piece has, names of special tokens
TEXTS += ["", "  two  spaces ", "字", "a 字字 b", "</s>", "Üx", "\t", "123 !?"]


def trained(path, texts, **settings):
    """A sentencepiece model of texts, as a file."""
    with open(path, "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=file, minloglevel=2, **{"vocab_size": 160, **settings}
        )
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
LLAMA = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1, "model_type": "bpe", "byte_fallback": True}
FILES = {
    "t5": ("spiece.model", T5, 100, {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}),
    "pegasus": ("spiece.model", T5, 103, {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}),
    "llama": ("tokenizer.model", {**LLAMA, "vocab_size": 400}, 0, {"bos_token_id": 1, "eos_token_id": 2}),
}


def without_json(folder):
    """The files of a tokenizer gone."""
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)


@pytest.mark.parametrize("name", FILES)
def test_tokens_of_a_sentencepiece_model_are_those_of_transformers(name, tmp_path):
    file, settings, more, tokens = FILES[name]
    folder = tmp_path / "theirs"
    folder.mkdir()
    pieces = trained(folder / file, [text for pair in PAIRS for text in pair], **settings)
    made(folder, name, vocab_size=len(pieces) + more, **tokens)
    without_json(folder)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    start = Start.read(folder)
    start.publish(tmp_path / "run")
    predictor = headwise.load(tmp_path / "run")
    own = predictor.tokenizer if name == "llama" else predictor.source_tokenizer
    ends = [] if name == "llama" else [own.target.eos_id]
    for text in TEXTS:
        assert [*own.encode(text), *ends] == words(text)["input_ids"], text
        ids = own.target.encode(text)
        assert own.decode(ids).strip() == words.decode(ids, skip_special_tokens=True).strip(), text
    assert predictor.predict(TEXTS[:2])


def test_a_list_of_words_is_read_too(tmp_path):
    _, words = encoder(tmp_path, "bert", "classify")
    before = Start.read(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(words.convert_ids_to_tokens(range(len(words)))) + "\n")
    without_json(tmp_path)
    kind = transformers.AutoTokenizer.from_pretrained(tmp_path)
    Start.read(tmp_path).publish(tmp_path / "run")
    own = headwise.load(tmp_path / "run").tokenizer
    for text in ("w1 w12", "W3  字", ""):
        assert own.encode(text) == kind(text)["input_ids"] == words(text)["input_ids"]
    assert before.recipe.model_dump() == Start.read(tmp_path).recipe.model_dump()


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """A folder of Marian as older ones are: a model of pieces for each side, and one list of their numbers."""
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    folder.mkdir()
    texts = [[source for source, _ in PAIRS], [target for _, target in PAIRS]]
    sides = [trained(folder / f"{side}.spm", own) for side, own in zip(("source", "target"), texts, strict=True)]
    pieces = {side.id_to_piece(n): None for side in sides for n in range(len(side))}
    # a few that Marian did not see in training, and a code of a language
    lost = [piece for piece in pieces if len(piece) == 2][:5]
    kept = [piece for piece in pieces if piece not in (*lost, "<s>", "</s>", "<unk>")]
    names = ["</s>", "<unk>", *kept, ">>fr<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(names)}))
    numbers = {"eos_token_id": 0, "pad_token_id": len(names) - 1, "decoder_start_token_id": len(names) - 1}
    model, _ = made(folder, "marian", vocab_size=len(names), decoder_vocab_size=len(names), **numbers)
    with torch.no_grad():
        model.final_logits_bias[0, 0], model.final_logits_bias[0, 2] = 4.0, 0.0
    model.save_pretrained(folder)
    without_json(folder)
    return folder, model


@pytest.fixture
def words(marian):
    with pytest.warns(UserWarning, match="sacremoses"):
        return transformers.MarianTokenizer.from_pretrained(marian[0])


def test_marian_reads_and_writes_pieces_as_there(marian, words, tmp_path):
    folder, model = marian
    Start.read(folder).publish(tmp_path / "run")
    predictor = headwise.load(tmp_path / "run")
    source, target = predictor.source_tokenizer, predictor.target_tokenizer
    assert target is source.target
    unknown = 0
    for text in [*TEXTS, ">>fr<< go on .", *(french for _, french in PAIRS[:40])]:
        theirs = words(text)["input_ids"]
        assert [*source.encode(text), target.eos_id] == theirs, text
        unknown += theirs.count(words.unk_token_id)
        assert [*target.encode(text), target.eos_id] == words(text_target=text)["input_ids"], text
    assert unknown > 5
    keep = [text for text in TEXTS if text.strip()]
    read = words(keep, return_tensors="pt", padding=True)
    rows = model.generate(**read, num_beams=3, do_sample=False, max_new_tokens=9, early_stopping=True)
    config = DecodingConfig(beam_size=3, stopping="full", max_len=9, max_len_a=0, max_len_b=9)
    expected = words.batch_decode(rows, skip_special_tokens=True)
    assert predictor.translate(keep, config=config) == [" ".join(text.split()) for text in expected]


def test_marian_comes_back(marian, tmp_path):
    start = Start.read(marian[0])
    start.publish(tmp_path / "run")
    source = headwise.load(tmp_path / "run").source_tokenizer
    exported = huggingface.write(flattened(recipe_of(tmp_path / "run")), start.tensors, (source,))
    assert {"tokenizer.json", "target_tokenizer.json"} <= exported.files.keys()
    again = tmp_path / "again"
    again.mkdir()
    for name, content in {**exported.files, "config.json": json.dumps(exported.config).encode()}.items():
        (again / name).write_bytes(content)
    (again / "model.safetensors").write_bytes((marian[0] / "model.safetensors").read_bytes())
    Start.read(again).publish(tmp_path / "back")
    back = headwise.load(tmp_path / "back").source_tokenizer
    fast = transformers.AutoTokenizer.from_pretrained(again)
    for text in TEXTS:
        if source.unk_id not in source.encode(text):
            assert back.encode(text) == source.encode(text)
            assert back.target.encode(text) == source.target.encode(text)
        assert fast(text)["input_ids"][:-1] == back.encode(text)


def test_a_marian_of_two_vocabularies(tmp_path):
    folder, sizes = tmp_path / "theirs", []
    folder.mkdir()
    for side, file in enumerate(("vocab.json", "target_vocab.json")):
        name = ("source.spm", "target.spm")[side]
        pieces = trained(folder / name, [pair[side] for pair in PAIRS], vocab_size=140 + side)
        names = ["</s>", "<unk>", *(pieces.id_to_piece(n) for n in range(3, len(pieces))), "<pad>"]
        (folder / file).write_text(json.dumps({piece: number for number, piece in enumerate(names)}))
        sizes.append(len(names))
    numbers = {"eos_token_id": 0, "pad_token_id": 139, "decoder_start_token_id": 139}
    made(
        folder, "marian", vocab_size=sizes[0], decoder_vocab_size=sizes[1], share_encoder_decoder_embeddings=False,
        **numbers,
    )  # fmt: skip
    without_json(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True}))
    Start.read(folder).publish(tmp_path / "run")
    predictor = headwise.load(tmp_path / "run")
    with pytest.warns(UserWarning, match="sacremoses"):
        words = transformers.MarianTokenizer.from_pretrained(folder)
    for source, target in PAIRS[:30]:
        assert [*predictor.source_tokenizer.encode(source), 0] == words(source)["input_ids"]
        assert [*predictor.target_tokenizer.encode(target), 0] == words(text_target=target)["input_ids"]


@pytest.fixture
def folder(marian, tmp_path):
    for path in marian[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize("content", [b"", b"\xff" * 99, b"\n\x05abc"])
@pytest.mark.parametrize("name", ["source.spm", "target.spm", "spiece.model"])
def test_a_damaged_model_of_pieces_is_named(folder, name, content):
    if name == "spiece.model":
        for side in ("source", "target"):
            (folder / f"{side}.spm").unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{name}: is no sentencepiece model"):
        Start.read(folder)


def test_links_and_lists_that_do_not_number_are_refused(folder):
    text = (folder / "vocab.json").read_text()
    pieces = json.loads(text)
    for values in ({**pieces, "</s>": -1}, {**pieces, "more": 10**9}, {**pieces, "more": 0}, {**pieces, "more": "1"}):
        (folder / "vocab.json").write_text(json.dumps(values))
        with pytest.raises(CheckpointError, match=r"vocab\.json: does not number its pieces"):
            Start.read(folder)
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate({*pieces} - {"<unk>"})}))
    with pytest.raises(CheckpointError, match="list of pieces has no '<unk>'"):
        Start.read(folder)
    (folder / "vocab.json").write_text(text)
    for name in ("source.spm", "vocab.json"):
        (folder / name).rename(folder / "elsewhere")
        os.symlink(folder / "elsewhere", folder / name)
        with pytest.raises(CheckpointError, match=rf"{name}.*is a link"):
            Start.read(folder)
        (folder / name).unlink()
        (folder / "elsewhere").rename(folder / name)


@pytest.mark.parametrize("name", ["sentencepiece", "google.protobuf"])
def test_a_missing_package_is_named(folder, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MachineError, match=r"\.spm: is read by transformers.*pip install 'headwise\[hf\]'"):
        Start.read(folder)


def test_no_code_of_a_folder_is_run(tmp_path):
    made(tmp_path, "t5", vocab_size=260, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    without_json(tmp_path)
    trained(tmp_path / "spiece.model", [source for source, _ in PAIRS], **T5)
    (tmp_path / "evil.py").write_text("raise SystemExit('run')")
    settings = {"auto_map": {"AutoTokenizer": ["evil.T", "evil.T"]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert Start.read(tmp_path).recipe.task == "translate"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "evil.T"}))
    with pytest.raises(CheckpointError, match=r"spiece\.model: transformers cannot read it"):
        Start.read(tmp_path)
