"""The family of positions: what holds for every scheme, and for every scheme of a kind."""

import pytest
import torch
from relative_loops import spread, through

from headwise import positions
from headwise.attention.masks import Causal, Table
from headwise.errors import ConfigError
from headwise.positions.none import NoPosition
from headwise.positions.position import Position
from headwise.positions.relative_2d import Relative2d

EMBEDDED = ("convolutional", "flow", "learned", "recurrent", "sinusoidal", "sinusoidal_2d")
# those that depend on distance alone, any distance
RELATIVE = ("alibi", "deberta", "kerple", "sandwich", "shaw", "t5", "transformer_xl")
# those that turn queries and keys, by position or by place in a grid
TURNING = ("rotary", "rotary_2d", "rotary_sections", "xpos")
# those with a bias for each pair
PAIRWISE = ("cope", "fire", "relative_2d", "transformer_xl")
IN_ATTENTION = (*RELATIVE, *TURNING, "cope", "fire", "relative_2d")
D_MODEL, HEAD_DIM, HEADS, MAX_LEN = 12, 4, 3, 36


def build(name: str) -> Position:
    return positions.build(name, D_MODEL, HEAD_DIM, HEADS, MAX_LEN)


every = pytest.mark.parametrize("name", positions.names())
learning = pytest.mark.parametrize("name", [name for name in positions.names() if list(build(name).parameters())])


def drawn(length: int, *batch: int) -> torch.Tensor:
    return torch.randn(*batch, HEADS, length, HEAD_DIM, dtype=torch.float64)


def test_the_folder_is_the_registry():
    assert positions.names() == tuple(sorted((*EMBEDDED, *IN_ATTENTION, "none")))
    assert list(positions.catalogue()) == list(positions.names())
    assert all(positions.catalogue().values())
    with pytest.raises(ConfigError, match="unknown position 'rotery'; did you mean 'rotary'"):
        positions.build("rotery", 8, 4, 2, 5)


def test_the_facts_of_every_scheme():
    """Where it enters agrees with the hooks it overrides; a year stands in every source."""
    places = {"embeddings": EMBEDDED, "nowhere": ("none",), "queries and keys": TURNING, "scores and values": ("shaw",)}
    places |= {"scores": set(IN_ATTENTION) - {*TURNING, "shaw"}}
    facts = {name: positions.position_type(name) for name in positions.names()}
    for where, names in places.items():
        assert {name for name, known in facts.items() if known.where == where} == set(names)
    for name, known in facts.items():
        shown = [("where", known.where), ("longer", known.extrapolates), ("paper", known.paper)]
        assert positions.details()[name][-3:] == shown
        assert known.extrapolates.endswith(".")
        assert known.extrapolates.count(".") == 1
        assert "arXiv:" in known.paper


def test_a_scheme_of_your_own_names_its_source_or_has_that_of_its_base():
    class Near(Position):
        """Near. Source: Şahin and Roe 2020, arXiv:2001.00001."""

    class Nearer(Near):
        """Nearer. Source: Noe 2021, arXiv:2101.00001."""

    class Renamed(Nearer):
        """Nearer, by another name."""

    class Stated(Near):
        """Nearest. Source: Noe 2021, arXiv:2101.00001."""

        paper = "none"

    papers = [kind.paper for kind in (Near, Nearer, Renamed, Stated)]
    own = "Noe 2021, arXiv:2101.00001"
    assert papers == ["Şahin and Roe 2020, arXiv:2001.00001", own, own, "none"]


@every
def test_every_scheme_is_built_for_a_model_and_keeps_shape_and_type(name):
    x, heads = torch.randn(2, 5, D_MODEL), torch.randn(2, HEADS, 5, HEAD_DIM)
    start = 0 if name == "convolutional" else 3
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        position = build(name).to(dtype)
        for hook, before, first in ((position.embed, x, start), (position.rotate, heads, 3)):
            after = hook(before.to(dtype), first)
            assert (after.dtype, after.shape) == (dtype, before.shape)
    # nothing is kept beside parameters
    assert set(position.state_dict()) == {name for name, _ in position.named_parameters()}
    assert (position.bias(heads, heads, 0) is not None) == (name in PAIRWISE)
    assert (position.relative(heads, heads, -4, 4) is not None) == (name in RELATIVE)
    assert position.acts_in_attention() == (name in IN_ATTENTION)
    assert position.acts_on_scores() == (name in IN_ATTENTION and name not in TURNING)
    # a scheme enters the embeddings or the attention, not both
    assert torch.equal(position.embed(x, 0), x) == (name not in EMBEDDED)
    assert torch.equal(position.rotate(heads, 3), heads) == (name not in (*TURNING, "deberta"))


