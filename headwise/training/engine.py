"""CTranslate2 as the engine of a run: written beside the weights, tied to them, and compared before its first use."""

import hashlib
import json
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headwise import runtime
from headwise.cancellation import poll_cancellation
from headwise.decoding.hypotheses import Hypothesis
from headwise.decoding.search import DecodingConfig
from headwise.errors import CheckpointError, HeadwiseError, MachineError, Unsupported
from headwise.exchange import ctranslate2
from headwise.exchange.family import effective
from headwise.predictors.engines import Engine, Tokens
from headwise.predictors.predictor import Predictor
from headwise.processes import ALONE, sharing
from headwise.runs.commits import Draft, Writable, commit_file, remove_folder, size_of

# the folder in the run, and the file that says what was compared
FOLDER, FILE = "ctranslate2", "parity.json"
# how far the mean log-probability of an output may be from ours, and how much lower BLEU where products are rounded
TOLERANCE, LOSS = 1e-5, 0.3
# examples that both sides are compared on, and tokens of a continuation there
_COMPARED, _TOKENS = 200, 32
# the number of every row behind the vocabulary
NEVER = 1 << 40
# calls for limits of their own, which cost less than one search by Headwise's decoder for all of them
_CALLS = 3
_LIMITS = "their outputs end at limits of their own, and CTranslate2 has one limit for all inputs of a call"
_TYPES = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}

# tokens of the hypotheses of a source, best first, and their scores
_Ranked = tuple[list[list[int]], list[float]]


