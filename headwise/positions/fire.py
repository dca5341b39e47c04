"""A small network of the distance, on a scale that grows with the query's position, added to the scores."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.attention.precision import wide
from headwise.attention.scores.score import times
from headwise.errors import ConfigError
from headwise.positions.position import Key, Position, Query


class Fire(Position):
    """score + f_h(psi(|i - j|) / psi(max(L, i))), psi(x) = log(|c| x + 1), with a learned network f (FIRE).

    Distances are read as shares of the query's position, so those of any length lie in [0, 1]; up to position L they
    are not. c and L are learned. Costs a bias of query_len x key_len for each head and query_len x key_len x hidden
    numbers inside f. It depends on where a query stands: padding on the left beyond L changes it.

    Args:
        num_heads: heads of the query.
        max_len: where L starts, 1 at least.
        hidden: width inside f.
    Raises: ConfigError: no heads, a length or width below 1.
    Source: Li et al. 2024, arXiv:2310.04418, section 3.3; |i - j| and the sizes of f as in its listing, which adds 1e-6
        to the divisor.

    >>> query = torch.zeros(1, 3, 5, 8)
    >>> Fire(3, max_len=16).bias(query, query, 0).shape
    torch.Size([1, 3, 5, 5])
    """

    by_distance = False
    where = "scores"
    extrapolates = "Made for it: shares of the query's position lie in the trained range at any length."

    def __init__(self, num_heads: int, max_len: int = 512, hidden: int = 32):
        super().__init__()
        if min(num_heads, max_len, hidden) < 1:
            raise ConfigError(f"fire needs num_heads ({num_heads}), max_len ({max_len}) and hidden ({hidden}) above 0")
        self.num_heads, self.max_len = num_heads, max_len
        self.inner, self.outer = nn.Linear(1, hidden), nn.Linear(hidden, num_heads)
        self.rate = nn.Parameter(torch.tensor(0.1))
        # of max_len, where L starts
        self.share = nn.Parameter(torch.tensor(1.0))

    def bias(self, query: Query, key: Key, start: int) -> Float[Tensor, "1 heads query_len key_len"]:
        dtype, device = wide(query).dtype, self.rate.device
        queries = torch.arange(start, start + query.shape[2], dtype=dtype, device=device)[:, None]
        keys = torch.arange(key.shape[2], dtype=dtype, device=device)
        rate, least = wide(self.rate).abs(), wide(self.share).abs() * self.max_len
        scale = (rate * torch.maximum(queries, least)).log1p() + 1e-6
        share = (rate * (queries - keys).abs()).log1p() / scale
        hidden = times(self.inner, share.unsqueeze(-1).to(dtype)).relu()
        return times(self.outer, hidden).movedim(-1, 0).unsqueeze(0)
