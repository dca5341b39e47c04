import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.errors import ConfigError, MachineError
from headwise.explain.canvas import picture, save
from headwise.explain.figures import page
from headwise.explain.values import array

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def drawn():
    return page(np.eye(2), ["a$b$", "é"], ["c", "<script>"], [np.eye(2)[None]], title="$x$")


@pytest.fixture
def figure():
    return drawn()


@pytest.mark.parametrize("kind", MAGIC)
def test_the_suffix_chooses_the_format_and_the_bytes_are_reproducible(tmp_path, kind):
    first = save(drawn(), tmp_path / "new" / f"a.{kind.upper()}")
    second = save(drawn(), tmp_path / f"b.{kind}")
    assert first.read_bytes().startswith(MAGIC[kind])
    assert first.read_bytes() == second.read_bytes()
    assert b"<script" not in first.read_bytes()


def test_another_suffix_is_refused(figure, tmp_path):
    with pytest.raises(ConfigError, match=r"a\.gif: .*\.png"):
        save(figure, tmp_path / "a.gif")
    with pytest.raises(ConfigError, match="use a name that ends in"):
        save(figure, tmp_path / "a")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(figure, tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def full(self, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(MachineError, match=r"a\.png: .*No space left"):
        save(figure, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_notebook_shows_a_picture_by_itself(figure):
    assert figure._repr_png_().startswith(MAGIC["png"])


def test_nothing_is_left_with_pyplot(figure):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    picture(1.0, 1.0)
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.bool, torch.int64])
def test_arrays_from_tensors_of_any_kind(dtype):
    tensor = torch.eye(3).to(dtype)
    tensor = tensor.requires_grad_() if dtype.is_floating_point else tensor
    values = array(tensor)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, np.eye(3))
