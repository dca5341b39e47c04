"""The recurrent encoder-decoder: golden shapes, one definition for all paths, no leaks, decoding step by step."""

from functools import partial

import pytest
import torch
from devices import not_simulated, seeded
from torch.testing import assert_close

from headwise.attention import attend
from headwise.attention.scores import Additive
from headwise.errors import ConfigError, DataError, Unsupported
from headwise.models.protocols import Memory
from headwise.models.recurrent import advance
from headwise.records import record
from headwise.tasks.translation.recurrent import RecurrentConfig, build_recurrent

pytestmark = not_simulated("PyTorch runs recurrent cells of other devices in one kernel of theirs")

SRC_VOCAB, TGT_VOCAB = 11, 13
LENS = torch.tensor([7, 3, 0, 1])
VARIANTS = [
    {"cell": "gru"},
    {"cell": "lstm"},
    {"cell": "gru", "bidirectional": True, "num_layers": 3},
    {"cell": "lstm", "bidirectional": True, "num_layers": 1},
    {"cell": "gru", "score": "none"},
    {"cell": "lstm", "score": "none", "bidirectional": True},
    {"cell": "gru", "score": "bilinear"},
    {"cell": "lstm", "score": "dot"},
    {"cell": "gru", "score": "scaled_dot", "normalizer": "sigmoid"},
    {"cell": "gru", "normalizer": "relu"},
    {"cell": "rnn", "bidirectional": True},
]


def build(dtype=torch.float64, **options):
    torch.manual_seed(0)
    sizes = {"embed_dim": 3, "hidden_dim": 5, "dropout": 0.0} | options
    return build_recurrent(RecurrentConfig(**sizes), SRC_VOCAB, TGT_VOCAB).to(dtype)


def batch():
    generator = seeded(1)
    src = torch.randint(0, SRC_VOCAB, (4, 7), generator=generator)
    return src, LENS, torch.randint(0, TGT_VOCAB, (4, 6), generator=generator)


def test_golden_shapes_of_the_course_book():
    # d2l section 10.4: batch 4, steps 7, vocabulary 10, embedding 8, hidden 16, 2 layers
    model = build_recurrent(RecurrentConfig(embed_dim=8, hidden_dim=16, num_layers=2), 10, 10).eval()
    tokens, lens = torch.zeros(4, 7, dtype=torch.long), torch.full((4,), 7)
    memory = model.encoder(tokens, lens)
    assert model(tokens, lens, tokens).shape == (4, 7, 10)
    assert memory.states.shape == (4, 7, 16)
    assert [tuple(part.shape for part in state) for state in model.decoder.start(memory, lens).state] == [
        ((4, 16),)
    ] * 2


def by_hand(model, src, lens, tgt):
    """Logits sentence by sentence and token by token: PyTorch's cells and `attend` with the additive score."""
    encoder, decoder = model.encoder, model.decoder
    score = Additive(5, 5 * len(encoder.layers[0]), 5).double()
    score.query, score.key, score.value = decoder.query, decoder.key, decoder.attention.value
    logits = []
    for row, length in enumerate(lens.tolist()):
        x, states = encoder.embedding(src[row, :length]), []
        for number, directions in enumerate(encoder.layers):
            read = [one_way(layer, x.flip(0) if back else x) for back, layer in enumerate(directions)]
            x = torch.cat([hidden.flip(0) if back else hidden for back, (hidden, _) in enumerate(read)], -1)
            last = torch.cat([state for _, state in read], -1)
            states.append((torch.tanh(encoder.bridges[number](last)) if encoder.bridges else last)[None].split(5, -1))
        memory = x[None, None]
        for token in tgt[row]:
            context = attend(states[-1][0][None, None], memory, memory, score=score)[0, 0]
            y = torch.cat([context, decoder.embedding(token)[None]], -1)
            for number, cell in enumerate(decoder.cells):
                states[number] = advance(cell, y, states[number])
                y = states[number][0]
            logits.append(decoder.output(y))
    return torch.cat(logits).view(len(lens), tgt.shape[1], -1)


def one_way(layer, x):
    """Hidden states over the tokens of one sentence, and the state after the last."""
    cell = layer
    if isinstance(layer, torch.nn.RNNBase):
        kind = torch.nn.GRUCell if isinstance(layer, torch.nn.GRU) else torch.nn.RNNCell
        cell = kind(layer.input_size, layer.hidden_size)
        for name, parameter in layer.named_parameters():
            delattr(cell, name.removesuffix("_l0"))
            setattr(cell, name.removesuffix("_l0"), parameter)
    state, hidden = (x.new_zeros(1, 5),) * (2 if isinstance(cell, torch.nn.LSTMCell) else 1), [x.new_zeros(0, 5)]
    for token in x:
        state = advance(cell, token[None], state)
        hidden.append(state[0])
    return torch.cat(hidden), torch.cat(state, -1)[0]


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_outputs_and_gradients_are_those_of_the_definition(cell, bidirectional):
    model = build(cell=cell, bidirectional=bidirectional)
    learned = list(model.parameters())
    direction = torch.randn(4, 6, TGT_VOCAB, dtype=torch.float64)
    for one, two in zip(
        *(with_gradients(run, learned, direction) for run in (model, partial(by_hand, model))), strict=True
    ):
        assert_close(one, two, rtol=0, atol=1e-12)


