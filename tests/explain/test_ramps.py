import numpy as np
import pytest

from headwise.errors import ConfigError
from headwise.explain import ramps

SEQUENTIAL = ("ink light", "ink dark")


def spread(colours):
    steps = np.linalg.norm(np.diff(ramps.oklab(colours), axis=0), axis=1)
    return steps.std() / steps.mean()


@pytest.mark.parametrize(("name", "first", "last"), [("ink light", 0.98, 0.27), ("ink dark", 0.20, 0.97)])
def test_a_sequential_ramp_has_monotone_lightness_and_equal_steps(name, first, last):
    colours = ramps.ramp(name)
    lightness = ramps.oklab(colours)[:, 0]
    assert colours.shape == (256, 3)
    assert (np.diff(lightness) * np.sign(last - first) > 0).all()
    assert (lightness[0], lightness[-1]) == pytest.approx((first, last), abs=0.01)
    assert spread(colours) < 0.01


def test_the_arms_of_the_diverging_ramp_meet_at_the_page_in_equal_steps():
    colours = ramps.ramp("diverging")
    lightness = ramps.oklab(colours)[:, 0]
    assert (np.diff(lightness[:128]) > 0).all()
    assert (np.diff(lightness[128:]) < 0).all()
    assert lightness[[0, 128, 255]] == pytest.approx([0.38, 0.97, 0.45], abs=0.01)
    assert spread(colours[:128]) < 0.01
    assert spread(colours[128:]) < 0.01


def test_the_arms_of_the_dark_diverging_ramp_rise_from_the_dark_page_in_equal_steps():
    colours = ramps.ramp("diverging dark")
    lightness = ramps.oklab(colours)[:, 0]
    assert (np.diff(lightness[:128]) < 0).all()
    assert (np.diff(lightness[128:]) > 0).all()
    np.testing.assert_allclose(colours[127:129], ramps.ramp("ink dark")[:1].repeat(2, axis=0), atol=1 / 255)
    assert spread(colours[:128]) < 0.01
    assert spread(colours[128:]) < 0.01


@pytest.mark.parametrize("name", ramps.CONTROLS)
def test_control_colours_are_kept(name):
    controls = [control for arm in ramps.CONTROLS[name] for control in arm.split()]
    as_bytes = np.array([[int(control[i : i + 2], 16) for i in (1, 3, 5)] for control in controls])
    distances = np.abs(ramps.ramp(name)[:, None] * 255 - as_bytes[None]).max(axis=-1).min(axis=0)
    # a control lies between two of the 256 entries, which are about a unit of a byte apart
    assert distances.max() < 2.5


def test_oklab_of_known_colours():
    # Ottosson 2020: white is lightness 1 without colour, black is 0; red from his reference table
    colours = ramps.oklab(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    expected = [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.628, 0.2249, 0.1258]]
    np.testing.assert_allclose(colours, expected, atol=1e-3)


def test_srgb_inverts_oklab():
    colours = np.random.default_rng(0).random((97, 3))
    np.testing.assert_allclose(ramps.srgb(ramps.oklab(colours)), colours, atol=1e-6)


def test_ramps_are_cached_and_cannot_be_changed():
    assert ramps.ramp("ink light") is ramps.ramp("ink light")
    assert ramps.colormap("ink light") is ramps.colormap("ink light")
    with pytest.raises(ValueError, match="read-only"):
        ramps.ramp("ink light")[0] = 0.0


def test_a_colormap_is_the_ramp():
    np.testing.assert_allclose(ramps.colormap("diverging")(np.arange(256))[:, :3], ramps.ramp("diverging"))


def test_an_unknown_ramp_is_named():
    with pytest.raises(ConfigError, match="unknown colour ramp 'ink lihgt'"):
        ramps.ramp("ink lihgt")


# Machado, Oliveira and Fernandes 2009, table 1 at full severity, over linear sRGB
DEFICIENCIES = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
SIGHTS = ("normal", *DEFICIENCIES)


def seen(colours, sight):
    """Colours in sRGB as somebody with this deficiency sees them."""
    if sight == "normal":
        return colours
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(DEFICIENCIES[sight]).T, 0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def test_a_deficiency_keeps_greys():
    greys = np.linspace(0, 1, 5)[:, None].repeat(3, axis=1)
    for sight in DEFICIENCIES:
        np.testing.assert_allclose(seen(greys, sight), greys, atol=1e-4)
        assert np.abs(seen(np.array([[1.0, 0.0, 1.0]]), sight) - [1.0, 0.0, 1.0]).max() > 0.1


def arms(name):
    """The halves of a ramp that each go one way."""
    size = ramps.SIZE // len(ramps.CONTROLS[name])
    return [ramps.ramp(name)[start : start + size] for start in range(0, ramps.SIZE, size)]


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", ramps.CONTROLS)
def test_every_ramp_has_monotone_lightness_and_even_steps_for_everybody(name, sight):
    for arm in arms(name):
        colours = seen(arm, sight)
        steps = np.diff(ramps.oklab(colours)[:, 0])
        assert (steps > 0).all() or (steps < 0).all()
        assert spread(colours) <= (0.05 if sight == "normal" else 0.15)


def rgb(colours):
    return np.array([ramps.to_rgb(colour) for colour in colours]) / 255


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize(
    ("colours", "least"), [(ramps.PALETTE, 0.07), (ramps.LINES["light"], 0.06), (ramps.LINES["dark"], 0.08)]
)
def test_everybody_can_tell_eight_colours_apart(colours, least, sight):
    lab = ramps.oklab(seen(rgb(colours), sight))
    assert len(lab) == 8
    distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1) + 9 * np.eye(8)
    assert distances.min() >= least


@pytest.mark.parametrize(("scheme", "page"), [("light", "#f8fafd"), ("dark", "#15171d")])
def test_lines_stand_out_from_their_page_and_keep_the_hues(scheme, page):
    def luminance(colours):
        linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    lines, ground = luminance(rgb(ramps.LINES[scheme])), luminance(rgb([page]))
    assert ((np.maximum(lines, ground) + 0.05) / (np.minimum(lines, ground) + 0.05) >= 3).all()
    hues = [
        np.degrees(np.arctan2(*ramps.oklab(rgb(colours))[:, :0:-1].T))
        for colours in (ramps.LINES[scheme], ramps.PALETTE)
    ]
    turned = (np.subtract(*hues) + 180) % 360 - 180
    # the hue of a grey means nothing
    assert (np.abs(np.delete(turned, 6)) < 17).all()


def test_each_class_has_a_colour_of_its_own():
    names = [f"class {number}" for number in range(60)]
    colours = ramps.class_colours(names)
    assert list(colours) == names
    assert list(colours.values())[:8] == list(ramps.PALETTE)
    assert len(set(colours.values())) == 60
    # by its place among all classes, whichever of them are shown
    assert ramps.class_colours(names[:3]).items() <= colours.items()


def test_a_class_named_by_a_colour_has_it_and_no_other_class_does():
    blue, red, green, pink, orange, *_ = ramps.PALETTE
    assert ramps.class_colours(["red", "Green"]) == {"red": red, "Green": green}
    assert ramps.class_colours(["cat", "orange", "dog", " blue"]) == {
        "cat": red, "orange": orange, "dog": green, " blue": blue
    }  # fmt: skip
    named = ramps.class_colours(["black", "white", "purple", "brown", "grey", "yellow", "pink", *"abcdefgh"])
    assert named["pink"] == pink
    assert len(set(named.values())) == 15
    assert ramps.class_colours([]) == {}
