"""CTranslate2, in float32 and in 8 bits, with the weights of Headwise's model."""

import importlib
import importlib.util
import tempfile
from typing import Any

import torch

from benchmarks.corpus import BOS, EOS, PAD, UNK
from headwise.data.batches import PairBatch
from headwise.errors import Unsupported
from headwise.exchange import ctranslate2
from headwise.exchange.family import effective
from headwise.models.protocols import Seq2Seq
from headwise.models.transformer_config import TransformerConfig

SKIPPED = "peer skipped: ctranslate2 is not installed; pip install 'headwise[ctranslate2]'"


def installed() -> bool:
    """Whether the package is there; it is not imported."""
    return importlib.util.find_spec("ctranslate2") is not None


def refusal(config: TransformerConfig) -> str | None:
    """Why CTranslate2 cannot be this network, or None."""
    try:
        ctranslate2.refuse(flat(config))
    except Unsupported as error:
        return str(error)
    return None if config.position == "sinusoidal" else f"model.position is {config.position!r}"


def flat(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a model as those of a recipe."""
    return effective({f"model.{name}": value for name, value in config.model_dump().items()})


class CTranslate2:
    """`translate_batch` with one thread; its tokens are the numbers of Headwise's, and it pads by itself."""

    def __init__(self, model: Seq2Seq, config: TransformerConfig, vocab_size: int, quantization: str):
        library: Any = importlib.import_module("ctranslate2")
        spec = ctranslate2.seq2seq_spec(model, library, flat(config))
        names = [str(number) for number in range(vocab_size)]
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        spec.config.decoder_start_token, spec.config.bos_token = names[BOS], names[BOS]
        spec.config.eos_token, spec.config.unk_token = names[EOS], names[UNK]
        spec.config.add_source_bos = spec.config.add_source_eos = False
        spec.config.layer_norm_epsilon = config.norm_eps
        spec.validate()
        spec.optimize(quantization=None if quantization == "float32" else quantization)
        with tempfile.TemporaryDirectory() as folder:
            spec.save(folder)
            self._model = library.Translator(
                folder, device="cpu", compute_type=quantization, inter_threads=1, intra_threads=1
            )

    def difference(self, batch: PairBatch, logits: torch.Tensor) -> float:
        """The largest difference of log-probabilities of the references from those of these logits."""
        expected = logits.log_softmax(-1).gather(-1, batch.tgt_out[..., None])[..., 0]
        lens = batch.tgt_lens.tolist()
        targets = [_names(row[: length - 1]) for row, length in zip(batch.tgt_out.tolist(), lens, strict=True)]
        scored = self._model.score_batch(_sources(batch), targets)
        pairs = zip(expected, scored, strict=True)
        return max(float((row[: len(own.log_probs)] - torch.tensor(own.log_probs)).abs().max()) for row, own in pairs)

    def decode(self, batch: PairBatch, beams: int, longest: int, held: bool) -> tuple[list[list[int]], int]:
        """The best output of each sentence, and the steps of the longest."""
        outputs = self._model.translate_batch(
            _sources(batch),
            beam_size=beams,
            max_decoding_length=longest,
            min_decoding_length=longest if held else 1,
            suppress_sequences=[[str(token)] for token in (PAD, BOS, UNK)],
        )
        rows = [[int(token) for token in output.hypotheses[0]] for output in outputs]
        return rows, longest if held else max(map(len, rows)) + 1


def _sources(batch: PairBatch) -> list[list[str]]:
    lens = batch.src_lens.tolist()
    return [_names(row[:length]) for row, length in zip(batch.src.tolist(), lens, strict=True)]


def _names(tokens: list[int]) -> list[str]:
    return [str(token) for token in tokens]
