"""Adopted transformers models equal their eager selves: outputs, weights, gradients, tokens; and are released unharmed.

Every family is built small with random weights; transformers' own eager path is the reference.
"""

import copy
import sys

import pytest
import torch
import transformers
from torch import nn
from transformers import masking_utils

from headwise.adoption import adopt, release
from headwise.adoption.masks import Pattern, pattern
from headwise.attention.mechanisms.linear import Linear
from headwise.errors import ConfigError, Unsupported
from headwise.records import Hide, Mute, Swap, edit, record

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SPECIAL = {"vocab_size": 61, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LAYERS = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = SPECIAL | LAYERS | {"max_position_embeddings": 64}
GROUPED = TEXT | {"num_key_value_heads": 2}
WIDE = GROUPED | {"head_dim": 6}
LOCAL = WIDE | {"sliding_window": 5}
IMAGE = LAYERS | {"image_size": 16, "patch_size": 4}
PAIR = SPECIAL | {
    "d_model": 24,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
PAIR |= {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in
         (("layers", 2), ("attention_heads", 4), ("ffn_dim", 29))}  # fmt: skip
LATENT = TEXT | {
    "num_key_value_heads": 4,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
}
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16}

# model class and what its configuration needs
FAMILIES = {
    "GPT2LMHeadModel": SPECIAL | {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "LlamaForCausalLM": WIDE,
    "MistralForCausalLM": LOCAL,
    "Gemma2ForCausalLM": LOCAL | {"query_pre_attn_scalar": 6, "attn_logit_softcapping": 3.0},
    "Gemma3ForCausalLM": LOCAL | {"layer_types": ["sliding_attention", "full_attention"]},
    "Qwen2ForCausalLM": GROUPED,
    "Qwen3ForCausalLM": WIDE,
    "Phi3ForCausalLM": GROUPED,
    "GPTNeoXForCausalLM": TEXT,
    "OPTForCausalLM": TEXT | {"ffn_dim": 29, "word_embed_proj_dim": 24},
    "DeepseekV3ForCausalLM": LATENT | EXPERTS | {"first_k_dense_replace": 1, "n_shared_experts": 1},
    "GptOssForCausalLM": LOCAL | {"hidden_size": 32, "num_local_experts": 3, "num_experts_per_tok": 2},
    "Llama4ForCausalLM": WIDE | {"hidden_size": 32, "attention_chunk_size": 4, "num_local_experts": 2,
                                 "intermediate_size_mlp": 29, "interleave_moe_layer_step": 2},
    "BertForMaskedLM": TEXT,
    "RobertaForMaskedLM": TEXT,
    "ModernBertForMaskedLM": TEXT | {"local_attention": 6, "global_attn_every_n_layers": 2},
    "DistilBertForMaskedLM": SPECIAL | {"dim": 24, "hidden_dim": 29, "n_layers": 2, "n_heads": 4},
    "ElectraForMaskedLM": TEXT | {"embedding_size": 12},
    "T5ForConditionalGeneration": SPECIAL | {"d_model": 24, "d_kv": 6, "d_ff": 29, "num_layers": 2, "num_heads": 4,
                                             "decoder_start_token_id": 0},
    "BartForConditionalGeneration": PAIR,
    "MarianMTModel": PAIR,
    "WhisperForConditionalGeneration": {k: v for k, v in PAIR.items() if k != "max_position_embeddings"}
    | {"num_mel_bins": 8, "max_source_positions": 20, "suppress_tokens": None, "begin_suppress_tokens": None},
    "ViTForImageClassification": IMAGE | {"num_labels": 7},
    "CLIPModel": {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 12},
}  # fmt: skip
DISENTANGLED = TEXT | {"relative_attention": True, "position_buckets": 4, "max_relative_positions": 6}
FALCON = TEXT | {"bias": True, "new_decoder_architecture": False}
# what looks for no attention function, and gets a forward of Headwise; names with a "-" are of the same class
FAMILIES |= {
    "GPTJForCausalLM": SPECIAL | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    "BloomForCausalLM": SPECIAL | {"hidden_size": 24, "n_layer": 2, "n_head": 4},
    "BloomForCausalLM-6": SPECIAL | {"hidden_size": 24, "n_layer": 2, "n_head": 6},
    "MptForCausalLM": SPECIAL | {"d_model": 24, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, "use_cache": True},
    "MptForCausalLM-clip": SPECIAL
    | {
        "d_model": 24,
        "n_layers": 2,
        "n_heads": 4,
        "max_seq_len": 64,
        "use_cache": True,
        "attn_config": {"clip_qkv": 0.6, "softmax_scale": 0.3},
    },
    "FalconForCausalLM": FALCON | {"multi_query": True},
    "FalconForCausalLM-alibi": FALCON | {"alibi": True, "multi_query": False},
    "FalconForCausalLM-new": FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2},
    "MPNetForMaskedLM": TEXT,
    "DebertaV2ForMaskedLM": DISENTANGLED | {"pos_att_type": ["p2c", "c2p"]},
    "DebertaV2ForMaskedLM-shared": DISENTANGLED | {"pos_att_type": ["c2p"], "share_att_key": True},
    "DebertaV2ForMaskedLM-conv": DISENTANGLED | {"pos_att_type": "p2c", "conv_kernel_size": 3, "conv_act": "gelu"},
    "DebertaV2ForMaskedLM-none": TEXT | {"relative_attention": False},
}
WRITERS = [
    name for name in FAMILIES if name.partition("-")[0].endswith(("CausalLM", "LMHeadModel", "Generation", "MTModel"))
]
REFUSED = {"DebertaForMaskedLM": TEXT, "MambaForCausalLM": {"hidden_size": 24, "num_hidden_layers": 1}}


def built(name, implementation="eager"):
    """A model whose attention is far from uniform."""
    kind = getattr(transformers, name.partition("-")[0])
    options = {"vocab_size": 61} | (FAMILIES | REFUSED)[name]
    config = kind.config_class(
        **(options if name not in ("CLIPModel", "ViTForImageClassification") else FAMILIES[name])
    )
    if "ForCausalLM" in name and kind.__module__.endswith("gemma3"):
        config = transformers.Gemma3TextConfig(**options)
    torch.manual_seed(3)
    model = kind._from_config(config, attn_implementation=implementation).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1 or parameter.shape == (4,):
            nn.init.normal_(parameter, std=0.9 if parameter.ndim == 1 else 0.9 * parameter.shape[-1] ** -0.5)
    return model


def asked(name):
    """Inputs with padding, on the left for decoders, and which positions of the output count."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, 61, (3, 11), generator=generator)
    lens, places = torch.tensor([11, 7, 4])[:, None], torch.arange(11)
    pixels = torch.randn(2, 3, 16, 16, generator=generator)
    if name == "ViTForImageClassification":
        return {"pixel_values": pixels}, slice(None)
    if name == "WhisperForConditionalGeneration":
        return {"input_features": torch.randn(3, 8, 40, generator=generator), "decoder_input_ids": tokens}, slice(None)
    keep = places >= 11 - lens if "Causal" in name or "LMHead" in name else places < lens
    inputs = {"input_ids": tokens, "attention_mask": keep.long()}
    if name == "CLIPModel":
        return inputs | {"pixel_values": pixels}, slice(None)
    if name in WRITERS and not ("Causal" in name or "LMHead" in name):
        return inputs | {"decoder_input_ids": tokens[:, :7]}, slice(None)
    return inputs, keep


def learned(model, name):
    """What counts of the output, and the gradient of all parameters."""
    inputs, counts = asked(name)
    found = model(**inputs)
    output = found.logits_per_image if name == "CLIPModel" else found.logits[counts]
    model.zero_grad()
    (output * torch.randn(output.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return output.detach(), torch.cat(gradients)


def eager_weights(model, name):
    """The weights of the eager path, layer by layer, in the order of the modules."""
    found = model(**asked(name)[0], output_attentions=True)
    if name == "CLIPModel":
        return [*found.text_model_output.attentions, *found.vision_model_output.attentions]
    if "decoder_attentions" not in found:
        return list(found.attentions)
    pairs = zip(found.decoder_attentions, found.cross_attentions, strict=True)
    return [*found.encoder_attentions, *(weights for pair in pairs for weights in pair)]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_gives_what_its_eager_path_gives(name):
    model = built(name)
    inputs, counts = asked(name)
    keys, modules = list(model.state_dict()), list(model.modules())
    output, gradient = learned(model, name)
    with torch.no_grad():
        expected = eager_weights(model, name)
    assert adopt(model) is model
    assert list(model.state_dict()) == keys
    with record(model) as trace:
        found, found_gradient = learned(model, name)
    torch.testing.assert_close(found, output, rtol=0, atol=1e-5)
    # eager and sdpa differ by up to 9e-7 of the largest
    torch.testing.assert_close(found_gradient, gradient, rtol=0, atol=2e-6 * float(gradient.abs().max()))
    for layer, weights in zip(trace, expected, strict=True):
        assert layer.kind == ("cross" if "cross" in layer.name.lower() or "encoder_attn" in layer.name
                              or "EncDec" in layer.name else "self")  # fmt: skip
        rows = layer.weights()
        if isinstance(counts, torch.Tensor) and rows.shape[-2:] == (11, 11):
            # what padding looks at is nobody's business
            rows, weights = (each.transpose(1, 2)[counts] for each in (rows, weights))
        torch.testing.assert_close(rows, weights, rtol=0, atol=1e-6)
    release(model)
    with torch.no_grad():
        again = model(**inputs)
    last = again.logits_per_image if name == "CLIPModel" else again.logits[counts]
    assert torch.equal(last, output)
    assert (list(model.modules()), model.config._attn_implementation) == (modules, "eager")


@pytest.mark.parametrize("name", WRITERS)
def test_a_family_writes_what_its_eager_path_writes(name):
    model = built(name)
    inputs = {key: value for key, value in asked(name)[0].items() if key != "decoder_input_ids"}
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    greedy = model.generate(**inputs, **options, output_attentions=True, return_dict_in_generate=True)
    beams = model.generate(**inputs, **options, num_beams=2)
    adopt(model)
    with record(model) as trace:
        found = model.generate(**inputs, **options, return_dict_in_generate=True).sequences
    assert torch.equal(found, greedy.sequences)
    assert torch.equal(model.generate(**inputs, **options, num_beams=2), beams)
    # the rows of each step over the keys there were
    steps = greedy.get("decoder_attentions") or greedy.attentions
    writing = [layer for layer in trace if layer.kind == "self" and "encoder.layer" not in layer.name
               and "encoder.block" not in layer.name]  # fmt: skip
    for number, layer in enumerate(writing):
        assert len(layer.calls) == len(steps)
        for call, step in zip(layer.calls[1:], steps[1:], strict=True):
            torch.testing.assert_close(call.weights(), step[number], rtol=0, atol=1e-6)
        assert layer.weights().shape[2:] == (layer.weights().shape[3],) * 2


@pytest.mark.parametrize("name", ["Gemma3ForCausalLM", "BartForConditionalGeneration"])
def test_static_caches(name):
    model = built(name)
    inputs = {key: value for key, value in asked(name)[0].items() if key != "decoder_input_ids"}
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "cache_implementation": "static", "disable_compile": True}
    results = [model.generate(**inputs, **options, num_beams=n) for n in (1, 2)]
    adopt(model)
    with record(model) as trace:
        assert torch.equal(model.generate(**inputs, **options, num_beams=1), results[0])
    assert torch.equal(model.generate(**inputs, **options, num_beams=2), results[1])
    # the cache was written over since
    for layer in trace:
        for recorded in layer.calls:
            heads = recorded.weights().shape[1] // recorded.call.value.shape[1]
            expected = recorded.weights() @ recorded.call.value.repeat_interleave(heads, 1)
            torch.testing.assert_close(expected, recorded.output, rtol=0, atol=1e-5)


def test_a_model_that_writes_can_be_edited():
    model = adopt(built("Gemma2ForCausalLM"))
    inputs, options = asked("Gemma2ForCausalLM")[0], {"max_new_tokens": 4, "do_sample": False}
    before = model.generate(**inputs, **options)
    name = "model.layers.1.self_attn"
    with edit(model, Mute(name, heads=[2]), Hide(name, tokens=[9])), record(model) as trace:
        edited = model.generate(**inputs, **options)
    assert not torch.equal(edited, before)
    assert not trace[name].weights(2).any()
    assert not trace[name].weights(keys=slice(9, 10)).any()
    assert torch.equal(model.generate(**inputs, **options), before)
    tokens = inputs["input_ids"]
    plain = built("LlamaForCausalLM")
    whole = adopt(plain)(input_ids=tokens).logits
    with edit(plain, Swap("*.1.self_attn", Linear())):
        assert not torch.equal(plain(input_ids=tokens).logits, whole)
    assert torch.equal(plain(input_ids=tokens).logits, whole)


def test_a_checkpointed_model_learns_the_same_and_is_recorded_once():
    model = adopt(built("GptOssForCausalLM")).train()
    _, gradient = learned(model, "GptOssForCausalLM")
    model.activation_checkpointing_enable()
    with record(model) as trace:
        _, found = learned(model, "GptOssForCausalLM")
    torch.testing.assert_close(found, gradient)
    assert {len(layer.calls) for layer in trace} == {1}
    # the sinks belong to the model, and are those of then
    recorded = next(iter(trace)).calls[0]
    weights = recorded.weights()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    assert recorded.changed
    assert torch.equal(recorded.weights(), weights)


def tables(**options):
    """(transformers' table, the pattern)."""
    shape = {"batch_size": 2, "q_length": 5, "kv_length": 9, "q_offset": 4} | options
    shown = masking_utils.sdpa_mask(**shape, allow_is_causal_skip=False).expand(2, 1, shape["q_length"], -1)
    return shown, pattern(**shape)


LEFT = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1] * 9]).bool()
PLACES = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 0, 1, 2, 3]])
PACKED = {"q_length": 9, "q_offset": 0}
REMAPPED = (
    masking_utils.packed_sequence_mask_function((PLACES == 0).cumsum(-1)),
    masking_utils.remap_positions_for_packed_sequence(masking_utils.sliding_window_causal_mask_function(2), PLACES),
)
IDS = torch.tensor([[-1, 0, 0, -1, 1, 1, 1, -1, -1], [0] * 9])


