"""Layers and models under the transforms of PyTorch: right, or refused by name (`REFUSED`)."""

import documented
import pytest
import torch
import transformed
from torch import nn
from torch.export import Dim
from torch.utils.checkpoint import checkpoint
from transformed import same

from headwise.attention import attend
from headwise.attention.masks import Causal, Padding, Window
from headwise.attention.mechanisms.scored import Scored
from headwise.layers.attention import MultiHeadAttention
from headwise.models.token_encoders import AloneConfig, AttentionConfig, ConvolutionConfig, WindowConfig
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.positions.rotary import Rotary
from headwise.tasks.tagging.model import PoolingConfig, build_token_tagger
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent

pytestmark = [
    # PyTorch's GRU keeps a list of its weights beside them
    pytest.mark.filterwarnings("ignore:The tensor attributes self.encoder"),
    # the compiler's own
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop because we have not yet implemented"),
]
LENS = torch.tensor([6, 3, 0, 1])


LENGTH = Dim("length", min=4, max=40)


class Attention(nn.Module):
    """Causal self-attention with grouped heads, and cross-attention to the same tokens."""

    def __init__(self):
        super().__init__()
        self.own = MultiHeadAttention(16, 4, num_kv_heads=2, value_dim=5, position=Rotary(4))
        self.cross = MultiHeadAttention(16, 2, Scored(normalizer="sparsemax"), memory_dim=16, norm=nn.RMSNorm)

    def forward(self, x, lens):
        padding = Padding(lens)
        return self.cross(self.own(x, mask=padding & Causal()), x, mask=padding)


def attention():
    return Attention(), (torch.randn(4, 7, 16), LENS)


def tokens():
    return torch.randint(11, (4, 7)), LENS, torch.randint(11, (4, 7))


def transformer(**options):
    config = TransformerConfig(
        d_model=12, num_heads=3, d_ff=16, encoder_layers=2, decoder_layers=1, dropout=0.0, max_len=64, **options
    )
    return build_transformer(config, 11, 11, joint=False), tokens()


def recurrent(**options):
    return build_recurrent(RecurrentConfig(embed_dim=3, hidden_dim=5, dropout=0.0, **options), 11, 11), tokens()


MODELS = {
    "attention": attention,
    "transformer": transformer,
    "reversible": lambda: transformer(reversible=True, position="alibi"),
    "relative": lambda: transformer(position="transformer_xl", score="additive", norm_order="post"),
    "segments": lambda: transformer(segment=3, position="transformer_xl"),
    "gru": recurrent,
    "lstm": lambda: recurrent(cell="lstm"),
    "without attention": lambda: recurrent(score="none", bidirectional=True),
}
# (model, transform): why; that of PyTorch's GRU and of a loop over steps
GRU, STEPS = "Dynamo does not support RNN, GRU, or LSTM", "specialized"
REFUSED = {
    ("gru", "compile"): GRU,
    ("without attention", "compile"): GRU,
    ("segments", "export"): STEPS,
    **{(name, "export"): STEPS for name in ("gru", "lstm", "without attention")},
}
every_model = pytest.mark.parametrize("name", MODELS)
# a loop over steps, or many layers, makes a program of thousands of lines
LONG = ("attention", "reversible", "relative", "segments", "lstm", "without attention")
every_program = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in MODELS]
)


def built(name):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model, inputs


def learned(run, model, inputs):
    """Output and gradients of all parameters."""
    return transformed.learned(run, inputs, list(model.parameters()))


@every_program
def test_compiled_as_one_graph(name):
    torch.compiler.reset()
    model, inputs = built(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    if (name, "compile") in REFUSED:
        with pytest.raises(torch._dynamo.exc.Unsupported, match=REFUSED[name, "compile"]):
            compiled(*inputs)
        return
    same(learned(compiled, model, inputs), learned(model, model, inputs))


# the compiler's own
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "reversible"])
def test_compiled_by_inductor(name):
    torch.compiler.reset()
    model, inputs = built(name)
    same(learned(torch.compile(model, fullgraph=True), model, inputs), learned(model, model, inputs))


