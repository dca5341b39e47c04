"""Low-rank adapters and frozen parts: what is trained, what is saved apart, and what is merged."""

import pytest
import torch
from safetensors.torch import load_file

import headwise
from headwise.errors import ConfigError
from headwise.layers.adapters import AdaptedLinear, adapt, apart, freeze, merged
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.training.recipes import read as read_named
from headwise.training.train import train

SETTINGS = ["data.limit=200", "data.valid_fraction=0.05", "data.test_fraction=0.1", "training.max_steps=4"]
SETTINGS += [
    "tokenizer.joint=true",
    "model.d_model=12",
    "model.d_ff=14",
    "model.num_heads=2",
    "decoding.max_len=6",
    "training.warmup_steps=1",
]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start") / "run"
    train(read_named("phrasebook", SETTINGS), folder)
    return folder


def recipe(start, *settings):
    """A recipe that starts from a run, which is of the same data and model."""
    return read_named("phrasebook", [*SETTINGS, f"model.start={start / 'model.safetensors'}", *settings])


def tiny():
    torch.manual_seed(0)
    config = TransformerConfig(d_model=12, d_ff=14, num_heads=3, encoder_layers=1, decoder_layers=2)
    return build_transformer(config, 11, 13, joint=False).eval()


@pytest.mark.parametrize("on", ["", ",on=projection", ",on=inner+outer", ",on=memory_projection+outer"])
def test_merged_weights_compute_what_the_adapters_do(on):
    model, plain = tiny(), tiny()
    names = adapt(model, f"lora:rank=2{on}")
    src, lens, tgt = torch.randint(3, 11, (2, 5)), torch.tensor([5, 3]), torch.randint(3, 13, (2, 7))
    # at first nothing is added
    torch.testing.assert_close(model(src, lens, tgt), plain(src, lens, tgt), rtol=0, atol=0)
    for tensor in apart(model.state_dict()).values():
        torch.nn.init.normal_(tensor, std=0.3)
    tensors = merged(model.state_dict())
    assert tensors.keys() == plain.state_dict().keys()
    changed = {name for name, tensor in plain.state_dict().items() if not torch.equal(tensor, tensors[name])}
    assert changed == {f"{name}.weight" for name in names}
    before = model(src, lens, tgt)
    plain.load_state_dict(dict(tensors))
    assert (before - tiny()(src, lens, tgt)).abs().max() > 0.01
    torch.testing.assert_close(plain(src, lens, tgt), before, rtol=1e-5, atol=1e-6)


def test_an_adapted_layer_adds_a_product_of_two_small_matrices():
    linear = torch.nn.Linear(5, 3)
    layer, x = AdaptedLinear(linear, 2), torch.randn(7, 5)
    torch.nn.init.normal_(layer.adapter.up)
    for row in range(7):
        for column in range(3):
            small = [sum(layer.adapter.down[r, i] * x[row, i] for i in range(5)) for r in range(2)]
            added = sum(layer.adapter.up[column, r] * small[r] for r in range(2))
            torch.testing.assert_close(layer(x)[row, column], linear(x)[row, column] + added, rtol=1e-5, atol=1e-5)
    assert layer(x[:0]).shape == (0, 3)


