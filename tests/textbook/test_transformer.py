import math

import pytest
import torch
from torch.testing import assert_close

from headwise.textbook import EncoderDecoder, TransformerDecoder, TransformerEncoder

BATCH, STEPS, SOURCE, VOCAB, WIDTH, INNER, HEADS, LAYERS = 2, 5, 7, 17, 6, 11, 3, 2
SIZES = (WIDTH, WIDTH, WIDTH, WIDTH, [WIDTH], WIDTH, INNER, HEADS, LAYERS)


def tokens(steps):
    return torch.randint(4, VOCAB, (BATCH, steps))


def decoder_and_state():
    decoder = TransformerDecoder(VOCAB, *SIZES, 0.0).double()
    memory = torch.randn(BATCH, SOURCE, WIDTH, dtype=torch.float64)
    return decoder, decoder.init_state(memory, torch.tensor([7, 3]))


def test_the_encoder_scales_embeddings_and_stacks_its_blocks():
    encoder = TransformerEncoder(VOCAB, *SIZES, 0.0, True).double()
    X, lens = tokens(SOURCE), torch.tensor([7, 3])
    expected = encoder.embedding(X) * math.sqrt(WIDTH) + encoder.pos_encoding.P[:, :SOURCE]
    for number in range(LAYERS):
        expected = encoder.blks.get_submodule(f"block{number}")(expected, lens)
    assert_close(encoder(X, lens), expected, rtol=0, atol=1e-6)
    assert encoder.blks.block1.attention.W_o.bias is not None


def test_padding_changes_nothing():
    encoder = TransformerEncoder(VOCAB, *SIZES, 0.0).double()
    X = tokens(SOURCE)
    alone = encoder(X[1:, :3], torch.tensor([3]))
    assert_close(encoder(X, torch.tensor([7, 3]))[1:, :3], alone)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_token_by_token_gives_the_logits_of_all_at_once(training):
    # in the book every token that is predicted has position 0, and eval() sees the future
    decoder, state = decoder_and_state()
    decoder.train(training)
    X = tokens(STEPS)
    whole, _ = decoder(X, state)
    assert whole.shape == (BATCH, STEPS, VOCAB)
    parts = []
    for x in X.split(1, dim=1):
        logits, state = decoder(x, state)
        parts.append(logits)
    assert_close(torch.cat(parts, 1), whole)


def test_a_state_can_be_gone_on_from_twice():
    decoder, start = decoder_and_state()
    X = tokens(STEPS)
    _, state = decoder(X[:, :2], start)
    once, _ = decoder(X[:, 2:3], state)
    twice, _ = decoder(X[:, 2:3], state)
    assert_close(once, twice)
    assert start[2] == [None] * LAYERS


def test_no_logit_depends_on_a_later_token():
    decoder, state = decoder_and_state()
    embedded = []
    decoder.embedding.register_forward_hook(lambda module, args, output: embedded.append(output.requires_grad_()))
    logits, _ = decoder(tokens(STEPS), state)
    for step in range(STEPS):
        (gradient,) = torch.autograd.grad(logits[:, step].square().sum(), embedded[0], retain_graph=True)
        seen = gradient.abs().sum((0, 2)) > 0
        assert seen.tolist() == [other <= step for other in range(STEPS)]


def test_weights_of_every_layer_can_be_seen():
    encoder = TransformerEncoder(VOCAB, *SIZES, 0.0).double()
    decoder = TransformerDecoder(VOCAB, *SIZES, 0.0).double()
    net = EncoderDecoder(encoder, decoder)
    net(tokens(SOURCE), tokens(STEPS), torch.tensor([7, 3]))
    heads = BATCH * HEADS
    assert [weights.shape for weights in encoder.attention_weights] == [(heads, SOURCE, SOURCE)] * LAYERS
    own, cross = decoder.attention_weights
    assert [weights.shape for weights in own] == [(heads, STEPS, STEPS)] * LAYERS
    assert [weights.shape for weights in cross] == [(heads, STEPS, SOURCE)] * LAYERS
    for weights in own:
        assert weights.triu(1).eq(0).all()
    for weights in (*encoder.attention_weights, *cross):
        assert_close(weights.sum(-1), torch.ones(weights.shape[:2], dtype=torch.float64))
        # rows of the batch are sequence by sequence: the second has 3 keys
        assert weights[HEADS:, :, 3:].eq(0).all()
        assert weights[:HEADS, :, 3:].gt(0).all()


def test_parameters_have_the_names_of_the_book():
    names = set(TransformerDecoder(VOCAB, *SIZES, 0.0).state_dict())
    block = {f"attention{i}.W_{part}.weight" for i in (1, 2) for part in "qkvo"}
    block |= {f"addnorm{i}.ln.{part}" for i in (1, 2, 3) for part in ("weight", "bias")}
    block |= {f"ffn.dense{i}.{part}" for i in (1, 2) for part in ("weight", "bias")}
    expected = {f"blks.block{layer}.{name}" for layer in range(LAYERS) for name in block}
    assert names == expected | {"embedding.weight", "dense.weight", "dense.bias"}
