"""Records, edits and adopted models under the transforms of PyTorch."""

import documented
import pytest
import torch
import transformers

from headwise.adoption import adopt
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Additive
from headwise.errors import Unsupported
from headwise.layers.attention import MultiHeadAttention
from headwise.records import Hide, Mute, edit, record


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    torch._dynamo.reset()


def layer():
    return MultiHeadAttention(12, 3, Scored(Additive(4, 4, 5), "relu")).eval()


def test_what_is_compiled_while_they_are_open_is_edited_and_recorded_without_a_graph_break():
    model, x = layer(), torch.randn(2, 5, 12)
    before = model(x)
    with edit(model, Mute("*", 1), Hide("*", [2])):
        edited = model(x)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with edit(model, Mute("*", 1), Hide("*", [2])), record(compiled) as trace:
        torch.testing.assert_close(compiled(x), edited)
    torch.testing.assert_close(compiled(x), before)
    (seen,) = trace
    torch.testing.assert_close(seen.weights() @ seen.value, seen.output)
    assert not seen.weights(1).any()
    assert not seen.weights(keys=slice(2, 3)).any()


def test_gradients_of_functions_are_recorded_and_vmap_is_refused():
    model, x = layer(), torch.randn(2, 5, 12)
    with record(model) as trace:
        torch.func.grad(lambda rows: model(rows).sum())(x)
    (seen,) = trace
    torch.testing.assert_close(seen.weights() @ seen.value, seen.output)
    with record(model), pytest.raises(Unsupported, match=r"a record cannot keep what torch.vmap maps"):
        torch.vmap(lambda row: model(row[None]))(x)


def test_parameters_given_to_a_function_are_those_of_its_record():
    model, x = layer(), torch.randn(2, 5, 12)
    given = {name: tensor + 0.1 for name, tensor in model.named_parameters()}
    with record(model) as trace:
        torch.func.functional_call(model, given, x)
    (seen,) = trace
    torch.testing.assert_close(seen.weights() @ seen.value, seen.output)


def test_shapes_on_the_meta_device():
    model = layer().to("meta")
    with edit(model, Mute("*", 1), Hide("*", [2])), record(model) as trace:
        model(torch.empty(2, 5, 12, device="meta"))
    assert "weights (2, 3, 5, 5), output (2, 3, 5, 4)" in trace.table()
    (seen,) = trace
    assert seen.weights(2).shape == (2, 1, 5, 5)


@pytest.mark.slow
def test_an_adopted_model_compiles_without_a_graph_break():
    sizes = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.Gemma3TextConfig(
        vocab_size=61, num_key_value_heads=2, head_dim=6, sliding_window=5, pad_token_id=0, **sizes,
        layer_types=["sliding_attention"]
    )  # fmt: skip
    model = adopt(transformers.Gemma3ForCausalLM._from_config(config).eval())
    tokens = torch.randint(3, 61, (3, 11))
    keep = (torch.arange(11) >= torch.tensor([0, 4, 7])[:, None]).long()
    inputs, counts = {"input_ids": tokens, "attention_mask": keep}, keep.bool()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(**inputs).logits[counts], model(**inputs).logits[counts], rtol=0, atol=1e-5)


def test_what_is_refused_is_documented():
    assert documented.refused("record") == {("attention", "vmap")}
