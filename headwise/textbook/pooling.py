"""The book's attention pooling: kernel regression, in which near points weigh most."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.errors import Unsupported
from headwise.textbook.attention import masked_softmax


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
        """The weights of the last call, computed when asked for, with the width of now.

        Raises:
            Unsupported: before the first call.
        """
        if self._last is None:
            raise Unsupported("there are no attention_weights yet: call the module first")
        with torch.no_grad():
            return self._weights(*self._last)

    def _weights(self, queries: Tensor, keys: Tensor) -> Tensor:
        scores = -(((queries.unsqueeze(-1) - keys) * self.w) ** 2) / 2
        return masked_softmax(scores.unsqueeze(1), None).squeeze(1)
