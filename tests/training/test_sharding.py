"""What `shard` asks of PyTorch's FSDP2: which modules are units, and where their parts are kept."""

import pytest
import torch
from torch.distributed import device_mesh, fsdp
from training_toy import toy

from headwise.errors import ConfigError
from headwise.layers.blocks import Block
from headwise.models.decoder_only import build_decoder
from headwise.models.transformer_config import DecoderConfig
from headwise.training.parallel import Objective, shard
from headwise.training.recipe import TrainingConfig


def objective_of():
    return Objective(toy(), build_decoder(DecoderConfig(d_model=8, d_ff=8, num_heads=2, num_layers=3), 11))


@pytest.fixture
def asked(monkeypatch):
    """What is asked of `fully_shard`, in order: a module and its options."""
    calls = []
    monkeypatch.setattr(fsdp, "fully_shard", lambda module, **options: calls.append((module, options)))
    monkeypatch.setattr(device_mesh, "init_device_mesh", lambda kind, shape: (kind, shape))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 5)
    return calls


@pytest.mark.parametrize("offload", [True, False])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_unit_is_kept_where_the_recipe_says(asked, offload, precision):
    objective = objective_of()
    shard(objective, TrainingConfig(parallel="fsdp", offload=offload, precision=precision), torch.device("cuda"))
    modules, options = zip(*asked, strict=True)
    # the blocks, then what is around them
    assert all(isinstance(module, Block) for module in modules[:-1])
    assert (len(modules), modules[-1]) == (4, objective)
    policy = fsdp.CPUOffloadPolicy if offload else fsdp.OffloadPolicy
    assert [type(one["offload_policy"]) for one in options] == [policy] * 4
    assert {one["mesh"] for one in options} == {("cuda", (5,))}
    assert options[-1]["reshard_after_forward"] is False
    low = torch.bfloat16 if precision == "bf16" else None
    for one in options[:-1]:
        mixed = one["mp_policy"]
        assert (mixed.param_dtype, mixed.reduce_dtype) == (low, torch.float32 if low else None)
        assert not mixed.cast_forward_inputs


def test_there_is_nothing_to_offload_from_a_processor(asked):
    with pytest.raises(ConfigError, match=r"training.offload: the weights are in the memory of the processor already"):
        shard(objective_of(), TrainingConfig(parallel="fsdp", offload=True), torch.device("cpu"))
    assert asked == []
