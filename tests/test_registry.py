"""A name becomes an object in one way: with arguments, as a table, from outside; what is wrong is named."""

import pytest
import torch

from headwise import MultiHeadAttention, positions, weights
from headwise.attention import masks, mechanisms, normalizers, scores
from headwise.config import as_text
from headwise.errors import ConfigError
from headwise.models.transformer import build_transformer
from headwise.models.transformer_config import TransformerConfig
from headwise.positions.rotary import Yarn
from headwise.registry import imported, papers, split
from headwise.testing import certify, resolve
from headwise.training import recipes

SIZES = {"head_dim": 8, "num_heads": 2, "max_len": 32}


def mechanism(text):
    return mechanisms.build(text, **SIZES, dropout=0.1)


def position(text):
    return positions.build(text, d_model=16, **SIZES)


def score(text):
    return scores.build(text, 8, 8, 4, 2)


def mask(text):
    return masks.build(text, 16)


def normalizer(text):
    return normalizers.build(text, 2)


# a text, the same as a table, and what the object has
NAMED = [
    (mechanism, "nystrom:4,steps=3", {"name": "nystrom", "landmarks": 4, "steps": 3}, {"landmarks": 4, "steps": 3}),
    (mechanism, "scored:kernel=strips", {"name": "scored", "kernel": "strips"}, {"kernel": "strips"}),
    (position, "rotary:base=500", {"name": "rotary", "base": 500}, {"base": 500.0, "head_dim": 8}),
    (position, "deberta:max_distance=9", {"name": "deberta", "max_distance": 9}, {"max_distance": 9}),
    (score, "soft_cap:cap=30", {"name": "soft_cap", "cap": 30}, {"cap": 30.0}),
    (normalizer, "top_k:3", {"name": "top_k", "k": 3}, {"k": 3}),
    (mask, "window:left=4,right=0", {"name": "window", "left": 4, "right": 0}, {"left": 4, "right": 0}),
    (mask, "shifts:[-1,0]", {"name": "shifts", "steps": [-1, 0]}, {"steps": (-1, 0)}),
]


@pytest.mark.parametrize(("make", "text", "table", "expected"), NAMED, ids=[text for _, text, _, _ in NAMED])
def test_arguments_stand_after_a_name_or_in_a_table(make, text, table, expected):
    for written in (text, as_text(table)):
        made = make(written)
        assert {key: getattr(made, key) for key in expected} == expected


def test_an_argument_is_an_object_with_a_name():
    rotary = position(as_text({"name": "rotary", "scaling": {"name": "yarn", "factor": 4, "original_len": 16}}))
    assert rotary.scaling == Yarn(4.0, 16)
    scored = mechanism("scored:normalizer=(top_k:3),score=(soft_cap:cap=30)")
    assert (scored.normalizer.name, scored.score.cap) == ("top_k:3", 30.0)
    assert position("rotary:scaling=none").scaling is None


WRONG = [
    (mechanism, "linformer:rnak=5", "unknown argument of mechanism 'linformer': 'rnak'; did you mean 'rank'"),
    (mechanism, "linformer:rank=low", "rank of mechanism 'linformer' must be int, not 'low'"),
    (mechanism, "linear:3", "mechanism 'linear' has no arguments, got '3'"),
    (mechanism, "linfromer:rank=5", "unknown mechanism 'linfromer'; did you mean 'linformer'"),
    (mechanism, "linformer:head_dim=5", "unknown argument of mechanism 'linformer': 'head_dim'"),
    (position, "rotary:layout=whole", "layout of position 'rotary' must be Literal"),
    (position, "rotary:scaling=(yran:factor=4)", "unknown scaling 'yran'; did you mean 'yarn'"),
    (score, "soft_cap:cap=0", "cap"),
    (normalizer, "top_k", "normalizer 'top_k' needs k"),
    (mask, "window:4", "mask 'window' needs right"),
    (mask, "padding", "mask 'padding' needs valid_lens, which cannot be written"),
    (mechanism, "linformer:4,rank=5", "rank twice"),
    (mechanism, "linformer:rank=4,rank=5", "rank twice"),
    (mechanism, f"linformer:rank={2**63}", "rank of mechanism 'linformer' must be int"),
    (mechanism, "differential:lambda_init=nan", "lambda_init of mechanism 'differential' must be float"),
    (mechanism, "headwise.attention.mechanisms.mechanism:Mechanism", "does not define compute"),
    (mask, "~" * 2000 + "causal", "cannot be read"),
    (mask, "windo:4,4 & causal", "unknown mask 'windo'; did you mean 'window'"),
]


@pytest.mark.parametrize(("make", "text", "message"), WRONG, ids=[text for _, text, _ in WRONG])
def test_what_is_wrong_is_named(make, text, message):
    with pytest.raises(ConfigError, match=message):
        make(text)