@pytest.mark.parametrize(
    ("function", "options", "within"),
    [
        (masking_utils.causal_mask_function, {}, (None, 0)),
        (masking_utils.causal_mask_function, {"attention_mask": LEFT}, (None, 0)),
        (masking_utils.causal_mask_function, {"attention_mask": LEFT[:, :7]}, (None, 0)),
        (masking_utils.bidirectional_mask_function, {"attention_mask": LEFT}, None),
        (masking_utils.sliding_window_causal_mask_function(3), {}, (2, 0)),
        (masking_utils.sliding_window_causal_mask_function(3), {"kv_length": 7, "kv_offset": 2}, (2, 0)),
        (masking_utils.sliding_window_bidirectional_mask_function(2), {}, (2, 2)),
        (masking_utils.chunked_causal_mask_function(3, torch.tensor([3, 0])), {"kv_length": 7, "kv_offset": 2}, (2, 0)),
        (masking_utils.or_masks(masking_utils.causal_mask_function, masking_utils.blockwise_overlay(IDS)), {}, None),
        (masking_utils.and_masks(*REMAPPED), PACKED, (1, 0)),
        (masking_utils.and_masks(*REMAPPED[::-1]), PACKED, (1, 0)),
        (lambda batch, head, query, key: (key + query + batch) % 2 == 0, {}, None),
    ],
)  # fmt: skip
def test_masks_arrive_as_structure(function, options, within):
    expected, found = tables(mask_function=function, **options)
    query_len, key_len = expected.shape[2:]
    table = found.mask.dense(2, 1, query_len, key_len, query_start=found.query_start)
    assert torch.equal(table.expand_as(expected), expected)
    assert found.mask.structure().within == (within or (None, None))
    # a cache that only the device knows the length of
    moved = pattern(2, query_len, key_len, torch.tensor(4), mask_function=masking_utils.causal_mask_function)
    assert moved.query_start == 4


