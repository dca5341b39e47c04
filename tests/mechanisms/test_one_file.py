"""A mechanism is one file: put into the folder, it is listed, built by name, trained, decoded and tried."""

import sys

import pytest
import torch
from typer.testing import CliRunner

from headwise.attention import mechanisms
from headwise.certify import certify, resolve
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig

FILE = '''"""Attention that may look away."""

from headwise.attention.mechanisms.mechanism import Facts, Mechanism
from headwise.attention.mechanisms.scored import Scored
from headwise.attention.normalizers import build


class LooksAway(Mechanism):
    """Softmax attention beside a key of score 0 and value 0."""

    facts = Facts(
        formula="softmax1(q k^T / sqrt(d)) v", paper="none", family="definition", time="n^2 d", memory="n d",
        exact="another function", causal=True, cross=True, recurrent=False, masks="any", bias=True, relative=True,
    )

    def __init__(self):
        super().__init__()
        self.inner = Scored(normalizer=build("softmax1"))

    def forward(self, query, key, value, *, mask=None, bias=None, relative=None, query_start=0, finite=False):
        return self.inner(query, key, value, mask=mask, bias=bias, relative=relative, query_start=query_start)
'''


@pytest.fixture
def dropped(tmp_path, monkeypatch):
    (tmp_path / "looks_away.py").write_text(FILE)
    monkeypatch.setattr(mechanisms, "__path__", [*mechanisms.__path__, str(tmp_path)])
    yield
    sys.modules.pop("headwise.attention.mechanisms.looks_away", None)
    vars(mechanisms).pop("looks_away", None)


def test_a_file_is_all_it_takes(dropped):
    from headwise.cli.main import app

    listed = CliRunner().invoke(app, ["list", "mechanisms"]).stdout
    assert "looks_away" in listed
    assert "formula  softmax1(q k^T / sqrt(d)) v" in listed
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = build_transformer(TransformerConfig(mechanism="looks_away", **sizes), 7, 7, joint=True)
    tokens, lens = torch.ones(2, 3, dtype=torch.long), torch.tensor([3, 2])
    model(tokens, lens, tokens).sum().backward()
    cache = model.decoder.start(model.encoder(tokens, lens), lens)
    cache.expand(2)
    assert model.decoder.step(torch.ones(4, dtype=torch.long), cache).shape == (4, 7)


def test_it_is_held_to_its_promises(dropped, untyped):
    verdicts = list(certify(resolve("looks_away"), only=["A3", "A4", "A12", "A16", "steps", "record"], quick=True))
    assert [verdict.state for verdict in verdicts] == ["holds"] * 6