@pytest.mark.parametrize("name", [name for name in (*EMBEDDED, "none") if name != "convolutional"])
def test_a_token_later_is_the_token_at_its_place(name):
    position = build(name)
    x = torch.randn(2, 11, D_MODEL)
    with torch.no_grad():
        steps = torch.cat([position.embed(x[:, t : t + 1], t) for t in range(11)], 1)
        torch.testing.assert_close(steps, position.embed(x, 0), rtol=0, atol=1e-6)


def test_a_scheme_that_adds_to_the_scores_acts_in_attention():
    class Slope(Position):
        @classmethod
        def sized(cls, d_model, head_dim, num_heads, max_len):
            return cls()

        def bias(self, query, key, start):
            return torch.zeros(1, 1, query.shape[2], key.shape[2])

    assert Slope().acts_in_attention()
    assert not NoPosition().acts_in_attention()
    assert Slope.extrapolates == "not stated"


@every
def test_order_matters_with_every_scheme_but_none(name):
    """Two sentences of the same words: only positions tell "the cat sat on the mat" from "the mat sat on the cat"."""
    position = spread(build(name))
    sentence = torch.randn(1, 6, D_MODEL, dtype=torch.float64)

    def pooled(x):
        x = position.embed(x, 0)
        heads = x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
        return through(position, heads, heads, heads).sum(2)

    one, two = pooled(sentence), pooled(sentence[:, [0, 5, 2, 3, 4, 1]])
    assert torch.allclose(one, two, rtol=0, atol=1e-9) == (name == "none")


@pytest.mark.parametrize("name", RELATIVE)
def test_shifting_all_positions_changes_nothing(name):
    """What tokens add to each other's scores is the same wherever in a longer sequence they stand."""
    position = spread(build(name))
    query, key, junk = drawn(5, 2), drawn(5, 2), drawn(100, 2)

    def added(query, key):
        length = query.shape[2]
        relative, bias = position.relative(query, key, 1 - length, length - 1), position.bias(query, key, 0)
        return relative.bias(length, length) + (0 if bias is None else bias)

    shifted = added(torch.cat((junk, query), 2), torch.cat((junk, key), 2))[:, :, 100:, 100:]
    torch.testing.assert_close(shifted, added(query, key).expand_as(shifted), rtol=0, atol=1e-12)


def test_shifting_an_image_by_rows_changes_nothing():
    small, large = Relative2d(HEADS, height=2, width=3), Relative2d(HEADS, height=5, width=3)
    with torch.no_grad():
        # the steps that both grids know lie in the middle of the larger table
        small.table.copy_(large.table[15:30])
    patches = torch.zeros(1, HEADS, 15, HEAD_DIM)
    whole = large.bias(patches, patches, 0)
    for first in (0, 3, 9):
        part = whole[:, :, first : first + 6, first : first + 6]
        assert torch.equal(part, small.bias(patches[:, :, :6], patches[:, :, :6], 0))