def test_masks_of_ones_are_none_and_those_of_generate_are_kept():
    assert pattern(2, 5, 9, 4, attention_mask=torch.ones(2, 9)).mask.structure().causal
    assert pattern(2, 9, 9, mask_function=masking_utils.bidirectional_mask_function).mask is None
    made = pattern(2, 5, 9, 4)
    assert pattern(2, 5, 9, 4, attention_mask=made.contiguous()) is made
    custom, found = tables(mask_function=masking_utils.causal_mask_function, use_vmap=True)
    assert torch.equal(found.mask.dense(2, 1, 5, 9), custom)


def test_masks_of_ones_own_are_taken_as_tables_and_biases():
    model, tokens = built("LlamaForCausalLM"), asked("LlamaForCausalLM")[0]["input_ids"]
    allowed = torch.ones(11, 11, dtype=torch.bool).tril(2).expand(3, 1, 11, 11)
    bias = torch.zeros(3, 1, 11, 11).masked_fill(~allowed, torch.finfo(torch.float32).min)
    expected = model(input_ids=tokens, attention_mask=bias).logits
    adopt(model)
    for mask in (allowed, bias):
        torch.testing.assert_close(model(input_ids=tokens, attention_mask=mask).logits, expected, rtol=0, atol=1e-5)


