"""What readers of the book run, with one line changed: the import below. Expected numbers are those of their notes."""

import pytest
import torch
from matplotlib import pyplot
from torch import nn
from torch.testing import assert_close

from headwise import textbook as d2l

pytestmark = pytest.mark.usefixtures("untyped")

EXPECTED = torch.tensor([[[2.0, 3.0, 4.0, 5.0]], [[10.0, 11.0, 12.0, 13.0]]])


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def scoring():
    keys = torch.ones((2, 10, 2))
    values = torch.arange(40, dtype=torch.float32).reshape(1, 10, 4).repeat(2, 1, 1)
    return keys, values, torch.tensor([2, 6])


def test_additive_attention():
    queries = torch.normal(0, 1, (2, 1, 20))
    keys, values, valid_lens = scoring()
    attention = d2l.AdditiveAttention(key_size=2, query_size=20, num_hiddens=8, dropout=0.1)
    attention.eval()
    assert_close(attention(queries, keys, values, valid_lens), EXPECTED)
    # the trace of shapes
    q, k = attention.W_q(queries), attention.W_k(keys)
    assert (q.shape, k.shape) == ((2, 1, 8), (2, 10, 8))
    features = q.unsqueeze(2) + k.unsqueeze(1)
    assert features.shape == (2, 1, 10, 8)
    scores = attention.w_v(torch.tanh(features)).squeeze(-1)
    assert scores.shape == (2, 1, 10)
    assert_close(attention.attention_weights, d2l.masked_softmax(scores, valid_lens).detach())
    d2l.show_heatmaps(attention.attention_weights.reshape((1, 1, 2, 10)), xlabel="Keys", ylabel="Queries")
    shown = pyplot.gcf().axes[0].images[0].get_array()
    expected = torch.zeros(2, 10)
    expected[0, :2], expected[1, :6] = 1 / 2, 1 / 6
    assert_close(torch.from_numpy(shown.data), expected)


def test_scaled_dot_product_attention():
    queries = torch.normal(0, 1, (2, 1, 2))
    keys, values, valid_lens = scoring()
    attention = d2l.DotProductAttention(dropout=0.5)
    attention.eval()
    assert_close(attention(queries, keys, values, valid_lens), EXPECTED)


def test_masked_softmax():
    weights = d2l.masked_softmax(torch.rand(2, 2, 4), torch.tensor([2, 3]))
    assert_close(weights.sum(-1), torch.ones(2, 2))
    assert weights[0, :, 2:].eq(0).all()
    assert weights[1, :, 3:].eq(0).all()
    weights = d2l.masked_softmax(torch.rand(2, 2, 4), torch.tensor([[1, 3], [2, 4]]))
    assert weights.gt(0).sum(-1).tolist() == [[1, 3], [2, 4]]


def test_multi_head_attention_over_itself_and_over_a_memory():
    num_hiddens, num_heads = 100, 5
    attention = d2l.MultiHeadAttention(num_hiddens, num_hiddens, num_hiddens, num_hiddens, num_heads, 0.5)
    attention.eval()
    batch_size, num_queries, num_kvpairs, valid_lens = 2, 4, 6, torch.tensor([3, 2])
    X = torch.ones((batch_size, num_queries, num_hiddens))
    Y = torch.ones((batch_size, num_kvpairs, num_hiddens))
    assert attention(X, Y, Y, valid_lens).shape == (batch_size, num_queries, num_hiddens)
    assert attention(X, X, X, valid_lens).shape == (batch_size, num_queries, num_hiddens)
    # equal keys: a third on each of 3, a half on each of 2
    weights = attention.attention.attention_weights
    assert weights.shape == (batch_size * num_heads, 4, 4)
    assert_close(weights[:5], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]).expand(5, 4, 4))
    assert_close(weights[5:], torch.tensor([1 / 2, 1 / 2, 0, 0]).expand(5, 4, 4))


def encoding_of_notes():
    encoding_dim, num_steps = 32, 60
    pos_encoding = d2l.PositionalEncoding(encoding_dim, 0)
    pos_encoding.eval()
    X = pos_encoding(torch.zeros((1, num_steps, encoding_dim)))
    P = pos_encoding.P[:, : X.shape[1], :]
    assert_close(X, P)
    return P


def test_positional_encoding():
    P = encoding_of_notes()
    assert P[0, 0].tolist() == [0.0, 1.0] * 16
    assert_close(P[0].square().sum(-1), torch.full((60,), 16.0))
    assert_close(P[0, 1, 6:10], torch.tensor([0.17689219, 0.98423023, 0.09983342, 0.99500417]))
    assert_close(P[0, 2, 6:10], torch.tensor([0.34820528, 0.93741831, 0.19866933, 0.98006658]))
    # a shift is a rotation that does not depend on the position: p_0 . p_10 = p_30 . p_40
    assert_close(P[0, 0] @ P[0, 10], P[0, 30] @ P[0, 40])
    assert (P[0, 0] @ P[0, 10]).item() == pytest.approx(10.0589, abs=1e-4)


