"""Convolution, norm and gate around the heads of a layer, and the gates that a mechanism takes from its input."""

from itertools import pairwise

import pytest
import torch
from devices import seeded
from torch import nn

from headwise.attention.call import Call
from headwise.attention.masks import Causal, Padding, Table, Window
from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.mechanisms.retention import Retention
from headwise.attention.mechanisms.scored import Scored
from headwise.caches import AttentionStep, KeyValues, Segments
from headwise.errors import ConfigError, ShapeError, Unsupported
from headwise.layers.around import Around, Closing, ShortConvolution
from headwise.layers.attention import MultiHeadAttention
from headwise.models.conversion import with_kv_heads
from headwise.models.transformer_config import DecoderConfig, TransformerConfig
from headwise.records import record
from headwise.testing import certify

D, HEADS, DIM = 12, 3, 4


class Tilted(Mechanism):
    """Softmax attention whose scores get one number for each head and key, from the layer's input."""

    facts = Facts(honours="any", causal=True, cache="shared")

    def __init__(self):
        super().__init__()
        self.scored = Scored()

    def gate_module(self, d_model, num_heads):
        return OneNumber(d_model, num_heads)

    def compute(self, call):
        return self.scored(
            Call(call.query, call.key, call.value, bias=call.gates.mT, mask=call.mask, **self.start(call))
        )

    def compute_weights(self, call, heads, queries, keys):
        tilted = Call(call.query, call.key, call.value, bias=call.gates.mT, mask=call.mask, **self.start(call))
        return self.scored.weights(tilted, heads, queries, keys)

    @staticmethod
    def start(call):
        return {"query_start": call.query_start}