def test_classes_from_outside_take_arguments_too(tmp_path, monkeypatch):
    (tmp_path / "outside_of_registry.py").write_text(
        "import torch\n"
        "from headwise import Mask, Mechanism, Score\n"
        "class Near(Score):\n"
        "    def __init__(self, dim: int, power: float = 2.0, label: str = ''):\n"
        "        super().__init__()\n"
        "        self.dim, self.power, self.label = dim, power, label\n"
        "    def forward(self, query, key):\n"
        "        return -torch.cdist(query, key, self.power)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    # imported by the program itself, so it is trusted
    imported_module = __import__("outside_of_registry")
    made = score("outside_of_registry:Near:power=1")
    assert isinstance(made, imported_module.Near)
    assert (made.dim, made.power) == (8, 1.0)
    # a text of a table stays what it is, whatever stands in it
    for label in ("a,b", "8", "none", "c=d", "e)", 'say "f, g"', "\\", ",\\", '5"'):
        assert score(as_text({"name": "outside_of_registry:Near", "label": label})).label == label
    assert resolve("outside_of_registry:Near:power=1").name == "outside_of_registry:Near:power=1"
    with pytest.raises(ConfigError, match="is no mechanism"):
        mechanism("outside_of_registry:Near")
    with pytest.raises(ConfigError, match="unknown attribute of module 'outside_of_registry': 'Nar'"):
        imported("outside_of_registry:Nar")


CERTIFIED = {"nystrom:4": "empty", "window:2,0": "predicate", "rotary:base=500": "padding", "soft_cap:cap=30": "empty"}


@pytest.mark.parametrize("target", CERTIFIED)
def test_what_has_arguments_is_certified(target):
    (verdict,) = certify(target, only=[CERTIFIED[target]], quick=True)
    assert verdict.state in ("holds", "does not apply"), verdict.reason


def test_masks_are_combined():
    written = mask("window:left=2,right=0 & ~(global:1 | strided:3)")
    assert repr(written) == repr(masks.Window(2, 0) & ~(masks.Global(1) | masks.Strided(3)))
    assert repr(mask("causal | global:1 & ~strided:3")) == repr(masks.Causal() | masks.Global(1) & ~masks.Strided(3))
    assert split("a=[1,2],b=(c:d,e)", ",") == ["a=[1,2]", "b=(c:d,e)"]


def test_a_layer_takes_the_same_names():
    assert MultiHeadAttention(16, 2, "nystrom:4").mechanism.landmarks == 4
    x = torch.randn(1, 2, 5, 8)
    torch.testing.assert_close(weights(x, x, score="soft_cap:cap=1e9"), weights(x, x))


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("model.mechanism=linformer:rnak=5", "model.mechanism: unknown argument"),
        ('model.position={name="rotery"}', "position: unknown position"),
        ("model.score=dott", "score: unknown score"),
        ("model.normalizer=top_k:x", "normalizer: k of"),
        ("model.mask=window:4", "model.mask: mask 'window' needs right"),
        ("model.mask=window:-1,0", "model.mask: Window"),
    ],
)
def test_a_recipe_names_the_key(setting, key):
    with pytest.raises(ConfigError, match=key):
        recipes.read("phrasebook", [setting])


@pytest.mark.parametrize("reversible", [False, True])
def test_the_mask_of_a_configuration_limits_what_an_encoder_reads(reversible):
    sizes = {"d_model": 8, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    config = TransformerConfig(**sizes, mask="window:left=1,right=0", reversible=reversible)
    encoder = build_transformer(config, 11, 11, joint=True).encoder.eval()
    tokens, lens = torch.randint(4, 11, (1, 7)), torch.tensor([7])
    states = encoder(tokens, lens).states
    for changed in range(7):
        other = tokens.clone()
        other[0, changed] = 4 + (other[0, changed] - 3) % 7
        differs = (encoder(other, lens).states != states).any(-1)[0].tolist()
        assert differs == [changed <= place <= changed + 1 for place in range(7)]


def test_a_recipe_limits_its_encoder_by_a_mask():
    config = recipes.read("phrasebook", ['model.mask={name="window",left=1,right=0}', "model.position=rotary:base=500"])
    assert (config.model.mask, config.model.position) == ("window:left=1,right=0", "rotary:base=500")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Şahin et al. 2020, arXiv:2001.00001, eq. 2", ["Şahin et al. 2020, arXiv:2001.00001"]),
        # the cedilla as a sign of its own
        ("S\u0327ahin et al. 2020, arXiv:2001.00001", ["Şahin et al. 2020, arXiv:2001.00001"]),
        ("Łukasz and Roe 2021, arXiv:2101.00001", ["Łukasz and Roe 2021, arXiv:2101.00001"]),
        ("Section 2 of Foe et al. 2022, arXiv:2201.00001", ["Foe et al. 2022, arXiv:2201.00001"]),
        ("van den Oord et al. 2018, arXiv:1807.03748", ["van den Oord et al. 2018, arXiv:1807.03748"]),
        ("d'Ascoli and O'Neil 2021, arXiv:2103.10697", ["d'Ascoli and O'Neil 2021, arXiv:2103.10697"]),
        ("Foe, Roe and Noe 2015, arXiv:1501.00001", ["Foe, Roe and Noe 2015, arXiv:1501.00001"]),
        (
            "Foe et al. 2020, section 2; Kimi Team 2025, arXiv:2510.26692. The code of Wang\n  et al. 2024 (Qwen), "
            "arXiv:2409.12191.",
            ["Kimi Team 2025, arXiv:2510.26692", "Wang et al. 2024 (Qwen), arXiv:2409.12191"],
        ),
        ("the code, 2022, arXiv:2201.00001", []),
    ],
)
def test_papers_are_named_by_their_authors(source, expected):
    for space in (" ", "\n        "):
        kind = type("Mine", (), {"__doc__": f"What it is.\n\n    Source:{space}{source}\n\n    >>> Foe 1999"})
        assert papers(kind) == "; ".join(expected)
