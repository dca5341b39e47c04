"""The book's attention: masked softmax, additive, dot-product and multi-head attention, kernel regression."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from headwise.attention import attend
from headwise.attention import weights as weights_of
from headwise.attention.masks import Padding
from headwise.attention.normalizers import Softmax
from headwise.attention.scores import Additive, ScaledDot, Score
from headwise.errors import Unsupported
from headwise.layers.attention import check_heads

Queries = Float[Tensor, "batch queries query_size"]
Keys = Float[Tensor, "batch keys key_size"]
Values = Float[Tensor, "batch keys value_size"]
ValidLens = Int[Tensor, "batch"] | Int[Tensor, "batch queries"] | None


def sequence_mask(
    X: Num[Tensor, "batch steps *rest"], valid_len: Int[Tensor, "batch"], value: float | int = 0
) -> Num[Tensor, "batch steps *rest"]:
    """A copy of X with `value` in every step from `valid_len` on. X itself is left as it is.

    Args:
        valid_len: how many steps of each sequence are real.

    >>> sequence_mask(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([1, 2])).tolist()
    [[1, 0, 0], [4, 5, 0]]
    """
    keep = Padding(valid_len).dense(X.shape[0], 1, 1, X.shape[1], device=X.device)
    return X.masked_fill(~keep.reshape(X.shape[:2] + (1,) * (X.ndim - 2)), value)


def masked_softmax(
    X: Float[Tensor, "batch queries keys"], valid_lens: ValidLens
) -> Float[Tensor, "batch queries keys"]:
    """Softmax over the last axis in which keys from `valid_lens` on have weight 0. X itself is left as it is.

    Where the book writes -1e6 over hidden scores, they are left out here: a row of length 0 is all zeros, not uniform,
    and half precision does not overflow.

    Args:
        valid_lens: a length for each sequence, or for each sequence and query; None: all keys are real.

    >>> masked_softmax(torch.zeros(2, 2, 4), torch.tensor([2, 4]))[:, 0].tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]
    """
    keep = None
    if valid_lens is not None:
        keep = Padding(valid_lens.clamp(max=X.shape[2])).dense(X.shape[0], 1, *X.shape[1:], device=X.device)
    return Softmax()(X.unsqueeze(1), keep).squeeze(1)


class _Attention(nn.Module, ABC):
    """softmax(score(q, k) within valid_lens) v, without heads; a subclass has the score and the dropout."""

    dropout: nn.Dropout

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Tensor, Tensor, Tensor | None] | None = None

    @abstractmethod
    def score(self) -> Score:
        """How alike a query and a key are."""

    def forward(
        self, queries: Queries, keys: Keys, values: Values, valid_lens: ValidLens = None
    ) -> Float[Tensor, "batch queries value_size"]:
        self._last = queries.detach(), keys.detach(), valid_lens
        rate = self.dropout.p if self.dropout.training else 0.0
        query, key, value = queries.unsqueeze(1), keys.unsqueeze(1), values.unsqueeze(1)
        return attend(
            query, key, value, score=self.score(), mask=_mask(valid_lens, key.shape[2]), dropout=rate
        ).squeeze(1)

    def weights(self, queries: Queries, keys: Keys, valid_lens: ValidLens) -> Float[Tensor, "batch queries keys"]:
        """The weights of these inputs before dropout, without a gradient."""
        with torch.no_grad():
            query, key = queries.unsqueeze(1), keys.unsqueeze(1)
            return weights_of(query, key, score=self.score(), mask=_mask(valid_lens, key.shape[2])).squeeze(1)

    @property
    def attention_weights(self) -> Float[Tensor, "batch queries keys"]:
        """The weights of the last call before dropout, computed on access with the current parameters.

        A call stores references to its inputs, no weights and no graph.

        Raises: Unsupported: before the first call.
        """
        if self._last is None:
            raise Unsupported("there are no attention_weights yet: call the module first")
        return self.weights(*self._last)


class AdditiveAttention(_Attention):
    """Attention with the score w_v . tanh(W_q q + W_k k); queries and keys may have different widths.

    Args:
        num_hiddens: width of the sum inside tanh.
    Source: Bahdanau et al. 2015, arXiv:1409.0473, appendix A.1.2; Dive into Deep Learning, section 11.3.

    >>> attention = AdditiveAttention(key_size=2, query_size=20, num_hiddens=8, dropout=0.1).eval()
    >>> values = torch.arange(40.0).reshape(1, 10, 4).repeat(2, 1, 1)
    >>> out = attention(torch.ones(2, 1, 20), torch.ones(2, 10, 2), values, torch.tensor([2, 6]))
    >>> out.round().tolist()
    [[[2.0, 3.0, 4.0, 5.0]], [[10.0, 11.0, 12.0, 13.0]]]
    """

    def __init__(self, key_size: int, query_size: int, num_hiddens: int, dropout: float):
        super().__init__()
        score = Additive(query_size, key_size, num_hiddens)
        self.W_k, self.W_q, self.w_v = score.key, score.query, score.value
        # last, as the book prints them
        self.dropout = nn.Dropout(dropout)
        # in a tuple it is no submodule: its layers are, under the names of the book
        self._score = (score,)

    def score(self) -> Score:
        score = self._score[0]
        # a layer that was replaced is used here too
        score.query, score.key, score.value = self.W_q, self.W_k, self.w_v
        return score


class DotProductAttention(_Attention):
    """Attention with the score q . k / sqrt(d), without parameters.

    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; Dive into Deep Learning, section 11.3.

    >>> attention = DotProductAttention(dropout=0.5).eval()
    >>> attention(torch.ones(2, 1, 2), torch.ones(2, 10, 2), torch.ones(2, 10, 4), torch.tensor([2, 6])).shape
    torch.Size([2, 1, 4])
    >>> attention.attention_weights[0, 0, :3].tolist()
    [0.5, 0.5, 0.0]
    """

    def __init__(self, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def score(self) -> Score:
        return ScaledDot()


class MultiHeadAttention(nn.Module):
    """W_o [head_1; ...; head_h] with head_i = attention(W_q,i q, W_k,i k, W_v,i v); the heads are computed together.

    `attention.attention_weights` has the weights of all heads: (batch * num_heads, queries, keys).

    Args:
        num_hiddens: width of the result and of all heads together.
        num_heads: a divisor of num_hiddens.
    Raises: ConfigError: heads that do not divide num_hiddens.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2; Dive into Deep Learning, section 11.5.

    >>> attention = MultiHeadAttention(100, 100, 100, 100, 5, 0.5).eval()
    >>> attention(torch.ones(2, 4, 100), torch.ones(2, 6, 100), torch.ones(2, 6, 100), torch.tensor([3, 2])).shape
    torch.Size([2, 4, 100])
    """

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        num_heads: int,
        dropout: float,
        bias: bool = False,
    ):
        super().__init__()
        check_heads(num_hiddens, num_heads, None)
        self.num_heads = num_heads
        self.attention = DotProductAttention(dropout)
        self.W_q = nn.Linear(query_size, num_hiddens, bias=bias)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=bias)
        self.W_v = nn.Linear(value_size, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)

    def forward(
        self, queries: Queries, keys: Keys, values: Values, valid_lens: ValidLens = None
    ) -> Float[Tensor, "batch queries num_hiddens"]:
        if valid_lens is not None:
            # the heads of a sequence stand side by side
            valid_lens = valid_lens.repeat_interleave(self.num_heads, dim=0)
        heads = self.attention(
            transpose_qkv(self.W_q(queries), self.num_heads),
            transpose_qkv(self.W_k(keys), self.num_heads),
            transpose_qkv(self.W_v(values), self.num_heads),
            valid_lens,
        )
        return self.W_o(transpose_output(heads, self.num_heads))


class NWKernelRegression(nn.Module):
    """Attention pooling with a learned width: the mean of the values weighted by softmax(-((query - key) w)^2 / 2).

    A Gaussian kernel of width 1 / w. With w = 1 it is the Nadaraya-Watson estimator without parameters.

    Source: Nadaraya 1964; Watson 1964; Dive into Deep Learning, section 10.2 of the Chinese second edition. Its page
        writes the class out; the package of the book has none.

    >>> net = NWKernelRegression()
    >>> _ = net.w.data.fill_(1.0)
    >>> round(net(torch.tensor([0.0]), torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 2.0]])).item(), 4)
    0.7551
    """

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.rand(1))
        self._last: tuple[Tensor, Tensor] | None = None

    def forward(
        self,
        queries: Float[Tensor, "queries"],
        keys: Float[Tensor, "queries keys"],
        values: Float[Tensor, "queries keys"],
    ) -> Float[Tensor, "queries"]:
        """An estimate for each query over the keys and values of its row."""
        self._last = queries.detach(), keys.detach()
        return (self._weights(queries, keys) * values).sum(-1)

    @property
    def attention_weights(self) -> Float[Tensor, "queries keys"]:
        """The weights of the last call, computed on access with the current width.

        Raises: Unsupported: before the first call.
        """
        if self._last is None:
            raise Unsupported("there are no attention_weights yet: call the module first")
        with torch.no_grad():
            return self._weights(*self._last)

    def _weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        scores = -(((queries.unsqueeze(-1) - keys) * self.w) ** 2) / 2
        return masked_softmax(scores.unsqueeze(1), None).squeeze(1)


def transpose_qkv(
    X: Num[Tensor, "batch steps num_hiddens"], num_heads: int
) -> Num[Tensor, "batch_heads steps head_size"]:
    """Splits the last axis into heads, which become rows of the batch: row b * num_heads + h is head h of sequence b.

    >>> transpose_qkv(torch.arange(24).reshape(1, 4, 6), 2)[0].tolist()
    [[0, 1, 2], [6, 7, 8], [12, 13, 14], [18, 19, 20]]
    """
    check_heads(X.shape[-1], num_heads, None)
    return X.unflatten(-1, (num_heads, X.shape[-1] // num_heads)).transpose(1, 2).flatten(0, 1)


def transpose_output(
    X: Num[Tensor, "batch_heads steps head_size"], num_heads: int
) -> Num[Tensor, "batch steps num_hiddens"]:
    """Undoes `transpose_qkv`.

    >>> X = torch.randn(2, 4, 6)
    >>> transpose_output(transpose_qkv(X, 3), 3).equal(X)
    True
    """
    return X.unflatten(0, (X.shape[0] // num_heads, num_heads)).transpose(1, 2).flatten(2)


def _mask(valid_lens: Tensor | None, num_keys: int) -> Padding | None:
    # the book counts the tokens of a sentence before it cuts the sentence
    return None if valid_lens is None else Padding(valid_lens.clamp(max=num_keys))