class CTranslate2(Engine):
    """A model of CTranslate2 on the processor.

    CTranslate2 gives the probability of what is suppressed to the other tokens; Headwise does not, so here further rows
    keep it (`files_of`). Where these are probable enough to be written, Headwise searches itself.

    Args:
        compute_type: as CTranslate2 calls it.
        reads: an encoder reads the sources; otherwise they are prompts, and outputs follow them.
        places: tokens of a source or an output, or of prompt and output, at most; None: any number.
        calls: for inputs that would go on beyond their own limits, one a limit; where there are more limits, Headwise
            searches. None: any number.
    """

    def __init__(
        self,
        folder: Path,
        tokens: Tokens,
        compute_type: str,
        *,
        reads: bool,
        places: int | None,
        calls: int | None = _CALLS,
    ):
        package = ctranslate2.library()
        self._calls = calls
        self._reads, self._places, self._first = reads, places, tokens.first
        kind, threads = package.Translator if reads else package.Generator, torch.get_num_threads()
        self._model = kind(str(folder), device="cpu", compute_type=compute_type, intra_threads=threads)
        entries = [ctranslate2.unique_entries(tokenizer) for tokenizer in tokens.tokenizers]
        self._sources, self._targets = np.array(entries[0], dtype=object), entries[-1]
        self._suppressed = [[entries[-1][token]] for token in sorted(tokens.banned)]
        self._numbers = {entry: number for number, entry in enumerate(entries[-1])}
        self._eos = tokens.tokenizers[-1].eos_id

    def refusal(self, config: DecodingConfig, prefix: Sequence[int]) -> str | None:
        """Why it does not search so; None: it does."""
        if config.method == "sample":
            return "samples are drawn from the random numbers of Headwise"
        if prefix:
            return "a forced beginning is a part of the score, and CTranslate2 leaves it out"
        if config.method == "beam" and config.stopping != "full":
            return f"CTranslate2 has no stopping = {config.stopping!r}"
        for name in ("min_len", "no_repeat_ngram"):
            if getattr(config, name):
                return f"CTranslate2 gives the probability of what {name} forbids to other tokens"
        return None

    def search(
        self, sources: Sequence[list[int]], limits: Sequence[int], config: DecodingConfig
    ) -> list[list[Hypothesis] | str]:
        """As `Engine.search`: all at once, then those again that would have gone on beyond their own limit.

        CTranslate2 has one limit for all inputs of a call, so calls for many limits would have few inputs each.
        """
        results: dict[int, list[Hypothesis] | str] = {}
        for place, (source, limit) in enumerate(zip(sources, limits, strict=True)):
            needed = max(len(source), limit) if self._reads else len(source) + limit
            if self._places is not None and needed > self._places:
                results[place] = f"the model in CTranslate2 has {self._places} positions"
        left = [place for place in range(len(sources)) if place not in results]
        # a prompt that is longer than others is taken for an output there
        for group in [left] if self._reads else _alike(left, [len(source) for source in sources]):
            longest = max((limits[place] for place in group), default=0)
            for place, ranked in self._call(sources, group, longest, config):
                if limits[place] == longest or self._ended_by(ranked, limits[place], config):
                    results[place] = self._judged(ranked, config)
        left = [place for place in left if place not in results]
        groups = _alike(left, limits)
        if self._calls is not None and len(groups) > self._calls:
            return [results.get(place, _LIMITS) for place in range(len(sources))]
        for group in groups:
            for place, ranked in self._call(sources, group, limits[group[0]], config):
                results[place] = self._judged(ranked, config)
        return [results[place] for place in range(len(sources))]

    def _call(
        self, sources: Sequence[list[int]], places: list[int], limit: int, config: DecodingConfig
    ) -> list[tuple[int, _Ranked]]:
        """The hypotheses of the sources at these places, with the place of each."""
        if not places:
            return []
        poll_cancellation()
        beams = _beams(config)
        options: dict[str, Any] = {"beam_size": beams, "num_hypotheses": beams}
        options |= {"length_penalty": config.length_penalty, "suppress_sequences": self._suppressed}
        options |= {"return_scores": True, "return_end_token": True}
        texts = [self._sources[sources[place]].tolist() for place in places]
        if self._reads:
            first = [self._targets[token] for token in self._first]
            options |= {"max_decoding_length": limit, "min_decoding_length": 0, "max_input_length": 0}
            results = self._model.translate_batch(texts, [first] * len(texts) if first else None, **options)
            find = self._numbers.get
            rows = [[[*map(find, row, repeat(NEVER))] for row in result.hypotheses] for result in results]
        else:
            options |= {"max_length": limit, "min_length": 0, "include_prompt_in_result": False}
            results = self._model.generate_batch(texts, **options)
            size = len(self._targets)
            rows = [[[t if t < size else NEVER for t in row] for row in x.sequences_ids] for x in results]
        return [(place, (row, result.scores)) for place, row, result in zip(places, rows, results, strict=True)]

    def _ended_by(self, ranked: _Ranked, limit: int, config: DecodingConfig) -> bool:
        """Whether a search with a higher limit has ended before this one, so that it is the same."""
        rows, _ = ranked
        ended = all(row[-1:] == [self._eos] and len(row) <= limit for row in rows)
        return ended and len(rows) == _beams(config)

    def _judged(self, ranked: _Ranked, config: DecodingConfig) -> list[Hypothesis] | str:
        """The best of them; a reason where one has a row of what is never written."""
        rows, scores = ranked
        if any(NEVER in row for row in rows):
            return "tokens that are never written are too probable there for CTranslate2"
        count, penalty = config.n_best if config.method == "beam" else 1, config.length_penalty
        return [self._hypothesis(*pair, penalty) for pair in zip(rows[:count], scores[:count], strict=True)]

    def _hypothesis(self, tokens: list[int], score: float, penalty: float) -> Hypothesis:
        finished = tokens[-1:] == [self._eos]
        return Hypothesis(tokens[:-1] if finished else tokens, score, score * len(tokens) ** penalty, finished)


def _beams(config: DecodingConfig) -> int:
    return config.beam_size if config.method == "beam" else 1


def _alike(places: Sequence[int], keys: Sequence[int]) -> list[list[int]]:
    """The places in groups with one key each.

    >>> _alike([0, 1, 2], [5, 7, 5])
    [[0, 2], [1]]
    """
    return [[place for place in places if keys[place] == key] for key in sorted({keys[place] for place in places})]


