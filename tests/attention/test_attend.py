"""The functional interface: numbers worked out by hand, and the messages for what does not fit."""

import pytest
import torch
from attention_cases import GENERAL

from headwise.attention import attend, plan
from headwise.attention import weights as weights_of
from headwise.attention.call import Call
from headwise.attention.kernels import plain
from headwise.attention.masks import Causal, Padding
from headwise.attention.scores import Additive, ScaledDot
from headwise.errors import ConfigError, ShapeError, Unsupported

every_kernel = pytest.mark.parametrize("kernel", GENERAL)

# three tokens of four features, and the matrices that make keys, queries and values of three
INPUTS = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]
W_KEY = [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]]
W_QUERY = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]
W_VALUE = [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]]
SOFTMAX = [
    [0.06337894, 0.46831053, 0.46831053],
    [6.0337e-6, 0.98200786, 0.01798610],
    [2.9539e-4, 0.88053690, 0.11916771],
]
OUTPUT = [
    [1.93662106, 6.68310531, 1.59506841],
    [1.99999397, 7.96399160, 0.05397641],
    [1.99970461, 7.75989225, 0.35838929],
]
SCALED_ROW = [0.13612580, 0.43193710, 0.43193710]
SCALED_OUTPUT = [
    [1.86387420, 6.31937101, 1.70418870],
    [1.99910955, 7.81412350, 0.27347206],
    [1.99255511, 7.47963559, 0.73587726],
]


def projected() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, *weights = (torch.tensor(rows, dtype=torch.float64) for rows in (INPUTS, W_QUERY, W_KEY, W_VALUE))
    query, key, value = ((x @ weight)[None, None] for weight in weights)
    return query, key, value