def with_gradients(run, learned, direction):
    logits = run(*batch())
    return [logits, *torch.autograd.grad(logits, learned, direction)]


def test_dropout_between_layers_has_the_right_mean_and_leaves_the_last_layer_alone():
    torch.manual_seed(0)
    model, (src, lens, tgt) = build(dropout=0.5, attention_dropout=0.0), batch()
    rows = [tensor[:1].expand(2000, *tensor.shape[1:]) for tensor in (src, lens, tgt[:, :1])]
    hidden = model.decoder.hidden(
        rows[2], Memory(*(tensor.detach() for tensor in model.eval().encoder(*rows[:2]))), rows[1]
    )
    model.train()
    memory = Memory(*(tensor.detach() for tensor in model.eval().encoder(*rows[:2])))
    model.decoder.train()
    dropped = model.decoder.hidden(rows[2], memory, rows[1])
    assert_close(dropped.mean(0), hidden[0], rtol=0, atol=2e-2)
    assert (dropped != 0).all()
    # each of the five numbers below the last layer is there or not
    assert dropped.detach().round(decimals=9).unique(dim=0).shape[0] == 32


def test_dropped_attention_weights():
    # with one key its weight is 1 and dropout multiplies the value itself, which makes the context 0 or value / (1 - p)
    model = build(attention_dropout=0.5, num_layers=1).train()
    src, lens, tgt = torch.full((500, 1), 2), torch.ones(500, dtype=torch.long), torch.zeros(500, 1, dtype=torch.long)
    hidden = model.decoder.hidden(tgt, model.encoder(src, lens), lens)
    distinct = hidden[:, 0].detach().round(decimals=9).unique(dim=0)
    assert distinct.shape[0] == 2
    memory = model.encoder(src[:1], lens[:1])
    expected = []
    model.decoder.attention.dropout = 0.0
    for scale in (0.0, 2.0):
        fixed = Memory(memory.states.detach() * scale, memory.summary)
        expected.append(model.decoder.hidden(tgt[:1], fixed, lens[:1])[0, 0])
    assert_close(distinct, torch.stack(expected).detach().unique(dim=0), rtol=0, atol=1e-8)


def test_a_record_sees_the_attention_and_changes_no_number():
    model = build().eval()
    src, lens, tgt = batch()
    plain = model(src, lens, tgt)
    with record(model) as trace:
        recorded = model(src, lens, tgt)
    assert_close(recorded, plain, rtol=0, atol=1e-12)
    (name,) = trace.names()
    weights = trace[name].weights()
    assert name == "decoder.attention"
    assert weights.shape == (4, 1, 6, 7)
    assert_close(weights.sum(-1)[lens > 0], torch.ones(3, 1, 6, dtype=torch.float64))
    assert not weights[torch.arange(7) >= lens[:, None, None, None].expand(4, 1, 6, 1)].any()