class OneNumber(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.linear = nn.Linear(d_model, num_heads)

    def forward(self, x):
        return self.linear(x).mT.unsqueeze(-1)


def draw(*shape, seed=3):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def layer(mechanism=None, around=None, **options):
    torch.manual_seed(1)
    attention = MultiHeadAttention(D, HEADS, mechanism, around=around, **options).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return attention


def same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("taps", [1, 2, 4])
@pytest.mark.parametrize("length", [0, 1, 3, 7])
def test_convolution_is_that_of_pytorch_and_goes_on_from_any_cut(taps, length):
    convolution, x = ShortConvolution(5, taps, bias=True).double(), draw(2, length, 5)
    nn.init.normal_(convolution.bias)
    whole, last = convolution(x)
    assert last.shape == (2, taps - 1, 5)
    if length:
        reference = nn.Conv1d(5, 5, taps, groups=5, padding=taps - 1).double()
        reference.load_state_dict(convolution.state_dict())
        same(whole, nn.functional.silu(reference(x.mT)[..., :length].mT))
    before, pieces = None, []
    for start, end in pairwise([0, length // 3, length // 2, length]):
        piece, before = convolution(x[:, start:end], before)
        pieces.append(piece)
    same(torch.cat(pieces, 1), whole)


@pytest.mark.parametrize("gate", ["none", "head", "element"])
@pytest.mark.parametrize("activation", ["sigmoid", "silu"])
@pytest.mark.parametrize("norm", [None, nn.RMSNorm])
@pytest.mark.parametrize("combine", ["concat", "mean"])
def test_norm_and_gate_act_on_each_head_before_the_output_matrix(gate, activation, norm, combine):
    around = Around(gate=gate, gate_activation=activation, head_norm=norm)
    attention, x = layer(None, around, combine=combine, value_dim=DIM + 1), draw(2, 5, D)
    with record(attention) as trace:
        actual = attention(x)
    heads = trace[0].calls[0].output
    rows = []
    for head in range(HEADS):
        own = heads[:, head]
        if norm is not None:
            own = own * torch.rsqrt(own.square().mean(-1, keepdim=True) + torch.finfo(own.dtype).eps)
            own = own * attention.closing.norm.weight
        if gate != "none":
            width = 1 if gate == "head" else DIM + 1
            rows_of_head = slice(head * width, (head + 1) * width)
            z = x @ attention.closing.linear.weight[rows_of_head].T + attention.closing.linear.bias[rows_of_head]
            own = own * (z.sigmoid() if activation == "sigmoid" else z * z.sigmoid())
        rows.append(own)
    joined = torch.cat(rows, -1) if combine == "concat" else sum(rows) / HEADS
    same(actual, attention.output(joined))


EVERYTHING = Around(conv=3, gate="element", head_norm=nn.RMSNorm)
MECHANISMS = {"scored": lambda: None, "gates": Tilted, "retention": lambda: Retention(torch.tensor([0.5, 0.9, 1.0]))}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("kv_heads", [1, 3])
@torch.no_grad()
def test_steps_with_a_cache_are_one_pass(name, kv_heads):
    attention, x = layer(MECHANISMS[name](), EVERYTHING, num_kv_heads=kv_heads), draw(2, 21, D)
    whole, cache = attention(x, mask=Causal()), attention.new_cache()
    assert not cache.shares_beams
    pieces = []
    for start, end in pairwise([0, 4, 5, 6, 20, 21]):
        pieces.append(attention(x[:, start:end], mask=Causal(), cache=AttentionStep(cache, start)))
    same(torch.cat(pieces, 1), whole)
    kept = 2 * 2 * (D + 2 * kv_heads * DIM) * 8
    kept += 2 * HEADS * DIM * DIM * 8 if name == "retention" else 2 * 21 * 2 * kv_heads * DIM * 8
    kept += 2 * 21 * HEADS * 8 if name == "gates" else 0
    assert cache.state_bytes() == kept


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("around", [None, EVERYTHING])
@torch.no_grad()
def test_hypotheses_keep_their_own_past(name, around):
    attention = layer(MECHANISMS[name](), around)
    cache, beams = attention.new_cache(), 2
    if isinstance(cache, KeyValues):
        cache.shares_beams = False
    texts = draw(2, 1, D)
    attention(texts, mask=Causal(), cache=AttentionStep(cache, 0))
    cache.expand(beams)
    texts = texts.repeat_interleave(beams, 0)
    for step in range(1, 6):
        new = draw(4, 1, D, seed=step)
        texts = torch.cat((texts, new), 1)
        side_by_side = new.unflatten(0, (2, beams)).squeeze(2)
        output = attention(side_by_side, mask=Causal(), cache=AttentionStep(cache, step, beams=beams))
        same(output.flatten(0, 1), attention(texts, mask=Causal())[:, -1])
        index = torch.tensor([1, 1, 2, 3] if step % 2 else [1, 0, 3, 3])
        cache.reorder(index)
        texts = texts[index]
    cache.keep(torch.tensor([1]))
    texts = torch.cat((texts[2:], draw(2, 1, D, seed=9)), 1)
    output = attention(texts[:, -1][None], mask=Causal(), cache=AttentionStep(cache, 6, beams=beams))
    same(output[0], attention(texts, mask=Causal())[:, -1])


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_padded_sentence_is_the_sentence_alone(name):
    attention, x = layer(MECHANISMS[name](), EVERYTHING), draw(2, 7, D)
    x[0, 5:] = float("nan")
    # a model zeroes what lies beyond the lengths; hidden first tokens hold anything
    clean = x.nan_to_num(0.0)
    padded = attention(clean, mask=Causal() & Padding(torch.tensor([5, 7])))
    same(padded[:1, :5], attention(clean[:1, :5], mask=Causal()))
    same(padded[1:], attention(clean[1:], mask=Causal()))
    if name == "retention":
        return
    late = Table((torch.arange(7) >= 3).view(1, 1, 1, 7))
    other = clean.clone()
    other[:, :3] = 7.0
    shown, changed = (attention(sample, mask=Causal() & late)[:, 3:] for sample in (clean, other))
    same(shown, changed)
    same(shown, attention(clean[:, 3:], mask=Causal()))


def test_masks_that_a_convolution_would_break_are_refused():
    attention, x = layer(None, Around(conv=3)), draw(2, 7, D)
    for mask in (Window(2, 0), Causal() & Window(2, 2), Table(torch.eye(7).bool().view(1, 1, 7, 7))):
        with pytest.raises(Unsupported, match="convolution mixes each token with those before it"):
            attention(x, mask=mask)
    with pytest.raises(Unsupported, match="build cross-attention with conv = 0"):
        attention(x, x)
    with pytest.raises(Unsupported, match="memory of segments: leave conv out"):
        attention(x, mask=Causal(), cache=AttentionStep(Segments(3), 0))
    with pytest.raises(ConfigError, match="a layer with memory_dim has none"):
        layer(None, Around(conv=3), memory_dim=D)
    with pytest.raises(ConfigError, match="taps for each of its key heads"):
        with_kv_heads(attention, 1)


def test_wrong_options_are_refused(untyped):
    with pytest.raises(ConfigError, match=r"conv \(-1\) is a number of taps"):
        Around(conv=-1)
    with pytest.raises(ConfigError, match="gate is 'none', 'head' or 'element', not 'all'"):
        Around(gate="all")
    with pytest.raises(ConfigError, match="gate_activation is 'sigmoid' or 'silu', not 'relu'"):
        Around(gate_activation="relu")
    with pytest.raises(ConfigError, match="leave out conv or memory_len"):
        DecoderConfig(position="rotary", conv=4, memory_len=5)
    for option in ({"segment": 5}, {"mask": "window:left=2,right=2"}):
        with pytest.raises(ConfigError, match="leave conv out"):
            TransformerConfig(position="rotary", conv=4, **option)


def test_without_options_nothing_is_added():
    assert layer().state_dict().keys() == layer(None, Around()).state_dict().keys()
    assert not any("clos" in name or "conv" in name or "gates" in name for name in layer().state_dict())
    assert Closing(D, HEADS, DIM, Around(head_norm=nn.LayerNorm), bias=False).linear is None


def test_gates_fit_the_keys_of_a_call(untyped):
    x = torch.ones(2, 6, 5, 4)
    for gates, message in (
        (torch.ones(2, 3, 5, 1), r"gates \(2, 3, 5, 1\) do not fit \(batch, heads, key_len\) = \(2, 6, 5\)"),
        (torch.ones(2, 6, 5, 1).long(), "gates must be a tensor of floating-point numbers"),
        (torch.ones(2, 6, 5), "do not fit"),
    ):
        with pytest.raises(ShapeError, match=message):
            Call(x, x[:, :3], x[:, :3], gates=gates)
    with pytest.raises(Unsupported, match="Tilted takes gates from the input of its layer"):
        Tilted()(Call(x, x, x))


def test_gates_of_hidden_keys_reach_nothing_and_parts_take_their_own():
    x, gates = draw(2, 6, 5, 4), draw(2, 6, 5, 2)
    gates[0, :, 3:] = float("nan")
    call = Call(x, x[:, :3], x[:, :3], mask=Padding(torch.tensor([3, 5])), gates=gates.requires_grad_())
    clean = call.zero_unseen().gates
    assert clean.isfinite().all()
    assert not clean[0, :, 3:].any()
    assert any(tensor is gates for tensor in call.tensors)
    part = call.part([4, 1], None, (1, 4))
    assert torch.equal(part.gates[1], gates[1, [4, 1], 1:4])


def test_a_mechanism_with_gates_is_certified_recorded_and_learns_them():
    verdicts = list(certify(Tilted, only=("weights", "hidden", "gradients", "steps"), quick=True))
    assert {verdict.state for verdict in verdicts} <= {"holds", "does not apply"}, verdicts
    assert next(verdict for verdict in verdicts if verdict.id == "steps").state == "holds"
    attention, x = layer(Tilted()), draw(2, 5, D)
    with record(attention) as trace:
        output = attention(x, mask=Causal())
    assert torch.equal(trace[0].calls[0].call.gates, attention.gates(x))
    output.sum().backward()
    assert attention.gates.linear.weight.grad.any()


def test_a_cached_convolution_reads_zeros_where_the_mask_hides_a_token():
    layer = MultiHeadAttention(24, 4, around=Around(conv=3)).train(False)
    x, mask = torch.randn(2, 10, 24), Causal() & ~Padding(torch.tensor([0, 6]))
    cached = layer(x, mask=mask, cache=AttentionStep(layer.new_cache(), 0))
    torch.testing.assert_close(cached[1, 6:], layer(x, mask=mask)[1, 6:])


def test_options_of_a_wrong_kind_are_named(untyped):
    from headwise.layers.latent import Latent

    with pytest.raises(ConfigError, match="conv is a whole number of taps, got str"):
        Around(conv="4")
    with pytest.raises(ConfigError, match=r"head_norm makes a norm of a width, .*, got str"):
        Around(head_norm="rms")
    with pytest.raises(ConfigError, match="ranks of latent are whole numbers, got 'x' and None"):
        Latent("x")
    with pytest.raises(ConfigError, match=r"around must be Around\(...\), got int"):
        MultiHeadAttention(8, 2, around=4)
    with pytest.raises(ConfigError, match=r"latent must be Latent\(...\), got int"):
        MultiHeadAttention(8, 2, latent=4)
    with pytest.raises(ShapeError, match="ids of tokens are a tensor"):
        MultiHeadAttention(8, 2)(torch.ones(1, 3, 8), ids=[0, 1, 2])
    with pytest.raises(ConfigError, match=r"rank \(0\) of rwkv6 must be 1 or more"):
        MultiHeadAttention(8, 2, "rwkv6:rank=0")
    with pytest.raises(ConfigError, match=r"rank \(-1\) of rwkv7 must be 1 or more"):
        MultiHeadAttention(8, 2, "rwkv7:rank=-1")