@every_kernel
def test_the_worked_example_of_three_tokens(kernel):
    query, key, value = projected()
    assert query[0, 0].tolist() == [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    assert key[0, 0].tolist() == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert value[0, 0].tolist() == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert (query @ key.mT)[0, 0].tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    output = attend(query, key, value, score="dot", kernel=kernel)
    torch.testing.assert_close(output[0, 0], torch.tensor(OUTPUT, dtype=torch.float64), rtol=0, atol=1e-8)
    output = attend(query, key, value, kernel=kernel)
    torch.testing.assert_close(output[0, 0], torch.tensor(SCALED_OUTPUT, dtype=torch.float64), rtol=0, atol=1e-8)


def test_the_weights_of_the_worked_example():
    query, key, _ = projected()
    weights = attend(query, key, torch.eye(3, dtype=torch.float64)[None, None], score="dot")[0, 0]
    torch.testing.assert_close(weights, torch.tensor(SOFTMAX, dtype=torch.float64), rtol=1e-4, atol=1e-8)
    scaled = weights_of(query, key)[0, 0, 0]
    torch.testing.assert_close(scaled, torch.tensor(SCALED_ROW, dtype=torch.float64), rtol=0, atol=1e-8)


def test_an_output_is_the_sum_of_weighted_values():
    """The nine weighted vectors: values times the weight that each query gives them, summed over the values."""
    query, key, value = projected()
    weights = weights_of(query * 3**0.5, key)[0, 0]
    weighted = value[0, 0][:, None] * weights.T[:, :, None]
    first = [[0.06337894, 0.12675788, 0.19013681], [6.0e-6, 1.21e-5, 1.81e-5], [2.954e-4, 5.908e-4, 8.862e-4]]
    torch.testing.assert_close(weighted[0], torch.tensor(first, dtype=torch.float64), rtol=5e-3, atol=1e-8)
    torch.testing.assert_close(weighted.sum(0), torch.tensor(OUTPUT, dtype=torch.float64), rtol=0, atol=1e-8)
    assert torch.equal(weighted.sum(0), (weights.T[:, :, None] * value[0, 0][:, None]).sum(0))


@every_kernel
def test_columns_or_rows_are_the_same_numbers(kernel):
    """With tokens as columns: A = K^T Q, softmax over each column, O = V A': the transpose of what rows give."""
    query, key, value = projected()
    columns = (torch.softmax(key[0, 0] @ query[0, 0].T, dim=0).T @ value[0, 0]).T
    rows = attend(query, key, value, score="dot", kernel=kernel)[0, 0]
    torch.testing.assert_close(columns, rows.T, rtol=0, atol=1e-12)


@every_kernel
def test_equal_keys_average_the_values_within_the_lengths(kernel):
    """Ten keys of ones, values 0 to 39 in both sequences, lengths 2 and 6: the means, for any queries."""
    query, key = torch.randn(2, 1, 1, 2), torch.ones(2, 1, 10, 2)
    value = torch.arange(40.0).reshape(1, 1, 10, 4).expand(2, 1, 10, 4)
    output = attend(query, key, value, mask=Padding(torch.tensor([2, 6])), kernel=kernel)
    torch.testing.assert_close(output.flatten(1), torch.tensor([[2.0, 3, 4, 5], [10.0, 11, 12, 13]]))


@every_kernel
def test_lengths_that_may_differ_and_widths_that_may(kernel):
    """Five tokens of width 512; other lengths of queries and keys; values of another width than keys."""
    x = torch.randn(1, 1, 5, 512)
    assert weights_of(x, x).shape == (1, 1, 5, 5)
    assert attend(x, x, x, kernel=kernel).shape == (1, 1, 5, 512)
    output = attend(torch.randn(2, 3, 4, 11), torch.randn(2, 3, 6, 11), torch.randn(2, 3, 6, 13), kernel=kernel)
    assert output.shape == (2, 3, 4, 13)


def wrong(query=(2, 6, 5, 4), key=(2, 3, 7, 4), value=(2, 3, 7, 4), **options) -> None:
    attend(torch.zeros(query), torch.zeros(key), torch.zeros(value), **options)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": (6, 5, 4)}, r"query must be \(batch, heads, length, head_dim\), got \(6, 5, 4\)"),
        ({"value": (2, 7, 4)}, r"value must be \(batch, heads, length, head_dim\), got \(2, 7, 4\)"),
        ({"query": (1, 6, 5, 4)}, "batch differs: query 1, key 2, value 2"),
        ({"value": (2, 3, 6, 4)}, r"key \(3, 7\) and value \(3, 6\) differ in \(heads, length\)"),
        ({"value": (2, 1, 7, 4)}, r"key \(3, 7\) and value \(1, 7\) differ in \(heads, length\)"),
        ({"query": (2, 4, 5, 4)}, r"heads of key and value \(3\) must divide heads of query \(4\)"),
        ({"query": (2, 1, 5, 4)}, r"heads of key and value \(3\) must divide heads of query \(1\)"),
        (
            {"key": (2, 0, 7, 4), "value": (2, 0, 7, 4)},
            r"heads of key and value \(0\) must divide heads of query \(6\)",
        ),
        (
            {"bias": torch.zeros(5, 7)},
            r"bias \(5, 7\) does not fit \(batch, heads, query_len, key_len\) = \(2, 6, 5, 7\)",
        ),
        ({"bias": torch.zeros(2, 3, 5, 7)}, r"bias \(2, 3, 5, 7\) does not fit"),
        ({"bias": torch.zeros(1, 1, 5, 1)}, r"bias \(1, 1, 5, 1\) does not fit"),
        (
            {"bias": torch.ones(2, 6, 5, 7, dtype=torch.bool)},
            "bias is added to scores, got torch.bool; which pairs may",
        ),
        ({"mask": Padding(torch.tensor([1, 2, 3]))}, r"Padding: valid_lens \(3,\) do not fit; expected \(2\)"),
        ({"mask": torch.ones(5, 6, dtype=torch.bool)}, r"Table \(5, 6\) does not fit"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(arguments, message):
    with pytest.raises(ShapeError, match=message):
        wrong(**arguments)


@pytest.mark.usefixtures("untyped")
def test_what_is_of_another_kind_is_refused_by_name():
    x = torch.zeros(2, 3, 5, 4)
    here = x.device
    with pytest.raises(ShapeError, match=r"query must hold floating-point numbers, got torch.int64"):
        attend(x.long(), x, x)
    with pytest.raises(ShapeError, match=r"query must hold floating-point numbers, got torch.complex64"):
        attend(x + 0j, x, x)
    with pytest.raises(
        ShapeError, match=rf"query torch.float32 on {here}, key torch.float64 on {here}: bring them to one type"
    ):
        attend(x, x.double(), x)
    with pytest.raises(ShapeError, match=rf"query torch.float32 on {here}, value torch.float32 on meta"):
        attend(x, x, x.to("meta"))
    with pytest.raises(ConfigError, match="mask is the class Causal; pass an instance"):
        attend(x, x, x, mask=Causal)
    with pytest.raises(ConfigError, match=r"mask must be a Mask or a bool tensor .True = may attend., got str"):
        attend(x, x, x, mask="causal")
    with pytest.raises(ShapeError, match="Table needs a bool tensor"):
        attend(x, x, x, mask=torch.zeros(5, 5))
    with pytest.raises(ShapeError, match="Padding: valid_lens must be 0 or more, got -1"):
        Padding(torch.tensor([3, -1], device="cpu"))
    with pytest.raises(ConfigError, match="Additive"):
        attend(x, x, x, score=Additive)
    with pytest.raises(ShapeError, match="key must be a tensor, got list"):
        attend(x, x.tolist(), x)
    with pytest.raises(ShapeError, match="bias must be a tensor, got float"):
        attend(x, x, x, bias=0.5)
    with pytest.raises(ConfigError, match="unknown kernel 'None'"):
        attend(x, x, x, kernel=None)
    for start in (-1, 0.5, 2**63):
        with pytest.raises(ShapeError, match="query_start must be a position from 0 on"):
            attend(x, x, x, query_start=start)
    for other in (torch.ones(5, 5, dtype=torch.bool), None, Padding):
        with pytest.raises(ConfigError, match="a mask combines with a mask, not with"):
            attend(x, x, x, mask=Causal() & other)
    for rate in (1.0, -0.1, float("nan"), "0.1"):
        with pytest.raises(ConfigError, match="must be at least 0 and below 1"):
            attend(x, x, x, dropout=rate)
    for scale in (float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="scale"):
            attend(x, x, x, scale=scale)


def test_masks_normalizers_and_scores_are_taken_as_names_objects_and_functions():
    x = torch.randn(2, 3, 5, 4)
    table = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = attend(x, x, x, mask=Causal())
    assert torch.equal(attend(x, x, x, mask=table), attend(x, x, x, mask=table.expand(2, 3, 5, 5)))
    torch.testing.assert_close(attend(x, x, x, mask=table), expected)
    torch.testing.assert_close(attend(x, x, x, score=lambda q, k: q @ k.mT / 2, mask=Causal()), expected)
    own = attend(x, x, x, normalizer=lambda s, keep: s.masked_fill(~keep, float("-inf")).softmax(-1), mask=Causal())
    torch.testing.assert_close(own, expected)
    assert Call(x, x, x, normalizer="top_k:2").normalizer.name == "top_k:2"


def test_a_later_start_is_the_rest_of_the_whole():
    x = torch.randn(2, 3, 7, 4)
    whole = attend(x, x, x, mask=Causal())
    torch.testing.assert_close(attend(x[:, :, 4:], x, x, mask=Causal(), query_start=4), whole[:, :, 4:])


def test_unknown_names_come_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match="unknown kernel 'fuzed'; did you mean 'fused'"):
        wrong(kernel="fuzed")
    with pytest.raises(ConfigError, match="unknown score 'scaled_dott'; did you mean 'scaled_dot'"):
        wrong(score="scaled_dott")
    with pytest.raises(ConfigError, match="unknown normalizer 'softmx'; did you mean 'softmax'"):
        wrong(normalizer="softmx")
    with pytest.raises(
        ConfigError, match=r"score 'additive' has parameters; pass a module, such as score=Additive\(...\)"
    ):
        wrong(score="additive")


def test_a_scale_belongs_to_a_dot_product():
    with pytest.raises(ConfigError, match="scale belongs to a dot product; give the factor to the score"):
        wrong(score=Additive(4, 4, 3), scale=2.0)


def test_a_kernel_that_cannot_is_refused_by_name():
    message = "kernel 'fused' cannot compute this attention exactly: the normalizer is relu, not softmax"
    with pytest.raises(Unsupported, match=message):
        wrong(normalizer="relu", kernel="fused")
    with pytest.raises(Unsupported, match=message):
        plan(*[torch.zeros(1, 1, 2, 3)] * 3, normalizer="relu", kernel="fused")


def test_plain_is_what_runs_when_asked_for():
    tensors = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    assert torch.equal(attend(*tensors, kernel="plain"), plain.compute(Call(*tensors, ScaledDot())))