@pytest.mark.slow
@every_program
def test_exported_with_any_batch_and_length(name):
    model, inputs = built(name)
    batch = Dim("batch", min=2, max=64)
    fixed = [{0: batch} for _ in inputs]
    free = [{0: batch} if tensor is LENS else {0: batch, 1: LENGTH} for tensor in inputs]
    model.eval()
    if (name, "export") in REFUSED:
        with pytest.raises(Exception, match=REFUSED[name, "export"]):
            torch.export.export(model, inputs, dynamic_shapes=free)
        program = torch.export.export(model, inputs, dynamic_shapes=fixed).module()
    else:
        program = torch.export.export(model, inputs, dynamic_shapes=free).module()
        longer = [torch.cat((t, t), 1)[:3] if t.ndim > 1 else torch.tensor([14, 9, 0]) for t in inputs]
        torch.testing.assert_close(program(*longer), model(*longer), rtol=1e-4, atol=1e-5)
    fewer = [tensor[:3] for tensor in inputs]
    torch.testing.assert_close(program(*fewer), model(*fewer), rtol=1e-4, atol=1e-5)


def test_what_is_exported_at_one_length_serves_others():
    """At 300 keys the planner would choose a kernel for narrow bands, whose blocks fit one length."""

    class Near(nn.Module):
        def forward(self, x):
            return attend(x, x, x, mask=Window(2, 1))

    shape = {2: Dim("length", min=4, max=512)}
    program = torch.export.export(Near(), (torch.randn(1, 2, 300, 6),), dynamic_shapes=(shape,)).module()
    for length in (7, 400):
        x = torch.randn(1, 2, length, 6)
        torch.testing.assert_close(program(x), Near()(x), rtol=1e-4, atol=1e-5)


@every_model
def test_with_other_parameters_given_for_the_call(name):
    (model, inputs), (other, _) = built(name), MODELS[name]()
    given = {key: tensor.detach().requires_grad_() for key, tensor in other.named_parameters()}
    output = torch.func.functional_call(model, given, inputs)
    found = torch.autograd.grad(output.square().sum(), list(given.values()), allow_unused=True, materialize_grads=True)
    same([output, *found], learned(other, other, inputs))


@every_model
def test_computed_again_for_the_gradient_and_kept_elsewhere(name):
    model, inputs = built(name)
    expected = learned(model, model, inputs)
    same(learned(lambda *given: checkpoint(model, *given, use_reentrant=False), model, inputs), expected)
    with torch.autograd.graph.save_on_cpu():
        same(learned(model, model, inputs), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_model
def test_under_autocast(name, dtype):
    model, inputs = built(name)
    expected = model(*inputs)
    with torch.autocast("cpu", dtype):
        output = model(*inputs)
    torch.testing.assert_close(output.float(), expected, rtol=0.1, atol=0.1)


@every_model
def test_without_numbers(name):
    """On the meta device there are shapes only."""
    model, inputs = built(name)
    output = model.to("meta")(*(tensor.to("meta") for tensor in inputs))
    assert output.is_meta
    assert output.shape == built(name)[0](*inputs).shape
    output.sum().backward()


def test_what_is_refused_is_documented():
    assert documented.refused("model") == set(REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "place"),
    [
        (AloneConfig(d_model=8), "after"),
        (WindowConfig(d_model=8), "before"),
        (ConvolutionConfig(d_model=8), "after"),
        (AttentionConfig(d_model=8, encoder_layers=1), "before"),
    ],
    ids=["token", "window", "cnn", "attention"],
)
def test_one_program_tags_sentences_of_every_length(config, place):
    torch.compiler.reset()
    model = build_token_tagger(config, PoolingConfig(place=place), 23, 5).eval()
    program = torch.compile(model, fullgraph=True, dynamic=True, backend="eager")
    for pieces in ([[2, 1, 3], [1, 0, 0]], [[1, 2, 1, 1, 4]], [[3, 1], [2, 2], [1, 0]]):
        counts = torch.tensor(pieces)
        tokens = torch.randint(4, 23, (len(pieces), int(counts.sum(1).max())))
        torch.testing.assert_close(program(tokens, counts), model(tokens, counts))