@pytest.mark.parametrize("options", VARIANTS)
def test_steps_equal_teacher_forcing_and_beams_follow_their_rows(options):
    model = build(**options).eval()
    src, lens, tgt = batch()
    with torch.no_grad():
        expected = model(src, lens, tgt)
        memory = model.encoder(src, lens)
        cache = model.decoder.start(memory, lens)
        assert_close(model.decoder.step(tgt[:, 0], cache), expected[:, 0], rtol=0, atol=1e-12)
        # beams part after the first step, which they share
        cache.expand(2)
        order = torch.arange(4).repeat_interleave(2)
        for step in (1, 2):
            logits = model.decoder.step(tgt[order, step], cache)
            assert_close(logits, expected[order, step], rtol=0, atol=1e-12)
        # both beams of a sentence take other tokens, then all continue the second
        other = (tgt[:, 3] + 1) % TGT_VOCAB
        model.decoder.step(torch.stack([other, tgt[:, 3]], 1).flatten(), cache)
        cache.reorder(torch.arange(8) // 2 * 2 + 1)
        cache.keep(torch.tensor([3, 0]))
        kept = torch.tensor([3, 3, 0, 0])
        logits = model.decoder.step(tgt[kept, 4], cache)
    assert (cache.length, cache.sentences) == (5, 2)
    assert_close(logits, expected[kept, 4], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_sentence_does_not_depend_on_padding_or_neighbours(options, dtype, tolerance):
    model = build(dtype, **options).eval()
    src, lens, tgt = batch()
    logits = model(src, lens, tgt)
    assert logits.isfinite().all()
    other = src.clone()
    other[torch.arange(7) >= lens[:, None]] = 4
    other[0] = 5
    assert torch.equal(model(other, lens, tgt)[1:], logits[1:])
    for row, length in enumerate(lens.tolist()):
        alone = model(src[row : row + 1, :length], lens[row : row + 1], tgt[row : row + 1])
        assert_close(alone[0], logits[row], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("options", VARIANTS)
def test_what_stands_in_padding_has_no_gradient_and_no_effect(options):
    model = build(**options).eval()
    src, lens, tgt = batch()
    memory = model.encoder(src, lens)
    states = memory.states.detach().requires_grad_()
    padding = torch.arange(7) >= lens[:, None]
    hidden = model.decoder.hidden(tgt, Memory(states, memory.summary.detach()), lens)
    poisoned = Memory(states.detach().masked_fill(padding[..., None], torch.nan), memory.summary.detach())
    assert torch.equal(model.decoder.hidden(tgt, poisoned, lens), hidden)
    if options.get("score") != "none":
        (gradient,) = torch.autograd.grad(hidden.sum(), states)
        assert not gradient[padding].any()
        assert gradient[~padding].any()


def test_target_positions_do_not_see_later_tokens():
    model = build().eval()
    src, lens, tgt = batch()
    changed = tgt.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % TGT_VOCAB
    assert torch.equal(model(src, lens, tgt)[:, :4], model(src, lens, changed)[:, :4])


def test_the_context_without_attention_is_the_last_state_at_every_step():
    model = build(score="none", num_layers=1).eval()
    src, lens, tgt = batch()
    memory = model.encoder(src, lens)
    decoder, state = model.decoder, memory.summary[0]
    for step in range(tgt.shape[1]):
        x = torch.cat([memory.summary[0], decoder.embedding(tgt[:, step])], -1)
        state = decoder.cells[0](x, state)
        assert_close(decoder.hidden(tgt, memory, lens)[:, step], state, rtol=0, atol=1e-14)


def test_an_empty_source_has_zero_context_and_an_empty_batch_an_empty_result():
    model = build().eval()
    src, lens, tgt = batch()
    calls = []
    handle = model.decoder.attention.register_forward_hook(lambda module, inputs, output: calls.append(output))
    model(src, lens, tgt)
    handle.remove()
    assert len(calls) == 6
    assert not any(output[2].any() for output in calls)
    assert model(src[:0], lens[:0], tgt[:0]).shape == (0, 6, TGT_VOCAB)
    assert model(src, lens, tgt[:, :0]).shape == (4, 0, TGT_VOCAB)


def test_recurrences_stay_float32_under_autocast():
    model = build(torch.float32)
    src, lens, tgt = batch()
    expected = model(src, lens, tgt)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(src, lens, tgt)
    assert logits.dtype == torch.bfloat16
    assert_close(logits.float(), expected, rtol=0, atol=2e-2)
    logits.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())


def test_the_output_matrix_can_be_the_embedding():
    model = build(embed_dim=5, tie_output=True)
    assert model.decoder.output.weight is model.decoder.embedding.weight


def test_errors_name_what_is_wrong():
    with pytest.raises(ConfigError, match=r"tie_output needs embed_dim \(3\) equal to hidden_dim \(5\)"):
        build(tie_output=True)
    with pytest.raises(ConfigError, match="score 'dot' needs equal widths, got query 5 and key 10"):
        build(score="dot", bidirectional=True)
    model = build()
    src, lens, tgt = batch()
    with pytest.raises(DataError, match="token 13 is outside the vocabulary of 13"):
        model(src, lens, tgt.fill_(13))
    with pytest.raises(DataError, match="token -1 is outside the vocabulary of 11"):
        model.encoder(src.fill_(-1), lens)
    with pytest.raises(Unsupported, match="a recurrent decoder starts from the encoder's final states"):
        model.decoder.start(Memory(torch.zeros(4, 7, 5)), lens)


def test_other_parameters_and_meta_tensors():
    model, inputs = build(torch.float32).eval(), batch()
    expected = model(*inputs)
    other = {name: 0.5 * parameter.detach() for name, parameter in model.named_parameters()}
    found = torch.func.grad(lambda given: torch.func.functional_call(model, given, inputs).square().sum())(other)
    model.load_state_dict(other)
    wanted = torch.autograd.grad(model(*inputs).square().sum(), list(model.parameters()))
    for one, two in zip(found.values(), wanted, strict=True):
        assert_close(one, two)
    assert model.to("meta")(*(tensor.to("meta") for tensor in inputs)).shape == expected.shape
