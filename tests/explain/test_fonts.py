import warnings
from dataclasses import replace
from functools import cache

import matplotlib
import pytest
from matplotlib import font_manager

from headwise.explain import fonts, maps

UNDRAWABLE = "\U0001e2c0"  # a letter of the Wancho script


def test_latin_greek_cyrillic_need_only_the_font_that_ships():
    assert fonts.families(["chez moi é", "λ", "жизнь"]) == [fonts.FIRST]


def has(monkeypatch, *names):
    """What is installed: the fonts that ship with matplotlib, and some of these names that have all of Han."""
    shipped = matplotlib.get_data_path()
    entries = [entry for entry in font_manager.fontManager.ttflist if entry.fname.startswith(shipped)]
    last = next(entry for entry in entries if entry.name.startswith("Last Resort"))
    ours = [replace(last, name=name, style="normal", weight=400) for name in names]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*entries, *ours])
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    monkeypatch.setattr(fonts, "_installed", fonts._installed.__wrapped__)
    monkeypatch.setattr(fonts, "_characters", cache(fonts._characters.__wrapped__))


def test_chinese_text_gets_a_font_that_has_it(monkeypatch):
    has(monkeypatch, "Some Han", "WenQuanYi Zen Hei")
    assert fonts.families(["我 喜欢 猫 。"]) == [fonts.FIRST, "WenQuanYi Zen Hei"]
    assert fonts.legible("我 喜欢 猫 。", [fonts.FIRST, "WenQuanYi Zen Hei"]) == "我 喜欢 猫 。"


def test_a_font_of_placeholders_is_none(monkeypatch):
    has(monkeypatch, ".LastResort", "Adobe Blank 2")
    assert not any("last" in name.lower() or "blank" in name.lower() for name in fonts._installed())


def test_chinese_without_a_font_warns_once_for_all_labels(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: ())
    with warnings.catch_warnings(record=True) as caught:
        # what Python does for its users
        warnings.simplefilter("default")
        assert maps.labels(["你好", "。"]).texts == ["U+4F60U+597D", "U+3002"]
        assert maps.labels(["我", "喜欢", "，"]).texts == ["U+6211", "U+559CU+6B22", "U+FF0C"]
    told = [str(warning.message) for warning in caught]
    assert [text for text in told if "characters of the script Han" in text] == told[:1]
    assert len(told) == len(set(told)) <= 2
    assert dict(fonts.report())["Chinese"] == fonts.NONE


def test_a_character_that_no_font_has_is_a_code_with_one_warning(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: ())
    chosen = fonts.families([UNDRAWABLE])
    with pytest.warns(UserWarning, match=r"apt-get install fonts-noto-cjk"):
        assert fonts.legible(f"a{UNDRAWABLE}", chosen) == "aU+1E2C0"


def test_another_script_warns_again(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: ())
    with pytest.warns(UserWarning, match="no installed font"):
        fonts.legible("你", [fonts.FIRST])
    with pytest.warns(UserWarning, match="no installed font"):
        fonts.legible(UNDRAWABLE, [fonts.FIRST])


def test_a_broken_font_file_is_skipped(tmp_path, monkeypatch):
    path = tmp_path / "broken.ttf"
    path.write_bytes(b"no font")
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(path)])
    assert fonts._installed.__wrapped__()


def test_the_report_names_a_font_for_each_script():
    rows = dict(fonts.report())
    assert rows["Latin"] == fonts.FIRST
    assert set(rows) >= {"Chinese", "Japanese", "Korean", "Arabic"}
