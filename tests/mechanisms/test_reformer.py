"""Reformer attention: one bucket, the sets of keys in loops, rounds, causality, recall, padding, the rotations."""

import mechanism_checks as checks
import pytest
import torch
from devices import seeded
from mechanism_checks import run

from headwise.attention import attend
from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms import reformer as module
from headwise.attention.mechanisms.reformer import Reformer
from headwise.errors import ConfigError, ShapeError

both_ways = pytest.mark.parametrize("mask", [None, Causal()], ids=["all", "causal"])


def reformer(**options):
    return Reformer(**{"head_dim": 6, "max_len": 12, "chunk": 3, **options}).double()


def normalised(key):
    return key / key.norm(dim=-1, keepdim=True)


def defined(keep, query, key, value):
    """Softmax attention over these pairs with keys of norm 1."""
    return attend(query, normalised(key), value, mask=Table(keep), score="dot")


def bucket_of(mechanism, rotation, vector, wanted):
    """The buckets of one round for one vector: argmax [x R; -x R] over as many columns as are wanted."""
    found = []
    for turn in rotation:
        columns = min(wanted, turn.shape[-1])
        row = (vector @ turn[:, :columns]).tolist()
        both = row + [-x for x in row]
        found.append(both.index(max(both)) if both else 0)
        wanted = wanted // max(1, columns) // 2
    return tuple(found)


