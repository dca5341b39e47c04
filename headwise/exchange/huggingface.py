"""Folders of Hugging Face transformers and runs of ours: one table of correspondence, read in both directions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.data.tokenizers import Tokenizer
from headwise.errors import CheckpointError, ConfigError, Unsupported, unknown
from headwise.exchange import generation
from headwise.exchange.families import FAMILIES, decoders, family_of
from headwise.exchange.family import Family, Spare, effective
from headwise.exchange.folder import CONFIG, Folder
from headwise.exchange.forms import Row, interleaved
from headwise.exchange.keys import Flat, write_keys
from headwise.exchange.run_files import (
    WRITE,
    described_labels,
    processor,
    read_files,
    read_processor,
    recipe_of,
    with_pictures,
)
from headwise.exchange.tokens import theirs_of_tokenizers
from headwise.runs.tensors import DTYPES

_SHOWN = 5
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Origin:
    """Where a model comes from.

    Args:
        sha256: of its weights.
        license: the licence line of its folder.
    """

    name: str
    sha256: str
    license: str

    def line(self) -> str:
        """One line for a log or a card."""
        return f"starts from {self.name} (SHA-256 {self.sha256}, license: {self.license})"


@dataclass(frozen=True)
class Imported:
    """A model of another program as one of ours.

    Args:
        values: its recipe.
        files: what a run has besides weights and recipe, by name.
        rows: its tensors.
    """

    values: dict[str, Any]
    files: dict[str, bytes]
    rows: list[Row]
    family: Family
    flat: Flat
    folder: Folder

    @property
    def origin(self) -> Origin:
        return Origin(self.folder.path.resolve().name, self.folder.sha256, self.folder.license)

    def tensors(self, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights by our names.

        Args:
            expected: the tensors of the recipe's model without those that are tied, on the meta device.

        Raises: CheckpointError naming what is missing, of another shape, or not finite; Unsupported naming what is
            left over.
        """
        order = _order(self.family, self.flat)
        self._check(expected, order)
        return {row.ours: self._inward(row, order) for row in self.rows}

    def _inward(self, row: Row, order: Tensor | None) -> Tensor:
        theirs = {name: self.folder.read(name) for name in (*row.theirs, *row.also)}
        if bad := [name for name, tensor in theirs.items() if not tensor.isfinite().all()]:
            raise CheckpointError(f"{self.folder.path}: '{bad[0]}' holds NaN or infinity")
        return row.inward(theirs, order).contiguous()

    def _check(self, expected: Mapping[str, Tensor], order: Tensor | None) -> None:
        """Compares the headers with what the configuration makes, before a tensor is read."""
        ours = {row.ours for row in self.rows}
        assert ours == expected.keys(), sorted(ours ^ expected.keys())
        shapes: dict[str, tuple[int, ...]] = {}
        for row in self.rows:
            theirs = row.outward(expected[row.ours], None if order is None else order.to("meta"))
            shapes |= {name: tuple(tensor.shape) for name, tensor in theirs.items()}
        entries, where = self.folder.entries, self.folder.path
        problems = [f"'{name}' is missing" for name in shapes if name not in entries]
        problems += [
            f"'{name}' has shape {list(entries[name].shape)}, {CONFIG} says {list(shape)}"
            for name, shape in shapes.items()
            if name in entries and entries[name].shape != shape
        ]
        if problems:
            raise CheckpointError(f"{where}: the weights do not fit {CONFIG}: {_listed(problems)}")
        spares = self.family.spares(self.flat)
        others = [name for name in entries if name not in shapes and not self._follows(name, spares)]
        if others:
            raise Unsupported(
                f"{where}: tensors without a counterpart here: {_listed([repr(name) for name in others])}"
            )

    def _follows(self, name: str, spares: Mapping[str, Spare]) -> bool:
        """Whether a tensor follows from others, so that nothing is lost without it."""
        spare = next((spare for pattern, spare in spares.items() if re.fullmatch(pattern, name)), None)
        if spare is None:
            return False
        if spare.like is None and spare.value is None:
            return True
        if spare.shape is not None and self.folder.entries[name].shape != spare.shape(self.flat):
            return False
        other = self.folder.read(spare.like) if spare.like else spare.value(self.flat)  # type: ignore[misc]
        tensor = self.folder.read(name)
        # what is computed here may be rounded there
        rounding = 0.0 if spare.like else torch.finfo(DTYPES[self.folder.entries[name].dtype]).eps
        return tensor.shape == other.shape and bool((tensor - other).abs().max() <= max(_TOLERANCE, rounding))


