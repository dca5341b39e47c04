import json

import pytest
import torch

from headwise.attention.masks import Causal, Padding
from headwise.cli.masks import read_mask


def test_the_plan_names_the_kernel_and_every_refusal(headwise):
    code, out, err = headwise("plan", "--query-len", 67, "--score", "additive")
    assert (code, err) == (0, "")
    assert out.startswith("kernel   strips: ")
    assert "not      fused: the score Additive is no dot product" in out


def test_nothing_is_computed_or_allocated(headwise):
    code, out, _ = headwise("plan", "--query-len", 1_000_003, "--batch", 64, "--training")
    assert code == 0
    assert out.startswith("kernel   fused: ")


def test_a_pair_is_explained(headwise):
    _, out, _ = headwise("plan", "--mask", "causal", "--pair", "3,5")
    assert out.endswith("pair     query 3 may not attend to key 5: key 5 comes after query 3\n")


def test_masks_dropout_and_heads_reach_the_planner(headwise):
    options = ("--kv-heads", 2, "--key-len", 37, "--dropout", 0.1, "--kernel", "plain")
    code, out, _ = headwise("plan", "--mask", "causal & padding", *options)
    assert code == 0
    assert "8, 8, 512, 37" in out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("causal & blocks:2 | global:1", [[1, 1, 1], [1, 1, 0], [1, 0, 1]]),
        ("~causal", [[0, 1, 1], [0, 0, 1], [0, 0, 0]]),
        ("dilated:1,1,2", [[1, 0, 1], [0, 1, 0], [1, 0, 1]]),
        ("strided:1 & ~global:1", [[0, 0, 0], [0, 1, 1], [0, 1, 1]]),
        ("prefix:2", [[1, 1, 0], [1, 1, 0], [1, 1, 1]]),
        ("bigbird:1,1,1,0", [[1, 1, 1], [1, 1, 0], [1, 0, 1]]),
        ("causal", [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
        ("window:0,1", [[1, 1, 0], [0, 1, 1], [0, 0, 1]]),
        ("causal & window:1,1", [[1, 0, 0], [1, 1, 0], [0, 1, 1]]),
        ("padding:2,3 & causal", [[1, 0, 0], [1, 1, 0], [1, 1, 0]]),
    ],
)
def test_masks_are_read_from_text(text, expected):
    assert read_mask(text, 2, 3, 3).dense(2, 1, 3, 3).expand(2, 1, 3, 3)[0, 0].int().tolist() == expected


def test_padding_without_lengths_spreads_from_half_to_all():
    mask = read_mask("padding", 3, 7, 11)
    assert isinstance(mask, Padding)
    assert mask.valid_lens.tolist() == [5, 8, 11]


def test_no_mask_is_none():
    assert read_mask(" ", 2, 3, 3) is None
    assert isinstance(read_mask("causal", 2, 3, 3), Causal)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--mask", "windw:3,3", "unknown mask 'windw'; did you mean 'window'?"),
        ("--mask", "causal:3", "mask 'causal' has no arguments, got '3'"),
        ("--mask", "window:3", "mask 'window' needs right"),
        (
            "--mask",
            "padding:3,4",
            "mask 'padding:3,4': padding takes one length",
        ),
        ("--mask", "prefix", "mask 'prefix': prefix takes one length"),
        (
            "--mask",
            "window:a,b",
            "left of mask 'window' must be int, not 'a'",
        ),
        ("--batch", 2**63 - 1, "a tensor of these sizes has more numbers than can be counted"),
        ("--pair", "3", "--pair '3': give a query and a key, such as 3,5"),
        ("--pair", "3,512", "--pair '3,512': there are 512 queries and 512 keys, counted from 0"),
        ("--dtype", "float3", "unknown dtype 'float3'; did you mean 'float32'?"),
        ("--score", "aditive", "unknown score 'aditive'; did you mean 'additive'?"),
        ("--normalizer", "softmx", "unknown normalizer 'softmx'; did you mean 'softmax'?"),
        ("--kernel", "fuzed", "unknown kernel 'fuzed'; did you mean 'fused'?"),
    ],
)
def test_wrong_options_are_named(headwise, option, value, message):
    masked = ("--mask", "causal") if option == "--pair" else ()
    code, out, err = headwise("plan", *masked, option, value)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")


def test_all_dtypes_are_those_of_torch():
    from headwise.cli.plan import DTYPES

    assert all(isinstance(getattr(torch, name), torch.dtype) for name in DTYPES)


def test_json_has_kernel_refusals_and_the_pair(headwise):
    code, out, err = headwise("plan", "--mask", "causal", "--pair", "3,5", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["kernel"] in out
    assert found["kernel"] not in found["refusals"]
    assert found["pair"] == "query 3 may not attend to key 5: key 5 comes after query 3"
    assert "pair" not in json.loads(headwise("plan", "--json")[1])


def test_the_cache_of_a_latent_vector_beside_the_others(headwise):
    """DeepSeek-V3's sizes: 128 heads of 128, a vector of 512 and 64 turned columns, in 2 bytes each."""
    sizes = ("--heads", 128, "--head-dim", 128, "--kv-heads", 8, "--dtype", "bfloat16", "--batch", 1, "--query-len", 1)
    _, out, _ = headwise("plan", *sizes, "--latent", "512+64")
    assert "cache    bytes a token and layer: MHA 65,536, GQA-8 4,096, MQA 512, latent 512+64 1,152" in out
    cache = json.loads(headwise("plan", *sizes, "--json")[1])["cache_bytes_per_token"]
    assert cache == {"MHA": 65536, "GQA-8": 4096, "MQA": 512}
    assert "layer: MHA 4,096, MQA 512\n" in headwise("plan")[1]
    code, _, err = headwise("plan", "--latent", "0+4")
    assert code == 2
    assert "--latent '0+4': give the width of the vector and the turned columns, such as 512+64" in err


def test_a_recurrence_has_a_plan_of_its_own(headwise):
    _, out, _ = headwise("plan", "--mechanism", "gated_delta", "--dtype", "bfloat16", "--query-len", 4096)
    assert out.startswith("kernel   chunks: products of matrices in chunks of 64 tokens\nnot      fla: ")
    sizes = ("--heads", 4, "--kv-heads", 2, "--training", "--query-len", 1_000_003, "--json")
    assert json.loads(headwise("plan", "--mechanism", "linear", *sizes)[1])["kernel"] == "chunks"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("gated_delta", "--mask", "causal"), "--mechanism is a causal recurrence over its own keys"),
        (("linformer",), "--mechanism 'linformer' is no recurrence"),
        (("gated_delta", "--kernel", "flex"), "unknown kernel 'flex'"),
    ],
)
def test_what_is_no_plan_of_a_recurrence_is_refused(headwise, options, message):
    code, _, err = headwise("plan", "--mechanism", *options)
    assert code == 2
    assert message in err
