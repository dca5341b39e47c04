"""A mechanism of a user's own is one file: named in a recipe it trains and decodes with beams, and it is certified."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headwise.attention import mechanisms
from headwise.attention.mechanisms.mechanism import Facts
from headwise.testing import certify
from headwise.training.loading import load
from headwise.training.train import train
from headwise.trust import trusting

PAGE = Path(__file__).parents[2] / "docs" / "check.md"
FORMULA = "softmax(q k^T / sqrt(d) - |i - j| exp(rate)) v"
RECIPE = """
task = "translate"
[data]
train = "pairs.tsv"
[tokenizer]
kind = "word"
[model]
kind = "transformer"
mechanism = "forgetful:Decaying"
d_model = 8
d_ff = 8
num_heads = 2
encoder_layers = 1
decoder_layers = 1
[decoding]
beam_size = 3
max_len = 7
[training]
max_steps = 4
batch_tokens = 64
validate_every_epochs = 0
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the file that docs/check.md shows."""
    (file,) = re.findall(r'```python\n("""Attention that forgets.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "forgetful.py").write_text(file, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_named_in_a_recipe_it_trains_and_decodes_with_beams(folder):
    lines = [f"{a} and {b} .\t{a} et {b} ." for a in "abcde" for b in "abcde"]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    assert train("recipe.toml", "run", trust=True).steps == 4
    translator = load("run")
    model = translator.model
    kinds = [type(module).__name__ for module in model.modules() if isinstance(module, mechanisms.Mechanism)]
    assert kinds.count("Decaying") == 2
    rates = [parameter.item() for name, parameter in model.named_parameters() if name.endswith("rate")]
    assert len(rates) == 2
    assert -2.0 not in rates
    (best, *_), _ = translator.n_best(["a and b .", "c and d ."])
    assert best.text == translator.translate(["a and b ."])[0]


def test_steps_with_a_cache_are_all_at_once(folder):
    from headwise.models.transformer import TransformerConfig, build_transformer

    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    with trusting():
        model = build_transformer(TransformerConfig(mechanism="forgetful:Decaying", **sizes), 7, 7, joint=True).eval()
    src, lens, tgt = torch.tensor([[3, 4, 5], [6, 3, 0]]), torch.tensor([3, 2]), torch.tensor([[1, 3, 4], [1, 6, 5]])
    with torch.no_grad():
        cache = model.decoder.start(model.encoder(src, lens), lens)
        steps = [model.decoder.step(tgt[:, 0], cache)]
        cache.expand(2)
        steps += [model.decoder.step(tgt[:, t].repeat_interleave(2), cache)[1::2] for t in (1, 2)]
        torch.testing.assert_close(torch.stack(steps, 1), model(src, lens, tgt), rtol=1e-4, atol=1e-4)


def test_it_is_held_to_its_promises(folder, untyped):
    ids = ["hidden", "support", "groups", "steps", "record"]
    assert [verdict.state for verdict in certify("forgetful:Decaying", only=ids, quick=True)] == ["holds"] * 5


def test_in_the_folder_of_mechanisms_it_is_named_by_its_file(folder, monkeypatch):
    monkeypatch.setattr(mechanisms, "__path__", [*mechanisms.__path__, str(folder)])
    assert mechanisms.catalogue()["forgetful"].startswith("softmax(q k^T")
    assert ("formula", FORMULA) in mechanisms.details()["forgetful"]
    assert mechanisms.mechanism_type("forgetful").facts.formula == FORMULA


def test_formula_and_paper_that_are_not_stated_are_those_of_the_documentation():
    class Mean(mechanisms.Mechanism):
        """mean of v.

        Source: Doe and Roe 2020 (Mean), arXiv:2001.00001, eq. 1; Poe et al. 1999, arXiv:9901.0001.
        """

        def compute(self, call):
            return call.value

    class Stated(mechanisms.Mechanism):
        """mean of v. Source: Doe et al. 2020, arXiv:2001.00001."""

        facts = Facts(formula="v", paper="none")

        def compute(self, call):
            return call.value

    class Median(Mean):
        """median of v.

        Source: Noe 2021, arXiv:2101.00001.
        """

    class Faster(Stated):
        """mean of v, faster.

        Source: Noe 2021, arXiv:2101.00001.
        """

        facts = replace(Stated.facts, time="n d")

    class Renamed(Median):
        """Median, by another name."""

    assert (Median.facts.formula, Median.facts.paper) == ("median of v", "Noe 2021, arXiv:2101.00001")
    assert (Faster.facts.formula, Faster.facts.time) == ("mean of v, faster", "n d")
    assert Faster.facts.paper == Median.facts.paper
    assert Renamed.facts == Median.facts
    assert Mean.facts.formula == "mean of v"
    assert Mean.facts.paper == "Doe and Roe 2020 (Mean), arXiv:2001.00001; Poe et al. 1999, arXiv:9901.0001"
    assert (Stated.facts.formula, Stated.facts.paper) == ("v", "none")
    for name in mechanisms.names():
        facts = mechanisms.mechanism_type(name).facts
        assert "not stated" not in (facts.formula, facts.time, facts.memory), name
        assert re.search(r" \d{4}, (arXiv:|DeepSeek)", facts.paper), name
        # a function of the value, written out
        assert re.search(r"\bv(_[ij])?\b|\bv'", facts.formula), name
        assert not re.search("linear attention|unless|[(]LSH|[(]selective", facts.formula), name
