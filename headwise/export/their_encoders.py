"""Encoders of transformers with their heads in place of ours: how a run is written as one, and how it answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.adoption import transformers_part
from headwise.data.tokenizers import Tokenizer
from headwise.errors import CheckpointError
from headwise.exchange import huggingface
from headwise.exchange.families.images import PROCESSOR
from headwise.exchange.folder import CONFIG
from headwise.export.answers import Answers, settled
from headwise.export.parity import Runner
from headwise.export.stand_ins import Session, stand_in
from headwise.export.subject import Written
from headwise.runs.weights import ties
from headwise.training.loading import task_of

# tokens of a text that both sides are compared on are few
_SAMPLE = 200


def exported(subject: Answers) -> huggingface.Exported:
    """A run as a folder of transformers. Raises: Unsupported naming the keys that no class of theirs has."""
    predictor, flat = subject.predictor, subject.flat()
    tied = ties(subject.model)
    tensors = {name: tensor.detach() for name, tensor in subject.model.state_dict().items() if name not in tied}
    if flat["task"] == "regress":
        tensors = _unscaled(tensors, predictor.scale)
    pictures = predictor.known.model_dump() if flat["task"] == "image-classify" else None
    tokenizer = _tokenizer(predictor)
    return huggingface.write(
        flat, tensors, () if tokenizer is None else (tokenizer,), task_of(subject.run).outputs, pictures
    )


def _unscaled(tensors: Mapping[str, Tensor], scale: Any) -> dict[str, Tensor]:
    """A head that says numbers of the data, not standardised ones."""
    if (scale.mean, scale.deviation) == (0.0, 1.0):
        return dict(tensors)
    weight, bias = tensors["head.weight"].double(), tensors["head.bias"].double()
    head = {"head.weight": weight * scale.deviation, "head.bias": bias * scale.deviation + scale.mean}
    return {**tensors, **{name: tensor.float() for name, tensor in head.items()}}


def _tokenizer(predictor: Any) -> Tokenizer | None:
    tokenizer = getattr(predictor, "tokenizer", None)
    return getattr(tokenizer, "pieces", tokenizer) if not isinstance(tokenizer, Tokenizer) else tokenizer


class _Theirs(Session):
    """A model of transformers, called as ours is."""

    def __init__(self, folder: Path, subject: Answers):
        config = json.loads((folder / CONFIG).read_bytes())
        kind = transformers_part(config["architectures"][0])
        model, report = kind.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, attn_implementation="eager", dtype=torch.float32
        )
        if wrong := [*sorted(report["missing_keys"]), *sorted(report["unexpected_keys"])]:
            raise CheckpointError(f"{folder}: transformers does not take {wrong[0]}")
        self._model, self._task, self._predictor = model.eval(), subject.recipe.task, subject.predictor
        self._processor = json.loads((folder / PROCESSOR).read_bytes()) if self._task == "image-classify" else {}

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        with torch.inference_mode():
            return [getattr(self, f"_{self._task.replace('-', '_')}")(*tensors)]

    def _logits(self, tokens: Tensor, lens: Tensor) -> Tensor:
        keep = (torch.arange(tokens.shape[1]) < lens[:, None]).long()
        logits: Tensor = self._model(input_ids=tokens, attention_mask=keep).logits
        return logits

    def _classify(self, tokens: Tensor, lens: Tensor) -> Tensor:
        if self._predictor.model.front is not None:
            # there the token of the begin stands in place of a vector
            begin = tokens.new_full((len(tokens), 1), self._predictor.tokenizer.bos_id)
            tokens, lens = torch.cat([begin, tokens], 1), lens + 1
        return self._logits(tokens, lens)

    def _regress(self, tokens: Tensor, lens: Tensor) -> Tensor:
        scale = self._predictor.scale
        return (self._classify(tokens, lens) - scale.mean) / scale.deviation

    def _tag(self, tokens: Tensor, pieces: Tensor) -> Tensor:
        before, behind = self._predictor.model.around
        logits = self._logits(tokens, pieces.sum(1) + before + behind)
        starts = (before + pieces.cumsum(1) - pieces).clamp(max=logits.shape[1] - 1)
        scores = logits.gather(1, starts[..., None].expand(-1, -1, logits.shape[2]))
        # what stands where there is no word
        return torch.where((pieces > 0)[..., None], scores, self._predictor.model.head.bias)

    def _masked_lm(self, tokens: Tensor, lens: Tensor, places: Tensor) -> Tensor:
        return self._logits(tokens, lens).flatten(0, 1)[places]

    def _image_classify(self, pixels: Tensor) -> Tensor:
        mean, deviation = (torch.tensor(self._processor[f"image_{name}"])[:, None, None] for name in ("mean", "std"))
        logits: Tensor = self._model((pixels * self._processor["rescale_factor"] - mean) / deviation).logits
        return logits


class TheirEncoder(Runner):
    """The run with its model's passes done by a folder of transformers."""

    def __init__(self, folder: Path, subject: Answers):
        predictor = task_of(subject.run).predictor(stand_in(subject.model, {"model": _Theirs(folder, subject)}))
        self._subject = replace(subject, predictor=settled(predictor))
        tokenizer = _tokenizer(predictor)
        if tokenizer is not None:
            theirs = transformers_part("AutoTokenizer").from_pretrained(folder, local_files_only=True)
            self._check_tokens(folder, tokenizer, theirs)

    def versions(self) -> dict[str, str]:
        return {"transformers": str(transformers_part("__version__"))}

    def search(self, cases: Sequence[Any]) -> list[Written]:
        return self._subject.search(cases)

    def log_probs(self, cases: Sequence[Any]) -> list[Any]:
        return self._subject.log_probs(cases)

    def metric(self, subject: Any, cases: Any, outputs: Any, log_probs: Any) -> dict[str, float]:
        return self._subject.metric(cases, outputs, log_probs)

    def _check_tokens(self, folder: Path, tokenizer: Tokenizer, theirs: Any) -> None:
        """Raises: CheckpointError where their tokenizer reads a text of the examples in another way."""
        predictor, task = self._subject.predictor, self._subject.recipe.task
        front = [] if getattr(predictor.model, "front", None) is None else [tokenizer.bos_id]
        for example in self._subject.held_out[:_SAMPLE]:
            if task == "tag":
                words = [word for word in example.words if tokenizer.bare.encode(word)]
                before, behind = tokenizer.around
                ours = [*before, *(token for ids in tokenizer.bare.encode_batch(words) for token in ids), *behind]
                read = theirs(words, is_split_into_words=True)["input_ids"]
            else:
                text = example if isinstance(example, str) else example.text
                ours, read = [*front, *tokenizer.encode(text)], theirs(text)["input_ids"]
            if read != ours:
                raise CheckpointError(f"{folder}: transformers reads {str(example)[:60]!r} as other tokens")
