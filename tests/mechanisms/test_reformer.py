"""Reformer attention: one bucket, the sets of keys in loops, rounds, causality, recall, padding, the rotations."""

import mechanism_checks as checks
import pytest
import torch

from headwise.attention.masks import Causal, Padding, Table
from headwise.attention.mechanisms.reformer import Reformer
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.scores import Dot
from headwise.errors import ConfigError, ShapeError

DEFINED = Scored(Dot())


def reformer(**options):
    return Reformer(**{"head_dim": 6, "max_len": 12, "chunk": 3, **options}).double()


def normalised(key):
    return key / key.norm(dim=-1, keepdim=True)


def defined(keep):
    """Softmax attention over these pairs with keys of norm 1."""
    return lambda query, key, value: DEFINED(query, normalised(key), value, mask=Table(keep))


def met(mechanism, query, rows, *, causal=False):
    """(heads, length, length): the keys that each query of a sentence of `rows` tokens meets, in loops."""
    heads, keep = query.shape[0], torch.zeros(query.shape[0], rows, rows, dtype=torch.bool)
    chunk, columns = mechanism.chunk, mechanism.rotations.shape[-1]
    used = min(columns, rows // chunk) if rows > chunk else 0
    for h in range(heads):
        for rotation in mechanism.rotations:
            turned = [(query[h, i] @ rotation[:, :used]).tolist() for i in range(rows)]
            both = [row + [-x for x in row] for row in turned]
            bucket = [row.index(max(row)) if row else 0 for row in both]
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


@pytest.mark.parametrize("mask", [None, Causal()], ids=["all", "causal"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_one_bucket_is_full_attention(rounds, mask):
    keep = torch.ones(7, 7, dtype=torch.bool)
    keep = (keep if mask is None else keep.tril()) & ~torch.eye(7, dtype=torch.bool)
    if mask is not None:
        keep[0, 0] = True
    mechanism = reformer(chunk=7, rounds=rounds)
    checks.same_with_gradients(lambda *x: mechanism(*x, mask=mask), defined(keep), checks.tensors(7, 7))


@pytest.mark.parametrize("length", [4, 7, 12, 17])
@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_the_definition_in_loops(length, rounds, causal):
    """Rounds together are one softmax over all keys met in any of them, each counted once."""
    inputs = checks.tensors(length, length)
    mechanism = reformer(rounds=rounds)
    keep = torch.stack([met(mechanism, query, length, causal=causal) for query in inputs[0].detach()])
    mask = Causal() if causal else None
    checks.same_with_gradients(lambda *x: mechanism(*x, mask=mask), defined(keep), inputs)
    assert length < 5 or 0 < keep.double().mean() < 0.7


def test_a_token_meets_others_however_little_they_fit():
    query, key, value = (t.detach() for t in checks.tensors(7, 7))
    others = ~torch.eye(7, dtype=torch.bool)
    output = reformer(chunk=7)(500 * query, key, value)
    checks.near(output, defined(others)(500 * query, key, value))


def test_one_projection_for_query_and_key():
    """As in the paper: the same tensor twice."""
    both, _, value = checks.tensors(7, 7, kv_heads=4)
    mechanism = reformer()
    keep = torch.stack([met(mechanism, query, 7) for query in both.detach()])
    checks.same_with_gradients(
        lambda x, v: mechanism(x, x, v), lambda x, v: defined(keep)(x, x, v), (both, value), 1e-10
    )


def test_later_tokens_change_nothing():
    """Neither what is met, which a chunk cut elsewhere would change, nor a bit of the output."""
    mechanism = reformer(head_dim=3, max_len=30)
    tensors = [torch.randn(4, 2, 30, 3).double() for _ in range(3)]
    before = mechanism(*tensors, mask=Causal())
    for cut in (5, 17, 29):
        changed = [torch.cat((t[:, :, :cut], 5 * torch.randn(4, 2, 30 - cut, 3).double()), 2) for t in tensors]
        checks.near(mechanism(*changed, mask=Causal())[:, :, :cut], before[:, :, :cut], 1e-13)


def test_recall_of_the_best_keys():
    """Of the 4 keys with the largest scores most are met, more so in more rounds; chance would be the share met."""
    centres = 4 * torch.randn(16, 16)
    both = (centres.repeat(16, 1) + 0.3 * torch.randn(256, 16)).expand(1, 1, 256, 16)
    scores = (both @ normalised(both).mT)[0, 0].fill_diagonal_(-1e9)
    best = scores.topk(4).indices
    recalls = {}
    for rounds in (1, 2, 8):
        mechanism = Reformer(16, 256, chunk=16, rounds=rounds)
        reached = mechanism.effective_weights(both, both)[0, 0] > 0
        recalls[rounds] = float(reached.gather(1, best).float().mean())
        assert recalls[rounds] > 2 * float(reached.float().mean())
    assert recalls[1] < recalls[2] < recalls[8]
    assert recalls[8] > 0.95


def test_it_keeps_the_contract():
    mechanism, inputs = reformer(), checks.tensors(8, 8)
    weights = checks.weights_are_the_function(mechanism, inputs)
    checks.near(weights.sum(-1), torch.ones(3, 4, 8).double())
    checks.weights_are_the_function(mechanism, inputs, mask=Causal() & Padding(torch.tensor([8, 5, 0])))
    checks.no_key_gives_zero(mechanism, 8)
    checks.empty_sequences(mechanism)
    checks.refuses(mechanism, "reformer", causal=True)
    one_bucket = reformer(chunk=8)
    checks.half_precision(one_bucket, 8)
    checks.half_precision(one_bucket, 8, mask=Causal())


@pytest.mark.parametrize("lens", [[8, 6, 5], [11, 3, 1], [2, 11, 4]])
@pytest.mark.parametrize("mask", [None, Causal()], ids=["all", "causal"])
def test_padding_is_absence(lens, mask):
    checks.padding_is_absence(reformer(), 11, lens, mask=mask)


def test_a_position_that_does_not_exist_is_zero():
    output = reformer()(*checks.tensors(8, 8), mask=Padding(torch.tensor([8, 5, 1])))
    assert output[0].all()
    assert not output[1, :, 5:].any()
    assert not output[2, :, 1:].any()


def test_a_token_alone_attends_to_itself():
    query, key, value = checks.tensors(1, 1)
    checks.near(reformer()(query, key, value), checks.spread(value, 4))
    assert not torch.autograd.grad(reformer()(query, key, value).sum(), query)[0].any()


def test_the_seed_decides_the_buckets():
    inputs = checks.tensors(12, 12)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(reformer()(*inputs))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    mechanism = reformer()
    before = mechanism(*inputs)
    assert torch.equal(mechanism(*inputs), before)
    mechanism.redraw(torch.Generator().manual_seed(5))
    assert not torch.equal(mechanism(*inputs), before)
    other = reformer()
    other.load_state_dict(mechanism.state_dict())
    assert torch.equal(mechanism(*inputs), other(*inputs))


def test_dropout_only_while_training():
    mechanism, inputs = reformer(dropout=0.5), checks.tensors(8, 8)
    assert not torch.equal(mechanism(*inputs), mechanism(*inputs))
    assert torch.equal(mechanism.eval()(*inputs), mechanism(*inputs))


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_that_of_transformers_in_one_bucket(causal):
    """Oracle: LSHSelfAttention of transformers, which works on chunks of mixed buckets: a single chunk is compared."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    config = transformers.ReformerConfig(
        hidden_size=12, num_attention_heads=2, attention_head_size=6, lsh_attn_chunk_length=7, num_buckets=2,
        num_hashes=1, is_decoder=causal, lsh_attention_probs_dropout_prob=0.0, attn_layers=["lsh"],
    )  # fmt: skip
    theirs, x = LSHSelfAttention(config).eval(), torch.randn(3, 7, 12)
    both, value = (layer(x).unflatten(-1, (2, 6)).transpose(1, 2) for layer in (theirs.query_key, theirs.value))
    output = Reformer(6, 7, chunk=7)(both, both, value, mask=Causal() if causal else None)
    expected = theirs(x).hidden_states
    torch.testing.assert_close(output.transpose(1, 2).flatten(2), expected, rtol=1e-4, atol=1e-4)


def test_what_it_says():
    assert "head_dim=6, chunk=3, rounds=2, buckets=8" in repr(reformer())
    sized = Reformer.sized(head_dim=6, num_heads=4, max_len=300, dropout=0.1)
    assert (sized.rotations.shape, sized.dropout.dropout) == ((2, 6, 4), 0.1)
    with pytest.raises(ShapeError, match=r"reformer was built for head_dim \(6\), got 8"):
        reformer()(*checks.tensors(5, 5, dim=8))
    with pytest.raises(ConfigError, match=r"reformer needs chunk \(0\) and rounds \(2\) of 1 or more"):
        reformer(chunk=0)