def test_under_autocast_and_in_half_precision_it_is_as_near_as_eager():
    inputs, counts = asked("Qwen3ForCausalLM")
    exact = built("Qwen3ForCausalLM")(**inputs).logits[counts]
    eager, model = built("Qwen3ForCausalLM"), adopt(built("Qwen3ForCausalLM"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, other = (each(**inputs).logits[counts] - exact for each in (model, eager))
    assert found.abs().max() < 2 * other.abs().max()
    found, other = (each.bfloat16()(**inputs).logits[counts] - exact for each in (model, eager))
    assert found.abs().max() < 2 * other.abs().max()


@pytest.mark.parametrize("name", REFUSED)
def test_families_with_attention_of_their_own_are_refused(name):
    model = built(name)
    keys = list(model.modules())
    with pytest.raises(Unsupported, match=f"{name} computes its attention by itself"):
        adopt(model)
    assert list(model.modules()) == keys


@pytest.mark.parametrize("name", ["FalconForCausalLM", "FalconForCausalLM-alibi"])
def test_a_model_with_two_paths_of_its_own_keeps_the_one_it_has(name):
    # whose eager path adds ALiBi twice
    model = built(name, "sdpa")
    inputs, counts = asked(name)
    expected = model(**inputs).logits[counts]
    torch.testing.assert_close(adopt(model)(**inputs).logits[counts], expected, rtol=0, atol=1e-5)
    assert torch.equal(release(model)(**inputs).logits[counts], expected)


@pytest.mark.parametrize("name", ["BloomForCausalLM", "MptForCausalLM", "FalconForCausalLM", "GPTJForCausalLM"])
def test_a_prompt_in_two_parts_is_one(name):
    model, tokens = built(name), asked(name)[0]["input_ids"]
    expected = model(input_ids=tokens, output_attentions=True)
    adopt(model)
    with record(model) as trace:
        first = model(input_ids=tokens[:, :6], use_cache=True)
        cache = "cache" if "cache" in first else "past_key_values"
        second = model(input_ids=tokens[:, 6:], use_cache=True, **{cache: first[cache]})
    torch.testing.assert_close(second.logits, expected.logits[:, 6:], rtol=0, atol=1e-5)
    for layer, weights in zip(trace, expected.attentions, strict=True):
        torch.testing.assert_close(layer.weights(), weights, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["BloomForCausalLM", "DebertaV2ForMaskedLM"])
def test_a_forward_of_headwise_is_edited_copied_and_checked(name, monkeypatch):
    model = adopt(built(name))
    inputs, counts = asked(name)
    before = model(**inputs).logits[counts]
    copied = copy.deepcopy(model)
    with edit(model, Mute("*", heads=[1])), record(model) as trace:
        assert not torch.equal(model(**inputs).logits[counts], before)
    assert all(not layer.weights(1).any() for layer in trace)
    assert torch.equal(copied(**inputs).logits[counts], before)
    with record(copied) as trace:
        release(model)(**inputs)
    assert not any(layer.calls for layer in trace)
    kind = next(
        type(module)
        for module in model.modules()
        if type(module).__name__ in ("BloomAttention", "DisentangledSelfAttention")
    )
    monkeypatch.setattr(kind, "forward", lambda self, hidden_states, news: None)
    with pytest.raises(Unsupported, match="takes 'news', which is not known here"):
        adopt(model)


def test_what_cannot_be_adopted_is_told(monkeypatch):
    with pytest.raises(ConfigError, match=r"adopt takes a model of transformers \(a PreTrainedModel\), not Linear"):
        adopt(nn.Linear(2, 3))
    model = built("BertForMaskedLM")
    with pytest.raises(ConfigError, match="this BertForMaskedLM was not adopted"):
        release(model)
    model.set_attn_implementation("headwise")
    with pytest.raises(ConfigError, match=r"BertSelfAttention has no mechanism: headwise.adopt\(model\) gives it one"):
        model(input_ids=torch.ones(1, 3, dtype=torch.long))
    model.set_attn_implementation("eager")
    with pytest.raises(ConfigError, match=r"is adopted already; release\(model\) undoes it"):
        adopt(adopt(model))
    with pytest.raises(Unsupported, match="BertSelfAttention gives its attention 'head_mask', which no call can say"):
        model(input_ids=torch.ones(1, 3, dtype=torch.long), head_mask=torch.ones(4))
    release(model)
    with monkeypatch.context() as patched:
        patched.setattr(type(model), "set_attn_implementation", lambda self, name: 1 / 0)
        for _ in range(2):
            # a model that could not be adopted is as it was
            with pytest.raises(ZeroDivisionError):
                adopt(model)
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "5.19.1")
    with pytest.raises(
        ConfigError, match=r"needs transformers 5.20 or newer, found 5.19.1: pip install 'headwise\[hf\]"
    ):
        adopt(model)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"needs transformers 5.20 or newer, there is none"):
        adopt(model)


def test_a_pattern_is_no_tensor_and_says_so():
    with pytest.raises(AttributeError):
        Pattern(None).masked_fill(1, 2)
