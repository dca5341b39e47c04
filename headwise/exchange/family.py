"""A family of models of transformers: its keys, its tensors, and how a run of ours is one of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from headwise.errors import Unsupported
from headwise.exchange.forms import Row
from headwise.exchange.keys import Flat, Key, check_kinds, free, read_keys, refused, write_keys

# a tensor of theirs by name, None where the folder has none
Reader = Callable[[str], Tensor | None]

COMMON = (
    *free("architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "use_cache", "_name_or_path"),
    *free("initializer_range", "init_std", "gradient_checkpointing", "output_attentions", "output_hidden_states"),
    *free("return_dict", "tokenizer_class", "task_specific_params", "finetuning_task", "_num_labels", "name_or_path"),
    *free("problem_type", "architecture", "attn_implementation", "_attn_implementation", "torchscript", "num_labels"),
)


@dataclass(frozen=True)
class Spare:
    """A tensor of theirs that follows from others, and may be left out.

    Args:
        like: the name of one that it equals.
        value: what it is, of a flat recipe; it is written. None with no `like`: anything, which is never read.
        shape: of the value, which may be too large to compute.
    """

    like: str | None = None
    value: Callable[[Flat], Tensor] | None = None
    shape: Callable[[Flat], tuple[int, ...]] | None = None


@dataclass(frozen=True)
class Family:
    """A family.

    Args:
        name: `model_type` of theirs.
        classes: the tasks of its classes with a head, by class; the first task is that of an import.
        constants: keys of a recipe that all models of the family have.
        keys: of config.json.
        rows: the tensors of a flat recipe.
        spares: their tensors besides, by regular expression.
        halves: whether positions are sinusoids whose sines come first.
        late: completes a flat recipe by what only the tensors tell, the values of these `by_tensors`.
        prepare: keys of config.json as the newest folders have them.
        prefix: of the names of their tensors, which older folders leave out.
        by_task: keys of a recipe that all its models for a task have; one of [model] contradicts a key of config.json.
        assumed: values that no recipe has, in what is written.
        describe: keys of config.json that follow from several of ours.
        starts: tasks that a model of any of its classes can start, with a new head.
    """

    name: str
    classes: Mapping[str, tuple[str, ...]]
    constants: Flat
    keys: tuple[Key, ...]
    rows: Callable[[Flat], list[Row]]
    spares: Callable[[Flat], Mapping[str, Spare]] = field(default=lambda _: {})
    halves: bool = False
    late: Callable[[Flat, Reader], Flat] = field(default=lambda flat, _: flat)
    by_tensors: frozenset[str] = frozenset()
    prepare: Callable[[Mapping[str, Any], str], Mapping[str, Any]] = field(default=lambda values, _: values)
    prefix: str = ""
    by_task: Mapping[str, Flat] = field(default_factory=dict)
    assumed: Flat = field(default_factory=dict)
    describe: Callable[[Flat], dict[str, Any]] = field(default=lambda _: {})
    starts: tuple[str, ...] = ()

    def read_config(self, values: Mapping[str, Any], where: str, task: str) -> Flat:
        """The keys of a recipe. Raises: Unsupported naming the key that has no counterpart."""
        check_kinds(self.keys, values, where)
        flat = {**self.constants, **read_keys((*COMMON, *self.keys), self.prepare(values, where), where)}
        own = self.by_task.get(task, {})
        for key in self.keys:
            ours = str(key.ours)
            if ours.startswith("model.") and ours in own and flat[ours] != own[ours]:
                raise refused(f"{where}: with a head for task {task}", key.name, values.get(key.name, key.default))
        return {**flat, **own}

    def write_config(self, flat: Flat) -> dict[str, Any]:
        """Their configuration of a run.

        Args:
            flat: the run's keys, defaults filled in.

        Raises: Unsupported naming the keys with which a model is none of this family.
        """
        values = {**write_keys(self.keys, flat), **self.describe(flat)}
        back, neutral = self.read_config(values, self.name, flat["task"]), {**NEUTRAL, **natural(flat)}
        own = self.by_task.get(flat["task"], {})
        others = [
            f"{key} = {flat.get(key)!r} (there {value!r})"
            for key, value in back.items()
            if (key.startswith("model.") or key in own) and key not in NEUTRAL_KEYS and flat.get(key) != value
        ]
        others += [
            f"{key} = {value!r}"
            for key, value in flat.items()
            if key.startswith("model.")
            and key not in back
            and key not in NEUTRAL_KEYS | self.by_tensors
            and value != neutral.get(key)
        ]
        if others:
            raise Unsupported(f"{self.name}: {'; '.join(others)}")
        task = flat["task"]
        kind = next((kind for kind, tasks in self.classes.items() if task in tasks), None)
        if kind is None:
            raise Unsupported(f"{self.name}: no class for task '{task}'")
        return {"architectures": [kind], "model_type": self.name, "torch_dtype": "float32", **values}


# values of [model] that a model of every family has, where its keys do not say otherwise
NEUTRAL: Flat = {
    "model.kind": None,
    "model.norm": "layer",
    "model.residual": True,
    "model.mechanism": "scored",
    "model.decoder_mechanism": "scored",
    "model.score": "scaled_dot",
    "model.normalizer": "softmax",
    "model.shared": "none",
    "model.combine": "concat",
    "model.qk_norm": False,
    "model.reversible": False,
    "model.convolution_heads": False,
    "model.conv": 0,
    "model.value_residual": False,
    "model.gate": "none",
    "model.gate_activation": "sigmoid",
    "model.head_norm": "none",
    "model.embedding_norm": False,
    "model.bias": "all",
    "model.output_bias": False,
    "model.memory_len": 0,
    "model.causal": False,
    "model.tie_positions": True,
    "model.decoder_position": None,
    "model.output_scale": False,
    "model.output_cap": None,
    "model.local_mask": None,
    "model.local_layers": "l",
    "model.local_position": None,
    "model.norm_bias": True,
    "model.first_norm": True,
    "model.embedding_dim": None,
    "model.embedding_scale": True,
}
# keys that change nothing of what a trained model computes
NEUTRAL_KEYS = frozenset(
    f"model.{key}" for key in ("initializer", "start", "dropout", "attention_dropout", "activation_dropout", "max_len")
)


def natural(flat: Flat) -> Flat:
    """What stands for keys without a value that follow from others."""
    values: Flat = {"model.num_kv_heads": flat.get("model.num_heads")}
    if "model.d_model" in flat and flat.get("model.num_heads"):
        values["model.head_dim"] = flat["model.d_model"] // flat["model.num_heads"]
    return values


def effective(flat: Flat) -> Flat:
    """The keys of a recipe with what stands for those that have no value."""
    filled = dict(flat)
    dropout = filled.get("model.dropout")
    defaults = {
        "model.attention_dropout": dropout,
        "model.activation_dropout": dropout,
        "model.decoder_mechanism": filled.get("model.mechanism"),
        "model.norm_eps": 1e-6 if filled.get("model.norm") in ("rms", "rms_1p") else 1e-5,
        **natural(filled),
    }
    for key, value in defaults.items():
        if key in filled and filled[key] is None:
            filled[key] = value
    if filled.get("model.value_dim") == filled.get("model.head_dim"):
        filled["model.value_dim"] = None
    return filled
