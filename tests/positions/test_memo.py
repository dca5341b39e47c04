"""Tables that are kept while nothing learns."""

import copy
import weakref

import pytest
import torch
from torch import nn

from headwise.positions._memo import Memo, wide


class Counter(nn.Module):
    """A memo over one parameter, and how often the table was made."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.memo = Memo()
        self.sizes = []

    def make(self, size):
        self.sizes.append(size)
        return self.weight.expand(size, 3) * torch.arange(size)[:, None]

    def table(self, size):
        return self.memo.table([self.weight], size, self.make)


def test_kept_while_nothing_changes_and_grown_by_doubling():
    counter = Counter()
    with torch.no_grad():
        first = counter.table(5)
        assert counter.table(64) is first
        assert counter.table(65).shape == (128, 3)
        assert counter.table(900).shape == (900, 3)
        assert counter.table(7).shape == (900, 3)
    assert counter.sizes == [64, 128, 900]


def test_made_anew_wherever_a_gradient_is_wanted():
    counter = Counter()
    for size in (5, 5, 3):
        table = counter.table(size)
        assert table.requires_grad
        assert table.shape == (size, 3)
    assert counter.sizes == [5, 5, 3]
    counter.weight.requires_grad_(False)
    assert counter.table(5) is counter.table(6)


def test_a_changed_parameter_makes_a_new_table():
    counter = Counter()
    changes = [
        lambda: counter.weight.add_(1.0),
        lambda: counter.load_state_dict({"weight": torch.full((3,), 7.0)}),
        lambda: torch._foreach_mul_([counter.weight], 2.0),
        lambda: torch.optim.SGD([counter.weight], lr=1.0).step(),
        lambda: setattr(counter, "weight", nn.Parameter(torch.full((3,), -1.0))),
    ]
    for change in changes:
        counter.weight.grad = torch.ones(3)
        with torch.no_grad():
            counter.table(5)
            change()
            assert torch.equal(counter.table(5)[1], counter.weight)


def test_another_type_drops_the_table():
    """New data may lie where the old lay, so addresses and counts alone would not tell."""
    counter = Counter()
    with torch.no_grad():
        table = counter.table(5)
        assert table.dtype == torch.float32
        kept = weakref.ref(table)
        del table
        counter.double()
        assert kept() is None
        assert counter.table(5).dtype == torch.float64


def test_a_table_made_in_inference_mode_serves_training():
    counter = Counter()
    counter.weight.requires_grad_(False)
    with torch.inference_mode():
        counter.table(5)
    x = torch.ones(3, requires_grad=True)
    (x * counter.table(5)[2]).square().sum().backward()
    assert x.grad.isfinite().all()


def test_no_state_and_copied_with_its_module():
    counter = Counter()
    with torch.no_grad():
        counter.table(5)
        assert list(counter.state_dict()) == ["weight"]
        twin = copy.deepcopy(counter)
        twin.weight.fill_(3.0)
        assert twin.table(5)[1, 0].item() == 3.0
        assert counter.table(5)[1, 0].item() == 1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_half_precision_is_widened(dtype):
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    assert wide(torch.ones(1, dtype=dtype)).dtype == expected
