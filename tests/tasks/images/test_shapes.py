"""Drawn shapes: what a caption says is what the pixels show."""

import numpy as np
import pytest

from headwise.errors import ConfigError, DataError
from headwise.tasks.images.mask_pictures import Legend, decode_mask
from headwise.tasks.images.picture_files import decode
from headwise.tasks.images.shapes import COLOURS, FORMS, draw, make


@pytest.mark.parametrize("side", [16, 33])
def test_captions_say_what_is_drawn(side):
    for number in range(40):
        drawn = draw(number, side, seed=2)
        words = drawn.caption.split()
        places = []
        for colour, form in ((words[1], words[2]), (words[-2], words[-1])):
            inside = (drawn.pixels == COLOURS[colour]).all(-1) & (drawn.forms == 1 + FORMS.index(form))
            assert inside.any()
            places.append(np.argwhere(inside).mean(0))
        (top, left), (bottom, right) = places
        relation = " ".join(words[3:-3])
        assert {"above": top < bottom, "left of": left < right}[relation], drawn.caption
    assert {draw(number).caption.split()[3] for number in range(40)} == {"above", "left"}


def test_the_same_numbers_draw_the_same_picture():
    one, two = draw(3, seed=1), draw(3, seed=1)
    assert (one.pixels == two.pixels).all()
    assert one.caption == two.caption
    assert (one.pixels != draw(3, seed=2).pixels).any()


def test_files_are_written_once(tmp_path):
    made = make(tmp_path / "shapes", count=20)
    assert {path.name: count for path, count in made.items()} == {"train.csv": 20, "valid.csv": 2, "test.csv": 2}
    for kind in ("pictures", "masks"):
        assert len(list((tmp_path / "shapes" / kind).iterdir())) == 24
    assert make(tmp_path / "shapes", count=20) == made
    with pytest.raises(DataError, match=r"train.csv: is other data, of another seed or size; remove it, or name anoth"):
        make(tmp_path / "shapes", count=21)
    with pytest.raises(ConfigError, match=r"side \(15\) must be at least 16 pixels"):
        draw(0, 15)


def test_masks_say_which_form_each_pixel_belongs_to(tmp_path):
    make(tmp_path, seed=3, count=2)
    rows = (tmp_path / "valid.csv").read_text().splitlines()
    assert rows[0] == "path,caption,mask"
    picture, caption, mask = rows[1].split(",")
    drawn = draw(2, seed=3)
    assert caption == drawn.caption
    assert decode((tmp_path / picture).read_bytes(), picture).pixels.tolist() == drawn.pixels.tolist()
    assert decode_mask((tmp_path / mask).read_bytes(), mask, Legend()).tolist() == drawn.forms.tolist()
