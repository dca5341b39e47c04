"""Translation: sentence pairs in, an encoder-decoder that writes the second language from the first."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from headwise import metrics
from headwise.config import Config
from headwise.data.batches import Fitted, PairBatch, Ragged, collate, fit_lengths, pair_lengths
from headwise.data.corpus import DataConfig, load_corpus
from headwise.data.readers import Pair
from headwise.data.tokenizers import Tokenizer, TokenizerConfig
from headwise.data.vectors import load_vectors
from headwise.decoding.search import DecodingConfig
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.layers.loss import output_loss
from headwise.models.protocols import Seq2Seq
from headwise.models.recurrent import RecurrentConfig, build_recurrent
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.tasks._translator import Translator, real_states
from headwise.tasks.task import Sample, Task

SOURCE_FILE, TARGET_FILE = "source.tokenizer.json", "target.tokenizer.json"

ModelConfig = Annotated[TransformerConfig | RecurrentConfig, Field(discriminator="kind")]


class VectorsConfig(Config):
    """Pretrained word vectors to start from, in the text format of GloVe and word2vec."""

    source: str | None = Field(None, description="file for the source embeddings")
    target: str | None = Field(None, description="file for the target embeddings")
    frozen: bool = Field(False, description="keep them as they are instead of training them on")


class TranslateConfig(Config):
    """What to translate, with which tokens and model, and how to train it to."""

    data: DataConfig = Field(description="the sentence pairs")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="how a sentence becomes tokens")
    model: ModelConfig = Field(description="the network")
    vectors: VectorsConfig = Field(VectorsConfig(), description="pretrained word vectors")
    decoding: DecodingConfig = Field(DecodingConfig(), description="how translations are searched for")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the target spread over the vocabulary")
    scheduled_sampling: float = Field(
        0.0, ge=0, lt=1, description="share of decoder inputs that are the model's own guesses while training"
    )
    show: list[str] = Field(default=[], description="sentences translated at each validation; the first ones if empty")
    num_shown: int = Field(4, ge=0, description="how many sentences are shown if none are named")
    validation_sentences: int | None = Field(200, ge=1, description="sentences for BLEU at a validation; all if absent")


class Translate(Task):
    """Translation of sentences, trained by teacher forcing on sentence pairs."""

    name: ClassVar[str] = "translate"
    config_type: ClassVar[type[Config]] = TranslateConfig
    config: TranslateConfig

    def __init__(self, config: TranslateConfig):
        super().__init__(config)
        corpus = load_corpus(config.data, config.tokenizer.normalize)
        self.pairs: dict[str, list[Pair]] = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
        self._digests = dict(corpus.files)
        if not corpus.train:
            raise DataError(f"{config.data.train}: no sentence pair to train on")
        self.tokenizers = _trained(corpus.train, config.tokenizer)
        self._fitted = {split: self._fit(pairs) for split, pairs in self.pairs.items()}
        if not len(self._fitted["train"].kept):
            limits = f"max_source_len {config.data.max_source_len}, max_target_len {config.data.max_target_len}"
            raise DataError(f"{config.data.train}: every pair is longer than {limits}; raise the limits")

    def build(self, seed: int) -> Seq2Seq:
        torch.manual_seed(seed)
        source, target = self.tokenizers
        model = build_model(self.config.model, source, target)
        for path, tokenizer, side in (
            (self.config.vectors.source, source, model.encoder),
            (self.config.vectors.target, target, model.decoder),
        ):
            if path is not None:
                self._load_vectors(path, tokenizer, side, seed)
        return model

    def lengths(self, split: str) -> np.ndarray:
        fitted = self._fitted[split]
        return pair_lengths(fitted.sources, fitted.targets)

    def collate(self, split: str, indices: list[int]) -> PairBatch:
        fitted = self._fitted[split]
        ids = self.tokenizers[1]
        return collate(fitted.sources, fitted.targets, indices, pad_id=ids.pad_id, bos_id=ids.bos_id, eos_id=ids.eos_id)

    def loss(self, model: nn.Module, batch: PairBatch) -> Float[Tensor, ""]:
        assert isinstance(model, Seq2Seq)
        batch = batch.to(model.decoder.output.weight.device)
        tgt_in = batch.tgt_in
        if self.config.scheduled_sampling and model.training:
            tgt_in = _with_guesses(model, batch, self.config.scheduled_sampling)
        hidden, targets = real_states(model, batch, tgt_in)
        return output_loss(model.decoder.output, hidden, targets, self.config.label_smoothing)

    def evaluate(self, model: nn.Module, split: str, *, limit: int | None = None) -> dict[str, float]:
        """Loss, perplexity, token accuracy and greedy BLEU; BLEU on the first `validation_sentences` only."""
        translator = self.predictor(model)
        fitted, pairs = self._fitted[split], self.pairs[split][:limit]
        if not pairs:
            return {}
        rows = np.arange(len(fitted.kept))[:limit]
        scores = translator.likelihood(fitted.sources.take(rows), fitted.targets.take(rows))
        scored = pairs[: self.config.validation_sentences]
        greedy = self.config.decoding.model_copy(update={"method": "greedy"})
        outputs = translator.translate([pair.source for pair in scored], config=greedy)
        return scores | {"bleu": metrics.bleu(outputs, [pair.target for pair in scored]).value}

    def samples(self, model: nn.Module) -> list[Sample]:
        known = {pair.source: pair.target for pairs in self.pairs.values() for pair in pairs}
        clean = self.tokenizers[0].clean
        shown = [clean(text) for text in self.config.show]
        if not shown:
            shown = [pair.source for pair in (self.pairs["valid"] or self.pairs["train"])[: self.config.num_shown]]
        greedy = self.config.decoding.model_copy(update={"method": "greedy"})
        outputs = self.predictor(model).translate(shown, config=greedy)
        return [Sample(text, known.get(text, ""), output) for text, output in zip(shown, outputs, strict=True)]

    def files(self) -> dict[str, bytes]:
        source, target = self.tokenizers
        if source is target:
            return {SOURCE_FILE: source.to_bytes()}
        return {SOURCE_FILE: source.to_bytes(), TARGET_FILE: target.to_bytes()}

    def fingerprint(self) -> dict[str, str]:
        return self._digests

    @classmethod
    def restore(cls, files: Mapping[str, bytes], config: TranslateConfig) -> "Translate":
        if SOURCE_FILE not in files:
            raise CheckpointError(f"{SOURCE_FILE} is missing from the run folder; restore it from a copy of the run")
        task = cls.__new__(cls)
        Task.__init__(task, config)
        source = Tokenizer.from_bytes(files[SOURCE_FILE], SOURCE_FILE)
        target = Tokenizer.from_bytes(files[TARGET_FILE], TARGET_FILE) if TARGET_FILE in files else source
        task.tokenizers = (source, target)
        task.pairs, task._fitted, task._digests = {}, {}, {}
        return task

    def predictor(self, model: nn.Module) -> Translator:
        assert isinstance(model, Seq2Seq)
        return Translator(model, *self.tokenizers, self.config.decoding)

    def card(self, metrics: Mapping[str, float]) -> str:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        return (
            f"# Translator trained on {self.config.data.train}\n\n"
            f"A {self.config.model.kind} encoder-decoder over {self.config.tokenizer.kind} tokens, trained with"
            f" Headwise on {len(self.pairs.get('train', []))} sentence pairs. Validation: {scores or 'none'}.\n\n"
            '    headwise predict RUN "a sentence"\n    headwise evaluate RUN --data pairs.tsv\n\n'
            "`RUN` is this folder. It is complete and can be moved.\n"
        )

    def _fit(self, pairs: list[Pair]) -> Fitted:
        source, target = self.tokenizers
        data = self.config.data
        sources = Ragged.of(source.encode_batch([pair.source for pair in pairs]))
        targets = Ragged.of(target.encode_batch([pair.target for pair in pairs]))
        return fit_lengths(
            sources,
            targets,
            max_source_len=data.max_source_len,
            max_target_len=data.max_target_len,
            too_long=data.too_long,
        )

    def _load_vectors(self, path: str, tokenizer: Tokenizer, side: nn.Module, seed: int) -> None:
        embedding = side.embedding
        assert isinstance(embedding, nn.Module)
        weight = embedding.weight
        assert isinstance(weight, nn.Parameter)
        matrix, coverage = load_vectors(path, tokenizer, generator=torch.Generator().manual_seed(seed))
        if matrix.shape[1] != weight.shape[1]:
            raise ConfigError(
                f"{path} has vectors of {matrix.shape[1]} numbers, the model's embeddings have {weight.shape[1]}"
            )
        # the model multiplies embeddings by a constant; the vectors enter as they are
        weight.data.copy_(matrix / getattr(embedding, "scale", 1.0))
        weight.requires_grad_(not self.config.vectors.frozen)
        self.coverage = coverage


def build_model(config: TransformerConfig | RecurrentConfig, source: Tokenizer, target: Tokenizer) -> Seq2Seq:
    """A new model for these tokenizers."""
    if isinstance(config, TransformerConfig):
        return build_transformer(config, source.vocab_size, target.vocab_size, joint=source is target)
    return build_recurrent(config, source.vocab_size, target.vocab_size)


def _trained(pairs: list[Pair], config: TokenizerConfig) -> tuple[Tokenizer, Tokenizer]:
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.joint:
        joint = Tokenizer.train([*sources, *targets], config)
        return joint, joint
    return Tokenizer.train(sources, config), Tokenizer.train(targets, config)


def _with_guesses(model: Seq2Seq, batch: PairBatch, share: float) -> Tensor:
    """Decoder inputs with a share of the gold tokens replaced by the model's guesses from a first, unrecorded pass.

    The two-pass form of scheduled sampling (Mihaylova and Martins 2019, arXiv:1906.07651), which keeps a Transformer
    parallel; Bengio et al. 2015, arXiv:1506.03099, go step by step.
    """
    with torch.no_grad():
        memory = model.encoder(batch.src, batch.src_lens)
        hidden = model.decoder.hidden(batch.tgt_in, memory, batch.src_lens)
        # the guess at position t is what the decoder would have read at t + 1
        guesses = torch.stack([model.decoder.output(rows).argmax(-1) for rows in hidden])[:, :-1]
    inputs = batch.tgt_in.clone()
    replaced = torch.rand(guesses.shape, device=guesses.device) < share
    inputs[:, 1:] = torch.where(replaced, guesses, inputs[:, 1:])
    return inputs
