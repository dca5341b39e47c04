"""What a run of an imported model has besides its weights: its recipe, its tokenizers, the names of its labels."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from headwise.data.tokenizers import Specials, Tokenizer, TokenizerConfig
from headwise.errors import CheckpointError, DataError, Unsupported
from headwise.exchange.families.images import PROCESSOR, PROCESSOR_KEYS, processor_values
from headwise.exchange.folder import CONFIG, TARGET_TOKENIZER, TOKENIZER, Folder
from headwise.exchange.keys import Flat, read_keys, refused, write_keys
from headwise.exchange.vocabularies import pieces_behind, sides_differ, tokenizer_of

# a search without a limit of its own
_LONGEST = 256
# tokens of a training window at most
_WINDOW = 1024

# what stands in place of a data file
NO_DATA = "(imported without data; name a file with --data)"
# the files of a task's tokenizers, that of what is written last
FILES = {
    "translate": ("source.tokenizer.json", "target.tokenizer.json"),
    "summarise": ("source.tokenizer.json", "target.tokenizer.json"),
    "language-model": ("text.tokenizer.json",),
    "masked-lm": ("text.tokenizer.json",),
    "classify": ("tokenizer.json",),
    "regress": ("tokenizer.json",),
    "tag": ("tokenizer.json",),
}
# the tasks whose models are an encoder of texts below a head
ENCODED = ("classify", "regress", "tag", "masked-lm")
# the tasks whose models write
WRITE = ("translate", "summarise", "language-model")
# sections of a recipe that follow from an imported model, and keys without one
_SECTIONS, _KEYS = ("model", "pooling", "output", "decoding"), ("tie_output", "transform_bias")


def _token(value: Any, name: str, size: int, where: str) -> int | None:
    """A token of a configuration; -1 says that there is none."""
    if value is None or value == -1:
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if type(value) is not int or not 0 <= value < size:
        raise refused(where, name, value)
    return value


def read_files(folder: Folder, flat: Flat, family: str) -> dict[str, bytes]:
    """The files of a run, by name. Raises: Unsupported or CheckpointError naming what has no counterpart or is damaged.

    Args:
        family: of the model.
    """
    task = flat["task"]
    if task == "image-classify":
        return {"images.json": _json(_pictures(folder, flat))}
    files = _tokenizers(folder, flat, _specials(flat, folder).model_copy(update={"family": family}), task)
    if task in ("classify", "tag"):
        labels = read_labels(folder)
        # how often each occurred in training is not known
        files |= {"classes.json": _json(dict.fromkeys(labels, 0))} if task == "classify" else _tag_files(labels)
    if task == "regress":
        files["scale.json"] = _json({"mean": 0.0, "deviation": 1.0})
    return files


def read_labels(folder: Folder) -> list[str]:
    """The names of labels by their numbers. Raises: Unsupported where they are none, or two are one."""
    values = folder.config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    try:
        names = {int(number): name for number, name in values.items()}
        labels = [names[number] for number in range(len(names))]
        right = labels and len(set(labels)) == len(labels) and all(isinstance(name, str) and name for name in labels)
    except (AttributeError, ValueError, KeyError, TypeError):
        right = False
    if not right:
        raise refused(str(folder.path / CONFIG), "id2label", values)
    return labels


def described_labels(task: str, labels: Sequence[str]) -> dict[str, Any]:
    """Keys of config.json that say the labels."""
    if task not in ("classify", "regress", "tag", "image-classify"):
        return {}
    names = list(labels) if task != "regress" else ["LABEL_0"]
    kind = {"classify": "single_label_classification", "regress": "regression"}.get(task)
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        **({} if kind is None else {"problem_type": kind}),
    }


def _pictures(folder: Folder, flat: Flat) -> dict[str, Any]:
    """What a classifier of images knows besides its weights."""
    where, read = str(folder.path / PROCESSOR), flat
    shape = [*flat["data.size"], flat["data.channels"]]
    if abs(read["images.factor"] * 255 - 1) > 1e-6:
        raise refused(where, "rescale_factor", read["images.factor"])
    constants = {"mean": read["images.mean"], "deviation": read["images.deviation"]}
    if not read["images.normalized"]:
        constants = {"mean": [0.0] * shape[2], "deviation": [1.0] * shape[2]}
    for name, key in (("mean", "image_mean"), ("deviation", "image_std")):
        if len(constants[name]) != shape[2] or not all(math.isfinite(number) for number in constants[name]):
            raise refused(where, key, constants[name])
    if min(constants["deviation"]) <= 0:
        raise refused(where, "image_std", constants["deviation"])
    labels = read_labels(folder)
    # how often each occurred in training is not known
    return {"shape": shape, **constants, "classes": labels, "frequent": labels[0]}


def read_processor(folder: Folder, flat: Flat) -> Flat:
    """How pictures become what a model reads."""
    where, values = str(folder.path / PROCESSOR), processor_values(folder.processor(PROCESSOR))
    read = read_keys(PROCESSOR_KEYS, values, where)
    cut, size, own = read["images.cut"], read["images.size"], flat["data.size"]
    if cut and (read["images.middle"] != own or not all(map(int.__le__, own, size))):
        raise refused(where, "crop_size", values.get("crop_size"))
    if not cut and size != own:
        raise refused(where, "size", values.get("size"))
    fit = {"data.fit": "crop", "data.crop_from": size} if cut and size != own else {"data.fit": "resize"}
    return {**read, **fit}


def with_pictures(flat: Flat, pictures: Mapping[str, Any]) -> Flat:
    """The keys with what is known of the images of a run."""
    height, width, channels = pictures["shape"]
    fit, whole = flat.get("data.fit"), flat.get("data.crop_from") or [height, width]
    images = {"size": [*whole], "mean": pictures["mean"], "deviation": pictures["deviation"]}
    images |= {"factor": 1 / 255, "normalized": True, "cut": fit == "crop", "middle": [height, width]}
    if fit == "pad":
        raise Unsupported("data.fit = 'pad' has no counterpart there: pictures are stretched")
    own = {f"images.{name}": value for name, value in images.items()}
    return {**flat, **own, "data.size": [height, width], "data.channels": channels}


def processor(flat: Flat) -> dict[str, bytes]:
    """The file that says how pictures become numbers."""
    values = write_keys(PROCESSOR_KEYS, flat)
    for key in ("size", "crop_size"):
        values[key] = dict(zip(("height", "width"), values[key], strict=True))
    # older classes of ViT cut no middle
    values["image_processor_type"] = f"{'DeiT' if values['do_center_crop'] else 'ViT'}ImageProcessor"
    return {PROCESSOR: _json(values)}


def _tag_files(labels: Sequence[str]) -> dict[str, bytes]:
    """The tags, and how they mark spans; the words of training are not known."""
    marks = {label.partition("-")[0] for label in labels if label != "O"}
    schemes = {"iob2": {"B", "I"}, "iobes": {"B", "I", "E", "S"}, "bilou": {"B", "I", "L", "U"}}
    scheme = next((name for name, own in schemes.items() if marks == own), None)
    files = {"tags.json": _json(list(labels)), "words.json": _json({})}
    return files if scheme is None else {**files, "spans.json": _json({"scheme": scheme})}


def _json(values: Any) -> bytes:
    return (json.dumps(values, ensure_ascii=False) + "\n").encode()


def _specials(flat: Flat, folder: Folder) -> Specials:
    """The special tokens, but for what stands around texts."""
    where, size = str(folder.path), flat["target.vocab_size"]
    names = {"pad": "pad", "bos": "decoder_start", "eos": "eos", "begin": "bos"}
    tokens = {key: _token(flat.get(f"specials.{key}"), f"{name}_token_id", size, where) for key, name in names.items()}
    first = _token(flat.get("specials.first"), "forced_bos_token_id", size, where)
    last = _token(flat.get("specials.last"), "forced_eos_token_id", size, where)
    if last not in (None, tokens["eos"]):
        raise refused(where, "forced_eos_token_id", last)
    banned = list(flat.get("specials.suppressed") or [])
    for word in flat.get("specials.bad_words") or []:
        if not isinstance(word, list) or len(word) != 1:
            raise refused(where, "bad_words_ids", word)
        banned += word
    begin = tokens.pop("begin")
    return Specials(
        rows=size,
        **{**tokens, "bos": begin if tokens["bos"] is None else tokens["bos"]},
        banned=tuple(
            token for token in (_token(token, "bad_words_ids", size, where) for token in banned) if token is not None
        ),
        first=() if first is None else (first,),
    )


def _tokenizers(folder: Folder, flat: Flat, specials: Specials, task: str) -> dict[str, bytes]:
    """The tokenizers of the run, by file name."""
    names = FILES[task]
    config, writes = TokenizerConfig.model_validate(recipe_of(flat, task)["tokenizer"]), len(names) > 1
    rows = {TOKENIZER: flat["tokenizer.vocab_size"]}
    if writes and not flat["model.tie_embeddings"]:
        rows[TARGET_TOKENIZER] = flat["target.vocab_size"]
    files = {}
    target = tokenizer_of(folder, TARGET_TOKENIZER) if writes and len(rows) == 1 and sides_differ(folder) else None
    for (name, size), ours in zip(rows.items(), names, strict=False):
        described = tokenizer_of(folder, name)
        own = specials.model_copy(update={"rows": size, "behind": pieces_behind(folder, size, described, target)})
        if task == "tag":
            described = _of_words(described)
        tokenizer = _framed(described, config, own, str(folder.path / name), ends=writes, target=target)
        if task == "masked-lm":
            tokenizer = _with_mask(tokenizer, folder.token_names.get("mask_token"), str(folder.path / name))
        files[ours] = tokenizer.to_bytes()
    return files


def _with_mask(tokenizer: Tokenizer, named: str | None, path: str) -> Tokenizer:
    """A tokenizer that has a mask: of a usual name, or of that in tokenizer_config.json."""
    known, entries = tokenizer.imported, tokenizer.entries()
    assert known is not None
    if known.mask is not None:
        return tokenizer
    if named not in entries:
        raise Unsupported(f"{path}: has no token [MASK] or <mask>, nor does tokenizer_config.json name a mask_token")
    specials = known.model_copy(update={"mask": entries.index(named)})
    return Tokenizer.of_imported(tokenizer.described(), tokenizer.config, specials, path)


def for_words(data: bytes) -> bytes:
    """The file of a tokenizer as one for a task that reads words."""
    document = json.loads(data)
    if document.get("specials") is None:
        return data
    document["tokenizer"] = _of_words(document["tokenizer"])
    return json.dumps(document, ensure_ascii=False, sort_keys=True).encode()


def _of_words(described: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer that reads each word as it stands within a text, with the space before it."""
    cutter = described.get("pre_tokenizer")
    if not isinstance(cutter, dict) or cutter.get("type") != "ByteLevel":
        return dict(described)
    return {**described, "pre_tokenizer": {**cutter, "add_prefix_space": True}}


