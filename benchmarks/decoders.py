"""The worker's side of the decoding benchmark: the same batches through Headwise's search and the peer's `generate`."""

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.corpus import BOS, EOS, PAD, UNK, Corpus
from benchmarks.peers import huggingface
from benchmarks.peers.engine import CTranslate2
from benchmarks.workers import Answer, serve
from headwise import runtime
from headwise.caches import Cache
from headwise.data.batches import PairBatch
from headwise.decoding.search import DecodingConfig, search
from headwise.layers.inference import Precision, for_inference
from headwise.models.protocols import Seq2Seq
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig

WEIGHTS = {"headwise": "headwise.safetensors", "marian": "marian.safetensors", "ctranslate2": "headwise.safetensors"}
LOGITS = "logits.safetensors"
CHECKED_SENTENCES = 7

# (tokens of each sentence without begin and end, decoder steps)
Decoded = tuple[list[list[int]], int]
Decode = Callable[[PairBatch, int, int, bool], Decoded]


def check_logits(corpus: Corpus) -> PairBatch:
    """The sentences whose logits must be the same everywhere."""
    return corpus.batch(range(min(CHECKED_SENTENCES, len(corpus.sources))))


def limit(batch: PairBatch, held: bool) -> int:
    """Most tokens of a batch: those of its longest reference, end included, or what Headwise allows by itself."""
    return int(batch.tgt_lens.max()) if held else DecodingConfig().limit(int(batch.src_lens.max()))


class _Counted:
    """A decoder that counts its steps."""

    def __init__(self, decoder: Any):
        self.decoder, self.steps = decoder, 0

    def step(self, tokens: Tensor, cache: Cache) -> Tensor:
        self.steps += 1
        logits: Tensor = self.decoder.step(tokens, cache)
        return logits


class Ours:
    """A translator's path: the model for inference, one encoding, then the configured search."""

    def __init__(self, model: Seq2Seq, precision: Precision):
        self.model = for_inference(model, precision)

    @torch.inference_mode()
    def difference(self, batch: PairBatch, logits: Tensor) -> float:
        """The largest difference from these logits, by teacher forcing."""
        return float((self.model(batch.src, batch.src_lens, batch.tgt_in) - logits).abs().max())

    @torch.inference_mode()
    def decode(self, batch: PairBatch, beams: int, longest: int, held: bool) -> Decoded:
        """The best output of each sentence."""
        lengths = {"min_len": longest, "max_len_a": 0.0, "max_len_b": longest, "max_len": longest} if held else {}
        options = {"method": "beam" if beams > 1 else "greedy", "beam_size": beams, **lengths}
        decoder, lens = _Counted(self.model.decoder), batch.src_lens
        config = DecodingConfig.model_validate(options)
        rules = config.constraints(lens.tolist(), bos_id=BOS, eos_id=EOS, banned=(PAD, BOS, UNK))
        (memory,) = self.model.encoder.read_all([(batch.src, lens)])
        found = search(decoder, self.model.decoder.start(memory, lens), config, rules)
        return [hypotheses[0].tokens for hypotheses in found], decoder.steps


class HuggingFace:
    """`generate` at its defaults, with its key-value cache; only beams and lengths are set."""

    def __init__(self, config: TransformerConfig, vocab_size: int, weights: dict[str, Tensor]):
        self.model = huggingface.build(config, vocab_size).eval()
        self.model.load_state_dict(weights)

    @torch.inference_mode()
    def difference(self, batch: PairBatch, logits: Tensor) -> float:
        """The largest difference from these logits, by teacher forcing."""
        return float((self.model(**self._inputs(batch), decoder_input_ids=batch.tgt_in).logits - logits).abs().max())

    def decode(self, batch: PairBatch, beams: int, longest: int, held: bool) -> Decoded:
        """The best output of each sentence."""
        lengths = {"max_new_tokens": longest, **({"min_new_tokens": longest} if held else {})}
        found = self.model.generate(**self._inputs(batch), num_beams=beams, do_sample=False, **lengths)
        rows = [[token for token in row if token not in (PAD, BOS, EOS)] for row in found.tolist()]
        return rows, found.shape[1] - 1

    def _inputs(self, batch: PairBatch) -> dict[str, Tensor]:
        keep = torch.arange(batch.src.shape[1]) < batch.src_lens[:, None]
        return {"input_ids": batch.src, "attention_mask": keep.long()}


def _system(
    job: dict[str, Any], config: TransformerConfig, vocab_size: int, weights: dict[str, Tensor]
) -> Ours | HuggingFace | CTranslate2:
    if job["kind"] == "marian":
        return HuggingFace(config, vocab_size, weights)
    model = build_transformer(config, vocab_size, vocab_size, joint=True)
    model.load_state_dict(weights)
    if job["kind"] == "headwise":
        return Ours(model.eval(), job["precision"])
    return CTranslate2(model.eval(), config, vocab_size, "int8" if job["precision"] == "int8" else "float32")


def work(job: dict[str, Any]) -> None:
    """Loads what the parent prepared and decodes what it asks for."""
    torch.set_num_threads(1)
    # as the verbs that only predict set it up
    settings = runtime.apply(1, fast_products=False) if job["tuned"] else None
    folder = Path(job["folder"])
    corpus, config = Corpus.load(folder), TransformerConfig.model_validate(job["config"])
    weights = load_file(folder / WEIGHTS[job["kind"]])
    system = _system(job, config, corpus.vocab_size, weights)

    def about() -> Answer:
        expected = load_file(folder / LOGITS)["logits"]
        difference = system.difference(check_logits(corpus), expected)
        said = settings and f"float32 products {settings.products}: {settings.reason}"
        return {"logits_difference": difference, "settings": said}

    def decode(beams: int, batches: list[list[int]], held: bool) -> Answer:
        outputs: list[list[int]] = []
        steps, cpu_s = 0, 0.0
        for indices in batches:
            batch = corpus.batch(indices)
            longest = limit(batch, held)
            started = process_time()
            found, taken = system.decode(batch, beams, longest, held)
            cpu_s += process_time() - started
            outputs, steps = outputs + found, steps + taken
        return {"cpu_s": cpu_s, "steps": steps, "outputs": outputs}

    serve({"about": about, "decode": decode})
