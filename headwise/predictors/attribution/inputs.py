"""Attribution by changes of the input: gradients, integrated gradients, occlusion, of tokens and of patches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.cancellation import poll_cancellation
from headwise.data.tokenizers import Tokenizer
from headwise.errors import Unsupported
from headwise.explain.explanation import Kind, Layer
from headwise.explain.methods import POINTS
from headwise.explain.places import Grid, OnImage
from headwise.layers.embeddings import TokenEmbedding
from headwise.predictors.adopted import Adopted
from headwise.predictors.attribution.analysis import Analysis, Counted, Maps, counted_outputs
from headwise.predictors.evaluating import evaluating
from headwise.predictors.looking import fitting
from headwise.predictors.outputs import Outputs
from headwise.predictors.predictor import Predictor


class _Vectors(NamedTuple):
    """The vectors of an input where they enter a model.

    Args:
        number: which input of the pass they are, from 0.
        output: as the model goes on with them.
        baseline: makes those of an input without content: unknown tokens, or pixels of the mean colour.
        places: of each number of `output` the place, a token or a patch, that it belongs to.
        labels: of the places; none: as attention has them.
    """

    number: int
    output: Tensor
    baseline: Callable[[], Tensor]
    places: Tensor
    labels: list[str]

    def sums(self, numbers: Tensor) -> Float[Tensor, "places"]:
        """The sum of numbers like those of `output` at each place."""
        places = self.places.expand_as(numbers).flatten()
        return numbers.new_zeros(int(places.max()) + 1).index_add(0, places, numbers.flatten())


# vectors -> those that go on
Change = Callable[[_Vectors], Tensor]


@contextmanager
def _entering(analysis: Analysis, change: Change) -> Iterator[None]:
    """While open, the vectors of inputs pass through this change; those of a source come first."""
    model = analysis.model_pass.model
    unknown_id, embeddings = _tokens(analysis.predictor)
    places = analysis.look.explanation.places
    number = 0

    def hook(module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], output: Any) -> Any:
        nonlocal number
        if any(module is embedding for embedding in embeddings):
            tokens = torch.arange(output.shape[:-1].numel(), device=output.device).view(*output.shape[:-1], 1)
            vectors = _Vectors(number, output, partial(_unknown, module, inputs, options, unknown_id), tokens, [])
        elif isinstance(places, OnImage) and _reads_pixels(inputs, output):
            grid = places.grids[-1]
            patches = _patches(places, grid, output)
            vectors = _Vectors(
                number, output, partial(torch.zeros_like, output), patches, replace(grid, before=0).labels
            )
        else:
            return output
        number += 1
        return change(vectors)

    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in model.modules()]
    try:
        with evaluating(model):
            yield
    finally:
        for handle in handles:
            handle.remove()
    if not number:
        raise Unsupported("this method needs inputs that are tokens of a known vocabulary, or pixels")


def _unknown(module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], unknown_id: int | None) -> Tensor:
    if unknown_id is None:
        raise Unsupported("the tokenizer of this model has no unknown token, which is the baseline; use by='gradient'")
    vectors: Tensor = module.forward(torch.full_like(inputs[0], unknown_id), *inputs[1:], **options)
    return vectors.detach()


def _reads_pixels(inputs: tuple[Any, ...], output: Any) -> bool:
    """Whether a module makes numbers of the bytes of pictures."""
    pixels = inputs[0] if inputs else None
    if not isinstance(pixels, Tensor) or not isinstance(output, Tensor) or pixels.dtype != torch.uint8:
        return False
    return pixels.ndim == 4 and output.shape == pixels.shape and output.is_floating_point()


def _patches(places: OnImage, grid: Grid, pixels: Tensor) -> Tensor:
    """Of each pixel (height, width) the patch that it lies in."""
    sides = zip(pixels.shape[-2:], places.covered or pixels.shape[-2:], (grid.rows, grid.columns), strict=True)
    rows, columns = (torch.arange(side, device=pixels.device) * count // covered for side, covered, count in sides)
    return rows[:, None] * grid.columns + columns


def _tokens(predictor: Predictor[Any, Any, Any]) -> tuple[int | None, list[nn.Module]]:
    """The number of the unknown token, and the modules that make vectors of numbers of tokens."""
    if isinstance(predictor, Adopted):
        return predictor.saved.tokenizer.unk_token_id, predictor.embeddings()
    try:
        tokenizers: list[Any] = [predictor.writes()]
    except Unsupported:
        tokenizers = list(vars(predictor).values())
    if not any(isinstance(tokenizer, Tokenizer) for tokenizer in tokenizers):
        return None, []
    modules = predictor.model.modules()
    return Tokenizer.unk_id, [module for module in modules if isinstance(module, TokenEmbedding | nn.Embedding)]


class _Way(NamedTuple):
    """The vectors of an input, their difference from the start of their way, and the point of it that they are at."""

    vectors: _Vectors
    difference: Tensor
    leaf: Tensor


def _move(point: float, from_baseline: bool, inputs: list[_Way], vectors: _Vectors) -> Tensor:
    """The vectors at a point of their way, at which the gradient is taken; they are added to the list."""
    start = vectors.baseline() if from_baseline else torch.zeros_like(vectors.output)
    difference = vectors.output.detach() - start
    inputs.append(_Way(vectors, difference, (start + point * difference).requires_grad_()))
    return inputs[-1].leaf


def _gradient_of(number: Tensor, leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
    poll_cancellation()
    return torch.autograd.grad(number, leaves, retain_graph=True, materialize_grads=True)


# numbers (outputs, places) of an input, and labels of its places; none: as attention has them
Table = tuple[np.ndarray, list[str]]


def _gradients(analysis: Analysis, counted: Counted, points: Sequence[float], *, from_baseline: bool) -> list[Table]:
    """Mean gradient of each output times the vectors of each place, for each input.

    Args:
        points: where on the way from the start to the input a gradient is taken, the input being at 1.
        from_baseline: the way begins at the baseline, and the vector is the difference from it; else at zeros.
    """
    sums: list[np.ndarray] = []
    for point in points:
        poll_cancellation()
        inputs: list[_Way] = []
        with torch.enable_grad(), _entering(analysis, partial(_move, point, from_baseline, inputs)):
            numbers = counted(analysis.model_pass.model(*analysis.model_pass.inputs))
        leaves = [way.leaf for way in inputs]
        rows = [_gradient_of(number, leaves) for number in numbers]
        products = [
            torch.stack([way.vectors.sums(row[part] * way.difference) for row in rows])
            for part, way in enumerate(inputs)
        ]
        tables = [product.double().cpu().numpy() / len(points) for product in products]
        sums = [total + table for total, table in zip(sums, tables, strict=True)] if sums else tables
    return list(zip(sums, [way.vectors.labels for way in inputs], strict=True))


def _by_place(analysis: Analysis, method: str, answer: Outputs, tables: list[Table]) -> Maps:
    """Tables of each input as layers, their shares over all inputs together."""
    known = list(analysis.look.explanation.layers.values())
    sides = [side for layer in reversed(known) for side in (layer.queries, layer.keys)]
    if answer.chosen is not None and (len(answer.chosen) == 1 or all(layer.causal for layer in known)):
        # one answer, or what comes next behind each token
        sides = [[answer.name(choice) for choice in answer.chosen]]
    totals = sum(np.abs(table).sum(-1, keepdims=True) for table, _ in tables)
    attributed, signed = {}, {}
    for number, (table, labels) in enumerate(tables):
        rows = fitting(len(table), *sides)
        columns = labels or fitting(table.shape[1], *(layer.keys for layer in known if number == 0 or layer.causal))
        name = method if len(tables) == 1 else f"{method} of {'the source' if number == 0 else 'what is written'}"
        weights = np.abs(table) / np.where(totals > 0, totals, 1.0)
        across = (len(tables) > 1 and number == 0) or len(table) != table.shape[1]
        kind: Kind = "pooled" if len(table) == 1 else "cross" if across else "self"
        attributed[name] = Layer(weights[None], rows, columns, kind)
        signed[name] = table
    return attributed, signed


def by_gradient(analysis: Analysis) -> Maps:
    answer, counted = counted_outputs(analysis)
    return _by_place(analysis, "gradient", answer, _gradients(analysis, counted, [1.0], from_baseline=False))


def by_integrated(analysis: Analysis) -> Maps:
    points = [(number + 0.5) / POINTS for number in range(POINTS)]
    answer, counted = counted_outputs(analysis)
    return _by_place(analysis, "integrated", answer, _gradients(analysis, counted, points, from_baseline=True))


def by_occlusion(analysis: Analysis) -> Maps:
    answer, counted = counted_outputs(analysis)
    inputs: list[_Vectors] = []

    def keep(vectors: _Vectors) -> Tensor:
        inputs.append(vectors)
        return vectors.output

    def run(change: Change) -> np.ndarray:
        poll_cancellation()
        with torch.no_grad(), _entering(analysis, change):
            return counted(analysis.model_pass.model(*analysis.model_pass.inputs)).double().cpu().numpy()

    before, tables = run(keep), []
    for known in inputs:
        count = int(known.places.max()) + 1
        columns = [before - run(partial(_hide, known.number, place)) for place in range(count)]
        tables.append((np.stack(columns, -1), known.labels))
    return _by_place(analysis, "occlusion", answer, tables)


def _hide(number: int, place: int, vectors: _Vectors) -> Tensor:
    """The vectors with the baseline at one place of an input; those of another input as they are."""
    if vectors.number != number:
        return vectors.output
    return torch.where(vectors.places == place, vectors.baseline(), vectors.output)
