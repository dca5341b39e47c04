"""What heads and blocks do for an output: ablation of heads, logit lens, activation patching."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwise.errors import ConfigError, Unsupported
from headwise.explain.explanation import Layer, part_of
from headwise.layers.blocks import Block
from headwise.models.reversible import ReversibleEncoder
from headwise.predictors.ablating import Example, ablated, heads_of
from headwise.predictors.attribution.analysis import Analysis, Maps, counted_outputs, writes
from headwise.predictors.looking import Pass, fitting
from headwise.predictors.outputs import outputs_of


def by_ablation(analysis: Analysis) -> Maps:
    example = Example(analysis.model_pass, outputs_of(analysis.predictor, analysis.model_pass))
    tables: dict[str, dict[str, list[float]]] = {}
    for name, heads in heads_of(example).items():
        rows = ablated(analysis.predictor, [example], name, heads)
        effects = [row.effect.get("log_prob", row.effect.get("change", 0.0)) for row in rows]
        kind = analysis.look.layers[name][0].kind if name in analysis.look.layers else "self"
        tables.setdefault(f"ablation of {part_of(name)} {kind}, {heads} heads", {})[name] = effects
    total = sum(abs(effect) for table in tables.values() for row in table.values() for effect in row) or 1.0
    attributed, signed = {}, {}
    for title, table in tables.items():
        signed[title] = np.array(list(table.values()))
        sides = zip(("layer", "head"), signed[title].shape, strict=True)
        labels = [[f"{side} {number}" for number in range(count)] for side, count in sides]
        attributed[title] = Layer(np.abs(signed[title])[None] / total, labels[0], labels[1], "cross")
    return attributed, signed


def _stacks(model: nn.Module) -> dict[str, dict[str, nn.Module]]:
    """The blocks of each stack by their names, in the order of the model; reversible layers are one block together.

    Raises: Unsupported for a model without.
    """
    stacks: dict[str, dict[str, nn.Module]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Block | ReversibleEncoder):
            stacks.setdefault(name.rpartition(".")[0], {})[name] = module
    if not stacks:
        raise Unsupported("this model is not built of blocks, so nothing can be read or put between them")
    return stacks


@contextmanager
def _blocks(modules: Mapping[str, nn.Module], change: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """While open, the outputs of these blocks pass through this change."""

    def hook(name: str, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return change(name, output)

    handles = [module.register_forward_hook(partial(hook, name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _outputs(model_pass: Pass, blocks: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """What each of these blocks returns in a pass. Raises: Unsupported for one that is called several times in it."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str, output: Tensor) -> Tensor:
        if name in outputs:
            raise Unsupported(f"{name} is called several times in a pass, so its output is not one for all places")
        outputs[name] = output
        return output

    with _blocks(blocks, keep):
        model_pass.run()
    return outputs


def by_lens(analysis: Analysis) -> Maps:
    answer, counted = counted_outputs(analysis)
    if answer.chosen is None:
        raise Unsupported("this model says numbers, which have no probability to follow from block to block")
    *_, (stack, blocks) = _stacks(analysis.model_pass.model).items()
    outputs, last = _outputs(analysis.model_pass, blocks), list(blocks)[-1]
    rows = []
    for name in blocks:
        with _blocks({last: blocks[last]}, lambda _, output, name=name: outputs[name]):  # type: ignore[misc]
            rows.append(counted(analysis.model_pass.run()).exp().double().cpu().numpy())
    keys = [f"{place + 1}:{answer.name(choice)}" for place, choice in enumerate(answer.chosen)]
    return {f"lens of {stack}": Layer(np.stack(rows)[None], list(blocks), keys, "cross")}, {}


def by_patching(analysis: Analysis) -> Maps:
    assert analysis.other is not None
    sizes, other_sizes = (
        [part.shape for part in model_pass.inputs if isinstance(part, Tensor)]
        for model_pass in (analysis.model_pass, analysis.other)
    )
    if sizes != other_sizes:
        raise ConfigError("the other input has another number of tokens, so its places are not those of the first one")
    _, log_probs = counted_outputs(analysis)
    first = _behind(analysis.model_pass, analysis.other) if writes(analysis.predictor) else 0

    def counted(output: Tensor) -> Tensor:
        return log_probs(output)[first:]

    def patched(blocks: Mapping[str, nn.Module], change: Callable[[str, Tensor], Tensor]) -> float:
        assert analysis.other is not None
        with _blocks(blocks, change):
            return float(counted(analysis.other.run()).sum())

    whole, without = float(counted(analysis.model_pass.run()).sum()), patched({}, lambda _, output: output)
    if whole == without:
        raise ConfigError("the model tells no difference between the two inputs; choose another one")
    attributed, signed = {}, {}
    for stack, blocks in _stacks(analysis.model_pass.model).items():
        outputs = _outputs(analysis.model_pass, blocks)
        places = range(next(iter(outputs.values())).shape[1])
        table = [
            [patched({name: block}, partial(_put, outputs, at)) for at in places] for name, block in blocks.items()
        ]
        restored = (np.array(table) - without) / (whole - without)
        own = [layer.keys for name, layer in analysis.look.explanation.layers.items() if name.startswith(f"{stack}.")]
        keys = fitting(len(places), *own)
        attributed[f"patching of {stack}"] = Layer(restored.clip(0, 1)[None], list(blocks), keys, "cross")
        signed[f"patching of {stack}"] = restored
    return attributed, signed


def _behind(model_pass: Pass, other: Pass) -> int:
    """The first place whose output counts: of a sequence of input and output, that of the last token that differs."""
    if len(model_pass.inputs) > 1:
        return 0
    different = (model_pass.inputs[0] != other.inputs[0])[0].nonzero()
    return int(different[-1]) if len(different) else 0


def _put(outputs: Mapping[str, Tensor], place: int, name: str, output: Tensor) -> Tensor:
    """The output of a block with that of another pass at one place."""
    here = torch.arange(output.shape[1], device=output.device)[:, None] == place
    return torch.where(here, outputs[name], output)
