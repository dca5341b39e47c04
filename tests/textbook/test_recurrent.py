import pytest
import torch
from torch.testing import assert_close

from headwise.errors import Unsupported
from headwise.textbook import EncoderDecoder, Seq2SeqAttentionDecoder, Seq2SeqEncoder

BATCH, STEPS, SOURCE, VOCAB, EMBED, HIDDEN, LAYERS = 3, 5, 7, 17, 2, 11, 2
LENS = torch.tensor([7, 1, 4])


def tokens(steps):
    return torch.randint(4, VOCAB, (BATCH, steps))


def pair(dropout=0.0):
    sizes = VOCAB, EMBED, HIDDEN, LAYERS, dropout
    return Seq2SeqEncoder(*sizes).double(), Seq2SeqAttentionDecoder(*sizes).double()


def test_the_encoder_is_a_gru_over_embeddings():
    encoder, _ = pair()
    X = tokens(SOURCE)
    outputs, state = encoder(X)
    expected, last = encoder.rnn(encoder.embedding(X).permute(1, 0, 2))
    assert outputs.shape == (SOURCE, BATCH, HIDDEN)
    assert_close((outputs, state), (expected, last))


def test_the_encoder_ends_at_the_last_real_token():
    # in the book the state of a short sentence is that after its padding
    encoder, _ = pair()
    X = tokens(SOURCE)
    outputs, state = encoder(X, LENS)
    assert outputs.shape == (SOURCE, BATCH, HIDDEN)
    for row, length in enumerate(LENS.tolist()):
        alone, last = encoder(X[row : row + 1, :length])
        assert_close(outputs[:length, row : row + 1], alone)
        assert_close(state[:, row : row + 1], last)
        assert outputs[length:, row].eq(0).all()


def by_the_book(decoder, X, enc_outputs, hidden, lens):
    """Bahdanau's decoder, token by token: attend with the top state, then read [context; embedding]."""
    W_q, W_k, w_v = decoder.attention.W_q, decoder.attention.W_k, decoder.attention.w_v
    logits, weights = [], []
    for step in range(X.shape[1]):
        scores = w_v(torch.tanh(W_q(hidden[-1])[:, None] + W_k(enc_outputs)))[..., 0]
        scores = scores.masked_fill(torch.arange(enc_outputs.shape[1]) >= lens[:, None], float("-inf"))
        weights.append(scores.softmax(-1)[:, None])
        context = (weights[-1] @ enc_outputs)[:, 0]
        output, hidden = decoder.rnn(torch.cat([context, decoder.embedding(X[:, step])], -1)[None], hidden)
        logits.append(decoder.dense(output[0]))
    return torch.stack(logits, 1), hidden, weights


def test_the_decoder_is_that_of_bahdanau():
    encoder, decoder = pair()
    X, source = tokens(STEPS), tokens(SOURCE)
    state = decoder.init_state(encoder(source, LENS), LENS)
    expected, last, weights = by_the_book(decoder, X, *state)
    found, (enc_outputs, hidden, lens) = decoder(X, state)
    assert_close(found, expected)
    assert_close(hidden, last)
    assert enc_outputs is state[0]
    assert lens is LENS
    assert_close(decoder.attention_weights, [step.detach() for step in weights])
    parameters = [*encoder.parameters(), *decoder.parameters()]
    chosen = torch.randn_like(expected)
    assert_close(
        torch.autograd.grad((found * chosen).sum(), parameters, retain_graph=True),
        torch.autograd.grad((expected * chosen).sum(), parameters),
    )


def test_token_by_token_gives_the_logits_of_all_at_once():
    encoder, decoder = pair()
    X = tokens(STEPS)
    state = decoder.init_state(encoder(tokens(SOURCE), LENS), LENS)
    whole, _ = decoder(X, state)
    parts = []
    for x in X.split(1, dim=1):
        logits, state = decoder(x, state)
        parts.append(logits)
        assert len(decoder.attention_weights) == 1
    assert_close(torch.cat(parts, 1), whole)


def test_padding_changes_nothing():
    net = EncoderDecoder(*pair())
    X, source = tokens(STEPS), tokens(SOURCE)
    logits, _ = net(source, X, LENS)
    alone, _ = net(source[2:, :4], X[2:], LENS[2:])
    assert_close(logits[2:], alone)


def test_weights_are_seen_step_by_step_without_a_graph():
    encoder, decoder = pair()
    decoder(tokens(STEPS), decoder.init_state(encoder(tokens(SOURCE), LENS), LENS))
    weights = decoder.attention_weights
    assert [step.shape for step in weights] == [(BATCH, 1, SOURCE)] * STEPS
    assert not any(step.requires_grad for step in weights)
    for step in weights:
        assert_close(step.sum(-1), torch.ones(BATCH, 1, dtype=torch.float64))
        assert step[1, 0, 1:].eq(0).all()


def test_there_are_no_weights_before_a_call():
    with pytest.raises(Unsupported, match="attention_weights"):
        pair()[1].attention_weights  # noqa: B018


def test_dropout_acts_between_layers_and_on_weights_while_training():
    encoder, decoder = pair(0.5)
    X, source = tokens(STEPS), tokens(SOURCE)
    once, twice = (decoder(X, decoder.init_state(encoder.eval()(source), None))[0] for _ in range(2))
    assert not torch.equal(once, twice)
    assert not torch.equal(encoder.train()(source)[0], encoder(source)[0])
    decoder.eval()
    state = decoder.init_state(encoder.eval()(source), None)
    assert_close(decoder(X, state)[0], decoder(X, state)[0], rtol=0, atol=0)


def test_one_layer_takes_a_dropout_too():
    # PyTorch warns of one between layers, and warnings are errors here
    encoder, decoder = (
        Seq2SeqEncoder(VOCAB, EMBED, HIDDEN, 1, 0.5),
        Seq2SeqAttentionDecoder(VOCAB, EMBED, HIDDEN, 1, 0.5),
    )
    assert encoder.rnn.dropout == 0
    assert decoder.attention.dropout.p == 0.5


def test_parameters_have_the_names_of_the_book():
    recurrent = {
        f"rnn.{part}_l{layer}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh") for layer in (0, 1)
    }
    attention = {f"attention.{name}.weight" for name in ("W_k", "W_q", "w_v")}
    encoder, decoder = pair()
    assert set(encoder.state_dict()) == recurrent | {"embedding.weight"}
    assert set(decoder.state_dict()) == recurrent | attention | {"embedding.weight", "dense.weight", "dense.bias"}