def read(folder: Folder, task: str | None = None) -> Imported:
    """The model of a folder.

    Args:
        task: what it is to be used for, where its class allows several.

    Raises: Unsupported naming the key, class or family without counterpart; CheckpointError and DataError for a folder
        that is damaged.
    """
    config, where = folder.config, str(folder.path / CONFIG)
    family = family_of(config.get("model_type"), where)
    task = _task(family, config, task, where)
    own = {key: value for key, value in config.items() if key not in generation.NAMES}
    flat = {**family.read_config(own, where, task), "task": task}
    if task == "image-classify":
        flat |= read_processor(folder, flat)
    if task in WRITE:
        flat |= generation.read(config, folder.generation)
    if flat.get("target.vocab_size") is None and "tokenizer.vocab_size" in flat:
        flat["target.vocab_size"] = flat["tokenizer.vocab_size"]
    folder.prefixed(family.prefix)
    _check_sizes(folder, flat)
    flat = family.late(flat, lambda name: folder.read(name) if name in folder.entries else None)
    return Imported(
        recipe_of(flat, task), read_files(folder, flat, family.name), family.rows(flat), family, flat, folder
    )


def _task(family: Family, config: Mapping[str, Any], task: str | None, where: str) -> str:
    named = config.get("architectures")
    kind = named[0] if isinstance(named, list) and len(named) == 1 else named
    if not isinstance(kind, str) or kind not in family.classes:
        raise Unsupported(
            f"{where}: architectures = {str(kind)[:80]!r}; these have a counterpart: {', '.join(family.classes)}"
        )
    tasks = family.classes[kind]
    if task is None or (task in family.starts and task not in tasks):
        return _natural_task(config, tasks)
    if task not in tasks:
        raise ConfigError(unknown("task", task, tasks))
    return task


def _natural_task(config: Mapping[str, Any], tasks: tuple[str, ...]) -> str:
    """The first task; numbers where a class for labels has one output."""
    labels, one = config.get("id2label"), config.get("problem_type") == "regression"
    one |= isinstance(labels, Mapping) and len(labels) == 1
    return "regress" if one and "regress" in tasks else tasks[0]


def _check_sizes(folder: Folder, flat: Flat) -> None:
    """Raises: CheckpointError for more layers or tokens than there are weights, before they take time and memory."""
    tensors = len(folder.entries)
    rows = max((entry.shape[0] for entry in folder.entries.values() if entry.shape), default=0)
    for key in ("tokenizer.vocab_size", "target.vocab_size"):
        if key in flat and (type(flat[key]) is not int or not 0 < flat[key] <= rows):
            raise CheckpointError(f"{folder.path}: {CONFIG} says {flat[key]!r} tokens; no tensor has so many rows")
    widest = max((side for entry in folder.entries.values() for side in entry.shape), default=0)
    for key in map("model.{}".format, ("d_model", "d_ff", "num_heads", "num_kv_heads", "head_dim")):
        value = flat.get(key)
        if value is not None and (type(value) is not int or not 0 < value <= widest):
            raise CheckpointError(f"{folder.path}: {CONFIG} says {key} = {str(value)[:40]}; no tensor has such a side")
    for key, value in flat.items():
        if key.endswith("_layers") and isinstance(value, int) and value > tensors:
            raise CheckpointError(f"{folder.path}: {CONFIG} says {value:,} layers, and there are {tensors:,} tensors")


@dataclass(frozen=True)
class Exported:
    """A run as a folder of transformers.

    Args:
        config, generation: the content of config.json and generation_config.json.
        tensors: the weights by their names.
        files: tokenizers and what describes them.
    """

    family: Family
    config: dict[str, Any]
    generation: dict[str, Any] | None
    tensors: dict[str, Tensor]
    files: dict[str, bytes]