@pytest.mark.parametrize("name", ["none", "cope", "rotary", "rotary_sections", "xpos", *RELATIVE])
def test_padding_on_the_left_or_on_the_right_or_none(name):
    """A scheme that knows distances only gives a sentence the same output wherever in its row it stands."""
    position, sentence = spread(build(name)), [drawn(5, 1) for _ in range(3)]
    alone = through(position, *sentence, mask=Causal())
    for left, right in ((0, 4), (4, 0), (3, 1)):
        real = torch.zeros(9, dtype=torch.bool)
        real[left : left + 5] = True
        padded = [torch.nn.functional.pad(x, (0, 0, left, right), value=3.0) for x in sentence]
        output = through(position, *padded, mask=Table(real.expand(9, 9)) & Causal())
        torch.testing.assert_close(output[:, :, left : left + 5], alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", IN_ATTENTION)
@pytest.mark.parametrize("chunks", [[1] * 8, [3, 1, 4]])
def test_step_by_step_with_a_cache_is_all_at_once(name, chunks):
    position, (query, key, value) = spread(build(name)), [drawn(8, 2) for _ in range(3)]
    outputs, start = [], 0
    for size in chunks:
        end = start + size
        inputs = query[:, :, start:end], key[:, :, :end], value[:, :, :end]
        outputs.append(through(position, *inputs, start, Causal()))
        start = end
    whole = through(position, query, key, value, mask=Causal())
    torch.testing.assert_close(torch.cat(outputs, 2), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RELATIVE)
def test_hypotheses_side_by_side_share_their_positions(name):
    """Two hypotheses that parted after 3 tokens: keys 3 and 4 stand at position 3, keys 5 and 6 at position 4."""
    position = spread(build(name))
    at = torch.tensor([0, 1, 2, 3, 3, 4, 4])
    keys, query = drawn(7, 1), drawn(2, 1)
    relative = position.relative(query, keys, -5, 2).placed(at.expand(2, 7) - 4)
    for beam in (0, 1):
        own = [0, 1, 2, 3 + beam, 5 + beam]
        alone = position.relative(query[:, :, beam : beam + 1], keys[:, :, own], -4, 0)
        expected = alone.bias(1, 5, 4)[:, :, 0]
        found = relative.bias(2, 7)[:, :, beam, own]
        torch.testing.assert_close(found, expected.expand_as(found), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", IN_ATTENTION)
def test_which_schemes_keys_in_any_order_may_have(name):
    """What is added to a score moves with its key, or the scheme says that keys have to stand in order."""
    position = spread(build(name))
    query, key = drawn(7, 1), drawn(7, 1)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    one, two = position.bias(query, key, 0), position.bias(query, key[:, :, order], 0)
    moves = one is None or torch.equal(one[..., order], two)
    assert position.side_by_side() == moves == (name not in ("cope", "fire", "relative_2d"))


@learning
def test_every_parameter_gets_a_gradient(name):
    position = build(name)
    x = position.embed(torch.randn(2, 9, D_MODEL), 0)
    heads = x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
    query, key, value = (heads * torch.randn(HEADS, 1, HEAD_DIM) for _ in range(3))
    (through(position, query, key, value) * torch.randn(2, HEADS, 9, HEAD_DIM)).sum().backward()
    for parameter_name, parameter in position.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any(), parameter_name


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_adds_in_single(name, dtype):
    position = spread(build(name)).to(dtype)
    query = torch.randn(1, HEADS, 9, HEAD_DIM, dtype=dtype)
    relative = position.relative(query, query, -8, 8)
    if name != "t5":
        assert {tensor.dtype for tensor in relative.tensors} == {torch.float32}
    found = relative.bias(9, 9)
    exact = position.double().relative(query.double(), query.double(), -8, 8).bias(9, 9)
    # parameters are half precision in both; projected rows are rounded once, as keys are
    bound = 1e-5 if name not in ("deberta", "transformer_xl") else 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), exact, rtol=bound, atol=bound)


@learning
def test_an_optimizer_leaves_no_stale_table(name):
    """Fused optimizers change parameters without counting up their version."""
    position, twin = build(name), build(name)

    def used(position):
        torch.manual_seed(1)
        x, heads = torch.randn(2, 7, D_MODEL), torch.randn(2, HEADS, 7, HEAD_DIM)
        return torch.cat((position.embed(x, 0).flatten(), through(position, heads, heads, heads).flatten()))

    with torch.no_grad():
        before = used(position)
    optimizer = torch.optim.AdamW(position.parameters(), lr=0.1, fused=True)
    used(position).square().sum().backward()
    optimizer.step()
    with torch.no_grad():
        after = used(position)
        twin.load_state_dict(position.state_dict())
        assert torch.equal(after, used(twin))
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("name", positions.names())
def test_a_grid_of_patches_need_not_be_square_for_schemes_that_know_rows(name):
    position = positions.position_type(name).on_grid(12, 4, 3, 2, 5)
    x, heads = torch.zeros(1, 10, 12), torch.zeros(1, 3, 10, 4)
    assert position.embed(x, 0).shape == x.shape
    bias = position.bias(heads, heads, 0)
    assert bias is None or bias.shape[-1] == 10
    sized = {"relative_2d": (2, 5), "rotary_2d": (None, 5), "sinusoidal_2d": (None, 5)}.get(name, (None, None))
    assert (getattr(position, "height", None), getattr(position, "width", None)) == sized