def test_adapters_alone_are_trained_and_saved_apart(start, tmp_path):
    train(recipe(start, "training.adapter=lora:rank=2", "training.learning_rate=0.05"), tmp_path / "run")
    before, after = load_file(start / "model.safetensors"), load_file(tmp_path / "run" / "model.safetensors")
    own = load_file(tmp_path / "run" / "adapter.safetensors")
    assert own.keys() == apart(after).keys() == after.keys() - before.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert sum(map(torch.Tensor.numel, own.values())) < sum(map(torch.Tensor.numel, before.values())) / 4
    assert any(float(tensor.abs().max()) > 0 for name, tensor in own.items() if name.endswith("up"))
    # predict has the merged ones
    predictor, expected = headwise.load(tmp_path / "run"), merged(after)
    weights = predictor.model.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in expected.items())
    assert not apart(weights)
    card = (tmp_path / "run" / "README.md").read_text()
    assert "SHA-256" in card
    assert "license" in card.lower()
    # and so has a run that starts from this one
    train(recipe(tmp_path / "run", "training.max_steps=1", "training.learning_rate=1e-9"), tmp_path / "next")
    third = load_file(tmp_path / "next" / "model.safetensors")
    assert third.keys() == before.keys()
    torch.testing.assert_close(dict(third), dict(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("more", [[], ["training.ema_decay=0.5"], ["training.average_last=2"]])
def test_a_resumed_run_is_the_same_bit_for_bit(start, tmp_path, more):
    settings = [
        "training.adapter=lora:rank=2,on=projection+inner",
        "training.validate_every=2",
        "training.schedule=constant",
        *more,
    ]
    train(recipe(start, *settings), tmp_path / "whole")
    train(recipe(start, *settings, "training.max_steps=2"), tmp_path / "parts")
    train(recipe(start, *settings), tmp_path / "parts", resume="must")
    last = "state/step-00000004/model.safetensors"
    for file in ("model.safetensors", last):
        whole, parts = (load_file(tmp_path / name / file) for name in ("whole", "parts"))
        assert whole.keys() == parts.keys()
        assert apart(whole)
        assert all(torch.equal(whole[name], parts[name]) for name in whole)
    headwise.load(tmp_path / "parts").translate("go .")


def test_an_adapted_run_is_exported_merged(start, tmp_path):
    pytest.importorskip("transformers")
    from headwise.export import formats

    train(recipe(start, "training.adapter=lora:rank=2", "training.learning_rate=0.05"), tmp_path / "run")
    parity = formats.export(tmp_path / "run", "huggingface", tmp_path / "out", split="valid")
    assert parity.identical + parity.ties == parity.compared
    assert not [name for name in load_file(tmp_path / "out" / "model.safetensors") if "adapter" in name]


def test_frozen_parts_stay(start, tmp_path):
    names = 'training.frozen=["encoder", "decoder.blocks.0.self_attention"]'
    train(recipe(start, names, "training.learning_rate=0.05"), tmp_path / "run")
    before, after = load_file(start / "model.safetensors"), load_file(tmp_path / "run" / "model.safetensors")
    same = {name for name in before if torch.equal(before[name], after[name])}
    frozen = {name for name in before if name.startswith(("encoder.", "decoder.blocks.0.self_attention."))}
    assert frozen <= same
    assert "decoder.blocks.0.feed_forward.inner.weight" not in same


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["training.adapter=lora:rank=0"], "write lora:rank=8"),
        (["training.adapter=lora:rank=2,alpha=3"], "write lora:rank=8"),
        (["training.adapter=dora:rank=2"], "write lora:rank=8"),
        (["training.adapter=lora:rank=2,on=projektion"], "unknown projection 'projektion'; did you mean 'projection'"),
        (['training.frozen=["encodr"]'], "training.frozen: unknown part 'encodr'; did you mean 'encoder'"),
    ],
)
def test_what_is_not_there_is_refused(start, tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        train(recipe(start, *settings), tmp_path / "run")


def test_adapters_need_weights_to_start_from(tmp_path):
    with pytest.raises(ConfigError, match=r"model\.start must name weights"):
        train(read_named("phrasebook", [*SETTINGS, "training.adapter=lora:rank=2"]), tmp_path / "run")
    with pytest.raises(ConfigError, match="this model has no plain projection"):
        adapt(torch.nn.Linear(3, 3), "lora:rank=2")


def test_freezing_takes_whole_names():
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "ab": torch.nn.Linear(2, 2)})
    freeze(model, ["a", "ab.bias"])
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained == ["ab.weight"]
