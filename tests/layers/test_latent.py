"""Multi-head latent attention: against DeepSeek-V3, by its definition, cached and absorbed, in beams, in a model."""

import pytest
import torch
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek

from headwise.attention.masks import Causal, Padding
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.mechanisms.talking_heads import TalkingHeads
from headwise.caches import Ancestry, AttentionStep
from headwise.errors import ConfigError
from headwise.layers.attention import MultiHeadAttention
from headwise.layers.latent import Latent
from headwise.models.conversion import with_kv_heads
from headwise.positions.rotary import Rotary
from headwise.positions.t5 import T5
from headwise.records import record

D_MODEL, HEADS, REST, TURNED, VALUE, RANK = 20, 3, 6, 4, 5, 7
HEAD = REST + TURNED


def layer_of(mechanism=None, *, position=True, query_rank=None):
    position = Rotary(HEAD, columns=TURNED) if position else None
    sizes = {"head_dim": HEAD, "value_dim": VALUE, "latent": Latent(RANK, query_rank)}
    layer = MultiHeadAttention(D_MODEL, HEADS, mechanism, position=position, bias=False, **sizes).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def steps_of(layer, x, chunks=(1,) * 6, mask=None):
    memory, start, outputs = layer.new_cache(), 0, []
    for size in chunks:
        step = AttentionStep(memory, position=start)
        outputs.append(layer(x[:, start : start + size], mask=Causal() if mask is None else mask, cache=step))
        start += size
    return torch.cat(outputs, 1), memory