def _framed(
    described: Mapping[str, Any],
    config: TokenizerConfig,
    specials: Specials,
    name: str,
    *,
    ends: bool,
    target: Mapping[str, Any] | None,
) -> Tokenizer:
    """A tokenizer with what its post-processor puts around texts.

    Args:
        ends: texts end in the token of their end, which is added elsewhere.
        target: the tokenizer of what is written, where it is another one.
    """
    try:
        framed = Tokenizer.of_imported(described, config, specials, name)
        before, after, silent, unk, mask = framed.frame()
    except DataError as error:
        raise CheckpointError(str(error)) from None
    if config.spaces == "kept":
        # what stands before a text stands before a prompt alone
        if after:
            raise Unsupported(f"{name}: puts tokens after a text that is to go on")
        specials, before = specials.model_copy(update={"first": before}), ()
    if ends:
        if after[-1:] != (specials.eos,):
            raise Unsupported(
                f"{name}: texts do not end in the token eos_token_id = {specials.eos}, as the model reads them"
            )
        after = after[:-1]
    around = {"before": before, "after": after, "silent": silent, "unk": unk, "mask": mask}
    return Tokenizer.of_imported(described, config, specials.model_copy(update=around), name, target)


def recipe_of(flat: Flat, task: str) -> dict[str, Any]:
    """The recipe of an imported model; what it was trained on is not known."""
    values: dict[str, Any] = {"task": task, "seed": 0}
    for key, value in flat.items():
        section, _, name = key.partition(".")
        if section in _SECTIONS and value is not None and key != "decoding.sampled":
            values.setdefault(section, {})[name] = value
        if key in _KEYS:
            values[key] = value
    if task == "image-classify":
        keys = ("size", "channels", "fit", "crop_from", "resample")
        own = {key: flat[f"data.{key}"] for key in keys if f"data.{key}" in flat}
        values["data"] = {"train": NO_DATA, **own}
        return values
    max_len = flat["model.max_len"]
    values["tokenizer"] = {"kind": "imported", "vocab_size": flat["tokenizer.vocab_size"], "normalize": "none"}
    if task in ("translate", "summarise"):
        values["tokenizer"]["spaces"] = "joined"
        values["data"] = {"train": NO_DATA, "max_source_len": max_len - 1, "max_target_len": max_len - 1}
    if task not in WRITE:
        values["tokenizer"]["spaces"] = "joined"
        values["data"] = {"train": NO_DATA, **({"max_len": max_len} if task in ("classify", "regress") else {})}
    if task == "masked-lm":
        values.pop("pooling", None)
        values["length"] = min(max_len, _WINDOW)
    if task == "language-model":
        values["tokenizer"]["spaces"] = "kept"
        values |= {"data": {"train": NO_DATA}, "length": min(max_len, _WINDOW), "ngram": 0}
    if "decoding" in values:
        values["decoding"] = _decoding(flat, values["decoding"], max_len)
    return values


def _decoding(flat: Flat, values: Mapping[str, Any], max_len: int) -> dict[str, Any]:
    decoding = dict(values)
    sampled, beams = flat["decoding.sampled"], decoding["beam_size"]
    decoding["method"] = "sample" if sampled else "greedy" if beams == 1 else "beam"
    if not sampled:
        # they belong to samples
        for name in ("temperature", "top_k", "top_p"):
            decoding.pop(name)
    start = 1 if flat["model.kind"] == "transformer" else 0
    limit = flat.get("limits.max_new_tokens") or (flat.get("limits.max_length") or 0) - start
    longest = min(limit, max_len) if limit > 0 else min(_LONGEST, max_len)
    # that of a decoder counts what it reads too
    longest = longest if start else min(longest, max(1, max_len // 2))
    decoding |= {"max_len": longest, "min_len": min(longest, max(0, (flat.get("limits.min_length") or 0) - start))}
    if flat["model.kind"] == "transformer":
        # there the length of a source limits nothing
        decoding |= {"max_len_a": 0.0, "max_len_b": float(longest)}
    return decoding