def met(mechanism, query, rows, *, causal=False):
    """(heads, length, length): the keys that each query of a sentence of `rows` tokens meets, in loops."""
    heads, keep = query.shape[0], torch.zeros(query.shape[0], rows, rows, dtype=torch.bool)
    chunk = mechanism.chunk
    wanted = min(mechanism.columns, rows // chunk) if rows > chunk else 0
    for h in range(heads):
        for rotation in mechanism.rotations:
            bucket = [bucket_of(mechanism, rotation, query[h, i], wanted) for i in range(rows)]
            order = sorted(range(rows), key=lambda i, b=bucket: (b[i], i))
            place = {i: n for n, i in enumerate(order)}
            for i in range(rows):
                for j in range(rows):
                    near = 0 <= place[i] // chunk - place[j] // chunk <= 1
                    if causal:
                        near = j <= i and place[i] - place[j] <= chunk
                    keep[h, i, j] |= bucket[i] == bucket[j] and near
    for h in range(heads):
        for i in range(rows):
            # itself only if there is no other
            keep[h, i, i] = bool(keep[h, i].sum() == 1)
    return keep


@both_ways
@pytest.mark.parametrize("chunk", [7, 64])
def test_one_bucket_is_full_attention(chunk, mask):
    keep = torch.ones(7, 7, dtype=torch.bool)
    keep = (keep if mask is None else keep.tril()) & ~torch.eye(7, dtype=torch.bool)
    if mask is not None:
        keep[0, 0] = True
    inputs = checks.tensors(7, 7)
    checks.same_with_gradients(run(reformer(chunk=chunk, rounds=3), *inputs, mask=mask), defined(keep, *inputs), inputs)


@both_ways
@pytest.mark.parametrize(("length", "rounds"), [(4, 1), (7, 2), (12, 4), (17, 1)])
def test_the_definition_in_loops(length, rounds, mask):
    """Rounds together are one softmax over all keys met in any of them, each counted once."""
    inputs, mechanism = checks.tensors(length, length, batch=2), reformer(rounds=rounds)
    keep = torch.stack([met(mechanism, query, length, causal=mask is not None) for query in inputs[0].detach()])
    checks.same_with_gradients(run(mechanism, *inputs, mask=mask), defined(keep, *inputs), inputs)
    assert length < 5 or 0 < keep.double().mean() < 0.7


def test_many_buckets_are_several_hashes_taken_together(monkeypatch):
    monkeypatch.setattr(module, "_COLUMNS", 2)
    mechanism, inputs = reformer(max_len=48), checks.tensors(48, 48, batch=1)
    # 16 columns wanted: 2, 4 left, 2, 1 left, 1
    assert mechanism.rotations.shape == (2, 3, 6, 2)
    keep = met(mechanism, inputs[0].detach()[0], 48).unsqueeze(0)
    checks.near(run(mechanism, *inputs), defined(keep, *inputs))
    exist = torch.ones(1, 1, 48, dtype=torch.bool)
    assert mechanism.buckets(inputs[0], exist).unique().numel() > 16


def test_as_many_hashes_as_the_buckets_need():
    assert Reformer(8, 2048).rotations.shape == (2, 1, 8, 32)
    mechanism = Reformer(64, 32_768, rounds=1)
    assert mechanism.rotations.shape == (1, 2, 64, 32)
    buckets = mechanism.buckets(torch.randn(1, 1, 32_768, 64), torch.ones(1, 1, 32_768).bool())
    # two for each chunk of 64
    assert 900 < buckets.unique().numel() <= 1024


def test_a_token_meets_others_however_little_they_fit():
    query, key, value = (t.detach() for t in checks.tensors(7, 7))
    others = ~torch.eye(7, dtype=torch.bool)
    checks.near(run(reformer(chunk=7), 500 * query, key, value), defined(others, 500 * query, key, value))


def test_one_projection_for_query_and_key():
    """As in the paper: the same tensor twice."""
    both, _, value = checks.tensors(7, 7, kv_heads=4)
    mechanism = reformer()
    keep = torch.stack([met(mechanism, query, 7) for query in both.detach()])
    checks.same_with_gradients(run(mechanism, both, both, value), defined(keep, both, both, value), [both, value])


def test_later_tokens_change_nothing():
    """Neither what is met, which a chunk cut elsewhere would change, nor a bit of the output."""
    mechanism = reformer(head_dim=3, max_len=30)
    tensors = [torch.randn(4, 2, 30, 3).double() for _ in range(3)]
    before = run(mechanism, *tensors, mask=Causal())
    for cut in (5, 17, 29):
        changed = [torch.cat((t[:, :, :cut], 5 * torch.randn(4, 2, 30 - cut, 3).double()), 2) for t in tensors]
        checks.near(run(mechanism, *changed, mask=Causal())[:, :, :cut], before[:, :, :cut], 1e-13)


def test_recall_of_the_best_keys():
    """Of the 4 keys with the largest scores most are met, more so in more rounds; chance would be the share met."""
    centres = 4 * torch.randn(16, 16)
    both = (centres.repeat(16, 1) + 0.3 * torch.randn(256, 16)).expand(1, 1, 256, 16)
    scores = (both @ normalised(both).mT)[0, 0].fill_diagonal_(-1e9)
    best = scores.topk(4).indices
    recalls = {}
    for rounds in (1, 2, 8):
        reached = checks.shown(Reformer(16, 256, chunk=16, rounds=rounds), both, both)[0, 0] > 0
        recalls[rounds] = float(reached.gather(1, best).float().mean())
        assert recalls[rounds] > 2 * float(reached.float().mean())
    assert recalls[1] < recalls[2] < recalls[8]
    assert recalls[8] > 0.95


def test_it_keeps_the_contract():
    mechanism, inputs = reformer(), checks.tensors(8, 8)
    checks.near(checks.weights_are_the_function(mechanism, inputs).sum(-1), torch.ones(3, 4, 8).double())
    checks.weights_are_the_function(mechanism, inputs, mask=Causal() & Padding(torch.tensor([8, 5, 0])))
    checks.no_key_gives_zero(mechanism, 8)
    checks.empty_sequences(mechanism)
    checks.refuses(mechanism)
    checks.half_precision(reformer(chunk=8), 8)
    checks.half_precision(reformer(chunk=8), 8, mask=Causal())
    checks.dropout_acts_while_training(reformer(dropout=0.5))
    checks.memory_is_linear(Reformer(32, 1024))


@pytest.mark.parametrize("lens", [[11, 3, 1], [2, 11, 6]])
@both_ways
def test_padding_is_absence(lens, mask):
    checks.padding_is_absence(reformer(), 11, lens, mask=mask)
    output = run(reformer(), *checks.tensors(8, 8), mask=Padding(torch.tensor([8, 5, 1])))
    assert output[0].all()
    assert not output[1, :, 5:].any()


def test_a_token_alone_attends_to_itself():
    query, key, value = checks.tensors(1, 1)
    output = run(reformer(), query, key, value)
    checks.near(output, checks.spread(value, 4))
    assert not torch.autograd.grad(output.sum(), query)[0].any()


def test_the_seed_decides_the_buckets():
    inputs, outputs = checks.tensors(12, 12), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(run(reformer(), *inputs))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    mechanism, other = reformer(), reformer()
    before = run(mechanism, *inputs)
    mechanism.redraw(seeded(5))
    assert not torch.equal(run(mechanism, *inputs), before)
    other.load_state_dict(mechanism.state_dict())
    assert torch.equal(run(mechanism, *inputs), run(other, *inputs))


@both_ways
def test_it_is_that_of_transformers_in_one_bucket(mask):
    """Oracle: LSHSelfAttention of transformers, which works on chunks of mixed buckets: a single chunk is compared."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    config = transformers.ReformerConfig(
        hidden_size=12, num_attention_heads=2, attention_head_size=6, lsh_attn_chunk_length=7, num_buckets=2,
        num_hashes=1, is_decoder=mask is not None, lsh_attention_probs_dropout_prob=0.0, attn_layers=["lsh"],
    )  # fmt: skip
    theirs, x = LSHSelfAttention(config).eval(), torch.randn(3, 7, 12)
    both, value = (layer(x).unflatten(-1, (2, 6)).transpose(1, 2) for layer in (theirs.query_key, theirs.value))
    output = run(Reformer(6, 7, chunk=7), both, both, value, mask=mask)
    expected = theirs(x).hidden_states
    torch.testing.assert_close(output.transpose(1, 2).flatten(2), expected, rtol=1e-4, atol=1e-4)


def test_what_it_says():
    assert "head_dim=6, chunk=3, rounds=2, dropout=0.0, buckets=8" in repr(reformer())
    sized = Reformer.sized(head_dim=6, num_heads=4, max_len=300, dropout=0.1)
    assert (sized.rotations.shape, sized.dropout) == ((2, 1, 6, 4), 0.1)
    with pytest.raises(ShapeError, match=r"Reformer was built for head_dim 6, got 8"):
        run(reformer(), *checks.tensors(5, 5, dim=8))
    with pytest.raises(ConfigError, match=r"reformer needs chunk \(0\) and rounds \(2\) of 1 or more"):
        reformer(chunk=0)