@pytest.mark.parametrize("query_rank", [None, 8])
def test_it_is_deepseek_v3_attention_with_the_same_weights(query_rank):
    config = DeepseekV3Config(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        kv_lora_rank=RANK,
        q_lora_rank=query_rank,
        qk_rope_head_dim=TURNED,
        qk_nope_head_dim=REST,
        v_head_dim=VALUE,
        max_position_embeddings=64,
        attn_implementation="sdpa",
    )
    other, layer = deepseek.DeepseekV3Attention(config, 0).double().train(False), layer_of(query_rank=query_rank)
    # DeepSeek has the columns that it turns last, this layer first
    order = torch.cat((torch.arange(REST, HEAD), torch.arange(REST)))
    projection = layer.projection
    with torch.no_grad():
        for parameter in other.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        last = other.q_proj if query_rank is None else other.q_b_proj
        rows = last.weight.unflatten(0, (HEADS, HEAD))[:, order].flatten(0, 1)
        if query_rank is None:
            projection.query.weight.copy_(rows)
        else:
            projection.query[0].weight.copy_(other.q_a_proj.weight)
            projection.query[1].weight.copy_(other.q_a_layernorm.weight)
            projection.query[2].weight.copy_(rows)
        projection.inner.weight.copy_(other.kv_a_proj_with_mqa.weight.roll(TURNED, 0))
        projection.norm.weight.copy_(other.kv_a_layernorm.weight)
        projection.outer.weight.copy_(other.kv_b_proj.weight)
        layer.output.weight.copy_(other.o_proj.weight)
        x, positions = torch.randn(2, 6, D_MODEL).double(), torch.arange(6)[None]
        angles = positions[..., None] * 10000.0 ** -(torch.arange(0, TURNED, 2).double() / TURNED)
        angles = torch.cat((angles, angles), -1)
        hidden = torch.full((6, 6), -torch.inf).double().triu(1)[None, None]
        expected = other(x, (angles.cos(), angles.sin()), hidden)[0]
        # its norm is computed in float32
        torch.testing.assert_close(layer(x, mask=Causal()), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(steps_of(layer, x)[0], expected, rtol=1e-5, atol=1e-5)


def test_the_definition_head_by_head():
    """DeepSeek-AI 2024, eq. 9 to 19, forward and backward."""
    layer, x = layer_of(), torch.randn(2, 6, D_MODEL).double().requires_grad_()
    part, turn = layer.projection, Rotary(TURNED)
    narrow = x @ part.inner.weight.mT
    shared = turn.rotate(narrow[..., :TURNED], 0)
    c = narrow[..., TURNED:]
    c = c / (c.square().mean(-1, keepdim=True) + 1e-6).sqrt() * part.norm.weight
    outputs = []
    for h in range(HEADS):
        query = x @ part.query.weight[h * HEAD : (h + 1) * HEAD].mT
        up = part.outer.weight[h * (REST + VALUE) : (h + 1) * (REST + VALUE)]
        key, value = c @ up[:REST].mT, c @ up[REST:].mT
        scores = turn.rotate(query[..., :TURNED], 0) @ shared.mT + query[..., TURNED:] @ key.mT
        scores = (scores / HEAD**0.5).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
        outputs.append(scores.softmax(-1) @ value)
    expected = torch.cat(outputs, -1) @ layer.output.weight.mT
    of = [x, *layer.parameters()]
    gradient = torch.randn_like(expected)
    output = layer(x, mask=Causal())
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    found, wanted = (torch.autograd.grad(result, of, gradient) for result in (output, expected))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("mechanism", [None, Scored("scaled_dot"), "stick_breaking"])
@pytest.mark.parametrize("position", [True, False])
@pytest.mark.parametrize("chunks", [(1,) * 6, (3, 1, 2), (6,)])
def test_cached_is_whole_absorbed_or_not(mechanism, position, chunks):
    """Single tokens meet the narrow vectors themselves; several, or another mechanism, the keys made of them."""
    layer, x = layer_of(mechanism, position=position), torch.randn(2, 6, D_MODEL).double()
    with torch.no_grad():
        steps, memory = steps_of(layer, x, chunks)
        torch.testing.assert_close(steps, layer(x, mask=Causal()), rtol=0, atol=1e-10)
    turned = TURNED if position else 0
    # all that is kept: c and the turned key, once for all heads
    assert memory.state_bytes() == 2 * 6 * (RANK + turned) * 8


@pytest.mark.parametrize("shares", [True, False])
def test_hypotheses_side_by_side_are_rows_of_their_own(shares):
    layer, x = layer_of(), torch.randn(1, 5, D_MODEL).double()
    ends, memory = torch.randn(2, 2, D_MODEL).double(), layer.new_cache()
    memory.shares_beams = shares
    with torch.no_grad():
        layer(x, mask=Causal(), cache=AttentionStep(memory, position=0))
        memory.expand(2)
        ancestry, outputs = Ancestry(1, 2, 5, x.device), []
        for t in range(2):
            bias = ancestry.step()
            step = AttentionStep(memory, 5 + t, bias if shares else None, ancestry.positions() if shares else None, 2)
            outputs.append(layer(ends[:, t][None], cache=step))
        for beam in (0, 1):
            whole = layer(torch.cat((x, ends[beam][None]), 1), mask=Causal())
            for t in range(2):
                torch.testing.assert_close(outputs[t][0, beam], whole[0, 5 + t], rtol=0, atol=1e-10)


def test_a_padded_batch_is_single_sentences_and_weights_are_recorded():
    layer, x = layer_of(), torch.randn(2, 6, D_MODEL).double()
    padded = layer(x, mask=Padding(torch.tensor([4, 4])))
    torch.testing.assert_close(padded[:, :4], layer(x[:, :4]), rtol=0, atol=1e-10)
    with torch.no_grad(), record(layer) as whole:
        layer(x, mask=Causal())
    memory = layer.new_cache()
    with torch.no_grad():
        layer(x[:, :5], mask=Causal(), cache=AttentionStep(memory, position=0))
        with record(layer) as last:
            layer(x[:, 5:], mask=Causal(), cache=AttentionStep(memory, position=5))
    torch.testing.assert_close(last["Scored"].weights(), whole["Scored"].weights()[:, :, 5:], rtol=0, atol=1e-10)


def test_what_it_cannot_be():
    def made(**options):
        return lambda: MultiHeadAttention(12, 3, latent=Latent(5), **options)

    for make, message in (
        (made(num_kv_heads=1), "leave out num_kv_heads"),
        (made(memory_dim=12), "leave out memory_dim"),
        (made(norm=torch.nn.RMSNorm, rank=4), "leave out norm, rank"),
        (made(mechanism="forgetting"), "leave out mechanism Forgetting"),
        (made(position=T5(3)), "where T5 positions cannot act; use rotary:columns=N"),
        (made(position=Rotary(4)), "turn fewer than 4 columns, such as rotary:columns=2"),
        (lambda: Latent(0), r"latent needs a rank \(0\)"),
        (lambda: with_kv_heads(layer_of(), 1), "rank=7 has no matrix of its key heads"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
    assert isinstance(layer_of(TalkingHeads(HEADS)).mechanism, TalkingHeads)