def test_curves_of_the_positional_encoding():
    P = encoding_of_notes()
    d2l.plot(
        torch.arange(60),
        P[0, :, 6:10].T,
        xlabel="Row (position)",
        figsize=(6, 2.5),
        legend=[f"Col {d}" for d in torch.arange(6, 10)],
    )
    (axes,) = pyplot.gcf().axes
    assert len(axes.lines) == 4
    assert len({line.get_linestyle() for line in axes.lines}) == 4
    for column, line in zip(range(6, 10), axes.lines, strict=True):
        assert line.get_xdata().tolist() == list(range(60))
        assert_close(torch.from_numpy(line.get_ydata()), P[0, :, column])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Col 6", "Col 7", "Col 8", "Col 9"]
    assert axes.get_xlabel() == "Row (position)"


def test_heat_map_of_the_positional_encoding():
    P = encoding_of_notes()
    d2l.show_heatmaps(
        P[0, :, :].unsqueeze(0).unsqueeze(0),
        xlabel="Column (encoding dimension)",
        ylabel="Row (position)",
        figsize=(3.5, 4),
        cmap="Blues",
    )
    axes = pyplot.gcf().axes[0]
    assert_close(torch.from_numpy(axes.images[0].get_array().data), P[0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Column (encoding dimension)", "Row (position)")


class NotedDecoder(d2l.AttentionDecoder):
    """A decoder as a reader types it from the page: loops, and weights gathered while it runs."""

    def __init__(self, vocab_size, embed_size, num_hiddens, num_layers, dropout=0, **kwargs):
        super().__init__(**kwargs)
        self.attention = d2l.AdditiveAttention(num_hiddens, num_hiddens, num_hiddens, dropout)
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size + num_hiddens, num_hiddens, num_layers, dropout=dropout)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def init_state(self, enc_outputs, enc_valid_lens, *args):
        outputs, hidden_state = enc_outputs
        return outputs.permute(1, 0, 2), hidden_state, enc_valid_lens

    def forward(self, X, state):
        memory, hidden, lens = state
        found, self._attention_weights = [], []
        for x in self.embedding(X).permute(1, 0, 2):
            context = self.attention(hidden[-1].unsqueeze(1), memory, memory, lens)
            out, hidden = self.rnn(torch.cat((context, x.unsqueeze(1)), dim=-1).permute(1, 0, 2), hidden)
            found.append(out)
            self._attention_weights.append(self.attention.attention_weights)
        return self.dense(torch.cat(found, dim=0)).permute(1, 0, 2), [memory, hidden, lens]

    @property
    def attention_weights(self):
        return self._attention_weights


@pytest.mark.parametrize("decoder_type", [d2l.Seq2SeqAttentionDecoder, NotedDecoder])
def test_shapes_of_the_bahdanau_decoder(decoder_type):
    encoder = d2l.Seq2SeqEncoder(vocab_size=10, embed_size=8, num_hiddens=16, num_layers=2)
    encoder.eval()
    decoder = decoder_type(vocab_size=10, embed_size=8, num_hiddens=16, num_layers=2)
    decoder.eval()
    X = torch.zeros((4, 7), dtype=torch.long)
    state = decoder.init_state(encoder(X), None)
    output, state = decoder(X, state)
    assert output.shape == (4, 7, 10)
    assert (len(state), state[0].shape, len(state[1]), state[1][0].shape) == (3, (4, 7, 16), 2, (4, 16))


def test_a_decoder_typed_from_the_page_computes_the_same():
    torch.manual_seed(1)
    ours = d2l.EncoderDecoder(d2l.Seq2SeqEncoder(10, 8, 16, 2), d2l.Seq2SeqAttentionDecoder(10, 8, 16, 2))
    noted = d2l.EncoderDecoder(d2l.Seq2SeqEncoder(10, 8, 16, 2), NotedDecoder(10, 8, 16, 2))
    # weights go from one to the other by name
    noted.load_state_dict(ours.state_dict())
    X, Y, lens = torch.randint(4, 10, (3, 7)), torch.randint(4, 10, (3, 5)), torch.tensor([7, 2, 4])
    assert_close(ours(X, Y, lens)[0], noted(X, Y, lens)[0])
    assert_close(ours.decoder.attention_weights, noted.decoder.attention_weights)


ENGS = ["go .", "i lost .", "he's calm .", "i'm home ."]
FRAS = ["va !", "j'ai perdu .", "il est calme .", "je suis chez moi ."]
MORE = [
    ("hello .", "bonjour ."),
    ("thank you .", "merci ."),
    ("he's home .", "il est chez lui ."),
    ("she's calm .", "elle est calme ."),
    ("i lost my key .", "j'ai perdu ma clé ."),
    ("i go home .", "je vais chez moi ."),
]


@pytest.fixture
def corpus(tmp_path):
    """Ten pairs, each twice, for words seen once are unknown."""
    path = tmp_path / "fra.txt"
    pairs = [*zip(ENGS, FRAS, strict=True), *MORE] * 2
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def bahdanau(src_vocab, tgt_vocab):
    sizes = 32, 32, 2, 0.1
    return d2l.Seq2SeqEncoder(len(src_vocab), *sizes), NotedDecoder(len(tgt_vocab), *sizes)


def ready_made(src_vocab, tgt_vocab):
    sizes = 32, 32, 2, 0.1
    return d2l.Seq2SeqEncoder(len(src_vocab), *sizes), d2l.Seq2SeqAttentionDecoder(len(tgt_vocab), *sizes)


def transformer(src_vocab, tgt_vocab):
    sizes = 32, 32, 32, 32, [32], 32, 64, 4, 2, 0.1
    return d2l.TransformerEncoder(len(src_vocab), *sizes), d2l.TransformerDecoder(len(tgt_vocab), *sizes)


def translated(net, src_vocab, tgt_vocab, num_steps, device):
    scores = []
    for eng, fra in zip(ENGS, FRAS, strict=True):
        translation, weights = d2l.predict_seq2seq(net, eng, src_vocab, tgt_vocab, num_steps, device, True)
        scores.append(d2l.bleu(translation, fra, k=2))
    return scores, weights


@pytest.mark.slow
@pytest.mark.parametrize("build", [bahdanau, ready_made])
def test_the_four_sentences(build, corpus, capsys):
    num_steps, device = 10, d2l.try_gpu()
    train_iter, src_vocab, tgt_vocab = d2l.load_data_nmt(10, num_steps, path=corpus)
    net = d2l.EncoderDecoder(*build(src_vocab, tgt_vocab))
    d2l.train_seq2seq(net, train_iter, 0.01, 80, tgt_vocab, device)
    assert "tokens/sec" in capsys.readouterr().out
    scores, dec_attention_weight_seq = translated(net, src_vocab, tgt_vocab, num_steps, device)
    assert scores == [1.0] * 4
    attention_weights = torch.cat([step[0][0][0] for step in dec_attention_weight_seq], 0)
    attention_weights = attention_weights.reshape((1, 1, -1, num_steps))
    # je suis chez moi . <eos>
    assert attention_weights.shape == (1, 1, 6, num_steps)
    keys = len(ENGS[-1].split()) + 1
    assert_close(attention_weights.sum(-1), torch.ones(1, 1, 6))
    assert attention_weights[..., keys:].eq(0).all()
    d2l.show_heatmaps(attention_weights[:, :, :, :keys].cpu(), xlabel="Key positions", ylabel="Query positions")
    assert pyplot.gcf().axes[0].images[0].get_array().shape == (6, 4)


@pytest.mark.slow
def test_the_four_sentences_by_a_transformer(corpus):
    num_steps, device, num_layers, num_heads = 10, d2l.try_gpu(), 2, 4
    train_iter, src_vocab, tgt_vocab = d2l.load_data_nmt(10, num_steps, path=corpus)
    net = d2l.EncoderDecoder(*transformer(src_vocab, tgt_vocab))
    d2l.train_seq2seq(net, train_iter, 0.005, 60, tgt_vocab, device)
    scores, dec_attention_weight_seq = translated(net, src_vocab, tgt_vocab, num_steps, device)
    assert scores == [1.0] * 4
    enc_attention_weights = torch.cat(net.encoder.attention_weights, 0).reshape((num_layers, num_heads, -1, num_steps))
    assert enc_attention_weights.shape == (num_layers, num_heads, num_steps, num_steps)
    d2l.show_heatmaps(enc_attention_weights, "Key positions", "Query positions", ["1", "2", "3", "4"], (7, 3.5))
    rows = [head[0].tolist() for step in dec_attention_weight_seq for attn in step for blk in attn for head in blk]
    assert len(rows) == 6 * 2 * num_layers * num_heads
    # the self-attention of a step sees itself and what came before it
    assert [len(row) for row in rows[:: 2 * num_layers * num_heads]] == [1, 2, 3, 4, 5, 6]