def write(
    flat: Flat,
    tensors: Mapping[str, Tensor],
    tokenizers: tuple[Tokenizer, ...],
    labels: Sequence[str] = (),
    pictures: Mapping[str, Any] | None = None,
) -> Exported:
    """A run in the form of the family that it came with, else of the first that computes the same.

    Args:
        flat: the keys of its recipe.
        tensors: its weights, without those that are tied.
        tokenizers: of what it reads, and of what it writes if that is another one.
        labels: names of what a classifier or tagger says, by number.
        pictures: of a model of images: their shape (height, width, channels), mean and deviation.

    Raises: Unsupported naming for every family the keys with which the model is none of it.
    """
    if not any(flat["task"] in tasks for family in FAMILIES.values() for tasks in family.classes.values()):
        raise Unsupported(f"no class of transformers is for task '{flat['task']}'")
    flat = _described(effective(flat), tokenizers) if pictures is None else with_pictures(effective(flat), pictures)
    if flat.get("model.kind") == "decoder":
        flat, tensors = decoders.by_halves(flat, tensors)
    if flat.get("pooling.kind") == "cls":
        flat, tensors = fronted(flat, tensors, tokenizers[0])
    reasons, known = [], tokenizers[0].imported if tokenizers else None
    as_it_is, unscaled = (flat, tensors), decoders.unscaled(flat, tensors)
    for family in sorted(FAMILIES.values(), key=lambda family: known is None or family.name != known.family):
        if not any(flat["task"] in tasks for tasks in family.classes.values()):
            continue
        flat, tensors = as_it_is if family.constants.get("model.embedding_scale") else unscaled
        flat = {**family.assumed, **flat}
        try:
            config = family.write_config(flat)
        except Unsupported as error:
            reasons.append(str(error))
            continue
        order = _order(family, flat)
        theirs: dict[str, Tensor] = {}
        rows = family.rows(flat)
        assert {row.ours for row in rows} == tensors.keys(), sorted({row.ours for row in rows} ^ tensors.keys())
        for row in rows:
            theirs |= {name: part.contiguous() for name, part in row.outward(tensors[row.ours], order).items()}
        values = {name: spare.value(flat) for name, spare in family.spares(flat).items() if spare.value is not None}
        how = _generation(flat) if flat["task"] in WRITE else None
        files = theirs_of_tokenizers(tokenizers, flat, flat["model.max_len"]) if pictures is None else processor(flat)
        config |= described_labels(flat["task"], labels)
        return Exported(family, config, how, {**theirs, **values}, files)
    raise Unsupported("no class of transformers computes this model; " + " | ".join(reasons))


def fronted(flat: Flat, tensors: Mapping[str, Tensor], tokenizer: Tokenizer) -> tuple[Flat, dict[str, Tensor]]:
    """A model with a learned vector in front as one that reads the token of the begin there, which no text has."""
    if tokenizer.imported is not None:
        raise Unsupported("pooling.kind = 'cls' with imported tokens, which have a token in front; use 'first'")
    rest = dict(tensors)
    table = rest["embedding.weight"].clone()
    table[tokenizer.bos_id] = rest.pop("front")
    return {**flat, "pooling.kind": "first", "front": True}, {**rest, "embedding.weight": table}


def _generation(flat: Flat) -> dict[str, Any]:
    """generation_config.json, without keys that say nothing."""
    values = write_keys(generation.WRITTEN, flat)
    silent: tuple[str, ...] = () if flat["decoding.sampled"] else ("temperature", "top_k", "top_p")
    if values["num_beams"] == 1:
        silent += ("early_stopping", "length_penalty")
    return {name: value for name, value in values.items() if value is not None and name not in silent}


def _described(flat: Flat, tokenizers: tuple[Tokenizer, ...]) -> Flat:
    """The keys with what the tokenizers say."""
    source, target = tokenizers[0], tokenizers[-1]
    flat = {**flat, "tokenizer.vocab_size": source.vocab_size, "target.vocab_size": target.vocab_size}
    if "model.tie_embeddings" in flat:
        flat["model.tie_embeddings"] = len(tokenizers) == 1 and flat["model.tie_embeddings"]
    known = target.imported
    decodes = flat.get("model.kind") == "decoder"
    first = known.first if known is not None and not decodes else ()
    # a text that goes on has no end
    banned = (*target.banned_ids, target.eos_id) if decodes and known is None else target.banned_ids
    begins = known is None or known.bos is not None
    flat |= {
        "specials.pad": target.pad_id if known is None else known.pad,
        "specials.bos": target.bos_id if begins else None,
        "specials.begin": target.bos_id if begins else None,
        "specials.eos": target.eos_id if known is None else known.eos,
        "specials.first": first[0] if first else None,
        "specials.last": None,
        "specials.bad_words": [[token] for token in banned] or None,
        "specials.suppressed": None,
    }
    if "decoding.method" in flat:
        start = 1 if flat.get("model.kind") == "transformer" else 0
        method, least = flat["decoding.method"], flat["decoding.min_len"]
        flat |= {
            "decoding.sampled": method == "sample",
            "decoding.beam_size": flat["decoding.beam_size"] if method == "beam" else 1,
            "limits.max_length": flat["decoding.max_len"] + start if start else None,
            "limits.max_new_tokens": None if start else flat["decoding.max_len"],
            "limits.min_length": least + start if least and start else 0,
        }
    return flat


def _order(family: Family, flat: Flat) -> Tensor | None:
    return interleaved(flat["model.d_model"]) if family.halves else None


def _listed(problems: Iterable[str]) -> str:
    problems = list(problems)
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more