class Opening:
    """Opens the engine of a run, once for each state of its weights: the folder `ctranslate2` in it.

    Args:
        flat: the keys of the run's recipe.
        examples: the labelled examples of a split. Raises: HeadwiseError where there are none.
    """

    def __init__(
        self,
        run: Path,
        predictor: Predictor[Any, Any, Any],
        flat: Mapping[str, Any],
        examples: Callable[[str], list[Any]],
    ):
        self._folder, self._predictor, self._flat, self._examples = run / FOLDER, predictor, flat, examples
        engines = predictor.engines()
        assert engines is not None
        self._engines, self._reads = engines, hasattr(predictor.model, "encoder")

    def __call__(self, precision: str) -> tuple[Engine, str]:
        """The engine and how it was compared.

        Raises:
            MachineError: CTranslate2 is not installed, or the folder cannot be written.
            Unsupported: naming what it does not compute.
            CheckpointError: both sides are not equal.
        """
        ctranslate2.library()
        self._check_model()
        state = self._state()
        saved = self._saved(state)
        if "failure" in saved:
            raise CheckpointError(saved["failure"])
        if "fp32" not in saved:
            saved = self._write(state)
        if precision == "auto":
            return self._fastest()
        if precision != "fp32" and precision not in saved:
            saved = self._check_rounded(precision, saved)
        if isinstance(saved[precision], dict):
            raise CheckpointError(saved[precision]["failure"])
        return self._engine(self._folder, precision), f"{_TYPES[precision]}, {saved[precision]}"

    def _fastest(self) -> tuple[Engine, str]:
        """In 8 bits, if these lose no more than is allowed."""
        try:
            return self("int8")
        except (CheckpointError, Unsupported) as error:
            engine, reason = self("fp32")
            return engine, f"{reason}; {error}"

    def _check_model(self) -> None:
        """Raises: Unsupported for what CTranslate2 does not compute."""
        parameter = next(self._predictor.model.parameters())
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            raise Unsupported(
                f"CTranslate2 runs float32 on the processor here, not {parameter.dtype} on {parameter.device}"
            )
        ctranslate2.refuse(effective(dict(self._flat)))

    def _engine(self, folder: Path, precision: str, calls: int | None = _CALLS) -> CTranslate2:
        compute_type = _TYPES[precision]
        if compute_type not in ctranslate2.library().get_supported_compute_types("cpu"):
            raise Unsupported(f"CTranslate2 has no {compute_type} on this processor")
        places = ctranslate2.positions(effective(dict(self._flat)))
        tokens = self._engines.tokens
        return CTranslate2(folder, tokens, compute_type, reads=self._reads, places=places, calls=calls)

    def _write(self, state: Mapping[str, str]) -> dict[str, Any]:
        """Writes the model and compares it; what was compared."""
        tokens = self._engines.tokens
        files = ctranslate2.files_of(
            self._predictor.model, tokens.tokenizers, dict(self._flat), banned=sorted(tokens.banned)
        )
        draft = Draft.begin(self._folder, sum(map(size_of, files.values())))
        try:
            for name, content in files.items():
                draft.write(name, content)
            saved: dict[str, Any] = {**state, **self._compared(self._engine(draft.path, "fp32", None))}
            if "failure" in saved:
                for name in files:
                    (draft.path / name).unlink()
            draft.write(FILE, _as_json(saved))
            if self._folder.exists():
                remove_folder(self._folder)
            draft.path.rename(self._folder)
        except OSError as error:
            draft.discard()
            raise MachineError(f"{self._folder} cannot be written: {error.strerror}") from None
        except BaseException:
            draft.discard()
            raise
        if "failure" in saved:
            raise CheckpointError(saved["failure"])
        return saved

    def _compared(self, engine: Engine) -> dict[str, str]:
        """Both sides in float32: what was compared, or why they are not equal."""
        items, what = self._items()
        options = self._predictor.options({**self._searching(), "engine": "headwise", "precision": "fp32"})
        theirs = self._predictor.options({**self._searching(), "engine": "ctranslate2", "precision": "fp32"})
        with self._engines.testing(engine), sharing(ALONE), _quietly():
            pairs = list(
                zip(self._predictor.predict(items, options), self._predictor.predict(items, theirs), strict=True)
            )
        pairs = [(own[0], other[0]) for own, other in pairs if own and other]
        same = [pair for pair in pairs if pair[0].tokens == pair[1].tokens]
        ties = sum(own.tokens != other.tokens and abs(own.score - other.score) <= TOLERANCE for own, other in pairs)
        furthest = max((_distance(*pair) for pair in same), default=0.0)
        problem = ""
        if len(same) + ties < len(pairs):
            problem = f"{len(pairs) - len(same) - ties} of {len(pairs)} outputs differ on {what}"
        elif not furthest <= TOLERANCE:
            problem = f"log-probabilities differ by up to {furthest:.3g} a token on {what} (at most {TOLERANCE:g})"
        if problem:
            return {"failure": f"CTranslate2 does not compute what this run computes: {problem}"}
        tied = f", {ties} as good to rounding" if ties else ""
        return {"fp32": f"{len(same)} of {len(pairs)} outputs identical{tied} on {what}"}

    def _searching(self) -> dict[str, Any]:
        """The options of a search to compare by: as the recipe says, without chance."""
        drawn = self._flat.get("decoding.method") == "sample"
        shorter = {} if self._reads else {"max_len": _TOKENS}
        return {**shorter, "method": "greedy"} if drawn else {**shorter, "method": self._flat["decoding.method"]}

    def _items(self) -> tuple[list[Any], str]:
        """Inputs of the held-out part; made up of any tokens where the run has none."""
        for split in ("valid", "test", "train"):
            try:
                texts = [self._text(example) for example in self._examples(split)[:_COMPARED]]
            except HeadwiseError:
                continue
            if texts := [text for text in texts if text.strip()]:
                return [self._predictor.parse(text) for text in texts], f"the {split} part"
        draws, tokenizer = random.Random(0), self._engines.tokens.tokenizers[0]
        allowed = sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids - {tokenizer.unk_id})
        rows = [draws.choices(allowed, k=1 + number % 12) for number in range(_COMPARED)]
        return [self._predictor.parse(tokenizer.decode(row)) for row in rows], "made-up inputs"

    def _text(self, example: Any) -> str:
        """An input of an example; of a text its beginning."""
        if self._reads:
            return self._predictor.text_of(example)
        return str(example)[: max(1, len(str(example)) // 2)].rstrip("\n")

    def _check_rounded(self, precision: str, saved: dict[str, Any]) -> dict[str, Any]:
        """Compares rounded products with float32 by BLEU. Raises: CheckpointError where there is nothing to compare."""
        if not self._reads:
            raise CheckpointError(f"there is no score by which {precision} could be checked; take fp32")
        examples, split = self._held_out(precision)
        names = ({"engine": "headwise", "precision": "fp32"}, {"engine": "ctranslate2", "precision": precision})
        with self._engines.testing(self._engine(self._folder, precision, None)), sharing(ALONE), _quietly():
            exact, rounded = (
                float(self._predictor.evaluate(examples, options=self._predictor.options(options))["bleu"])
                for options in names
            )
        what = f"BLEU {rounded:.2f} in place of {exact:.2f} on {len(examples)} examples of the {split} part"
        result = what if exact - rounded <= LOSS else {"failure": f"{precision} would lose too much: {what}"}
        saved = {**saved, precision: result}
        commit_file(self._folder / FILE, _as_json(saved))
        return saved

    def _held_out(self, precision: str) -> tuple[list[Any], str]:
        for split in ("valid", "test"):
            try:
                if examples := self._examples(split)[:_COMPARED]:
                    return examples, split
            except HeadwiseError:
                continue
        raise CheckpointError(f"the run has no held-out part to check {precision} by; take fp32")

    def _state(self) -> dict[str, str]:
        """What a comparison holds for."""
        keys = json.dumps(dict(self._flat), sort_keys=True, default=str)
        facts = {"weights": digest_of(self._predictor.model), "recipe": hashlib.sha256(keys.encode()).hexdigest()}
        return {**facts, "processor": runtime.processor(), "ctranslate2": ctranslate2.library().__version__}

    def _saved(self, state: Mapping[str, str]) -> dict[str, Any]:
        """What was compared before in this state."""
        try:
            saved = json.loads((self._folder / FILE).read_bytes())
            return saved if saved.items() >= dict(state).items() else {}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def digest_of(model: nn.Module) -> str:
    """SHA-256 of the names and the numbers of a model's parameters and buffers.

    >>> digest_of(nn.Identity())[:8]
    'e3b0c442'
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(
            tensor.detach().cpu().contiguous().view(torch.uint8).numpy() if tensor.dim() else str(tensor).encode()
        )
    return digest.hexdigest()


@contextmanager
def _quietly() -> Iterator[None]:
    """What a user did not type warns nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _distance(own: Any, other: Any) -> float:
    return abs(own.log_prob - other.log_prob) / (len(own.tokens) + 1)


def _as_json(saved: Mapping[str, Any]) -> Writable:
    return (json.dumps(dict(saved), indent=1, sort_keys=True) + "\n").encode()
