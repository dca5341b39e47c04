"""The layer against x-transformers' Attention with the same weights, option by option."""

import warnings

import pytest
import torch

from headwise.attention import normalizers
from headwise.attention.masks import Causal
from headwise.attention.mechanisms.mechanism import Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.mechanisms.talking_heads import TalkingHeads
from headwise.attention.scores import ScaledDot, SoftCap
from headwise.layers.attention import MultiHeadAttention

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    Attention = pytest.importorskip("x_transformers").Attention


def talking() -> TalkingHeads:
    mechanism = TalkingHeads(3)
    with torch.no_grad():
        for parameter in mechanism.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return mechanism


# name: (what we build, the other's options)
OPTIONS: dict[str, tuple[Mechanism, dict]] = {
    "softmax": (Scored(), {}),
    "causal": (Scored(), {"causal": True}),
    "one key head": (Scored(), {"one_kv_head": True}),
    "off by one": (Scored(normalizer=normalizers.build("softmax1")), {"add_zero_kv": True, "causal": True}),
    "soft cap": (Scored(SoftCap(ScaledDot(), 5.0)), {"softclamp_logits": True, "logit_softclamp_value": 5.0}),
    "top k": (Scored(normalizer=normalizers.build("top_k:3")), {"sparse_topk": 3}),
    "sigmoid": (Scored(normalizer=normalizers.build("sigmoid:0")), {"sigmoid": True, "causal": True}),
    "talking heads": (talking(), {"pre_talking_heads": True, "post_talking_heads": True}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_it_equals_x_transformers(name):
    mechanism, options = OPTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Attention(12, heads=3, dim_head=4, **options)
    kv_heads = 1 if "one_kv_head" in options else 3
    ours = MultiHeadAttention(12, 3, mechanism, num_kv_heads=kv_heads, bias=False)
    with torch.no_grad():
        packed = (theirs.to_q.weight, theirs.to_k.weight, theirs.to_v.weight)
        ours.projection.weight.copy_(torch.cat(packed))
        ours.output.weight.copy_(theirs.to_out.weight)
        if isinstance(mechanism, TalkingHeads):
            # theirs is added to the scores
            before = mechanism.before.T - torch.eye(3)
            theirs.attend.pre_softmax_talking_heads.weight.copy_(before[:, :, None, None])
            theirs.attend.post_softmax_talking_heads.weight.copy_(mechanism.after.T[:, :, None, None])
    x = torch.randn(2, 5, 12, requires_grad=True)
    outputs = [ours(x, mask=Causal() if options.get("causal") else None), theirs(x)]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=2e-6)
    gradients = [torch.autograd.grad(output.square().sum(), x)[0] for output in outputs]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=2e-5)
