import warnings

import pytest

from headwise.explain import fonts

UNDRAWABLE = "\U0001e2c0"  # a letter of the Wancho script


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(fonts, "_warned", set())


def test_latin_greek_cyrillic_need_only_the_font_that_ships():
    assert fonts.families(["chez moi é", "λ", "жизнь"]) == [fonts.FIRST]


def test_chinese_text_gets_a_font_that_has_it():
    chosen = fonts.families(["我 喜欢 猫 。"])
    if len(chosen) == 1:
        pytest.skip("no installed font has Chinese characters")
    assert fonts.legible("我 喜欢 猫 。", chosen) == "我 喜欢 猫 。"


def test_a_character_that_no_font_has_is_a_code_with_one_warning(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: ())
    chosen = fonts.families([UNDRAWABLE])
    with pytest.warns(UserWarning, match=r"no installed font has 1 of the characters .*apt-get install fonts-noto-cjk"):
        assert fonts.legible(f"a{UNDRAWABLE}", chosen) == "aU+1E2C0"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fonts.legible(UNDRAWABLE, chosen) == "U+1E2C0"


def test_another_script_warns_again(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: ())
    with pytest.warns(UserWarning, match="no installed font"):
        fonts.legible("你", [fonts.FIRST])
    with pytest.warns(UserWarning, match="no installed font"):
        fonts.legible(UNDRAWABLE, [fonts.FIRST])


def test_a_font_file_that_is_none_is_passed_over(tmp_path):
    path = tmp_path / "broken.ttf"
    path.write_bytes(b"no font")
    fonts._register(str(path))


def test_the_report_names_a_font_for_each_script():
    rows = dict(fonts.report())
    assert rows["Latin"] == fonts.FIRST
    assert set(rows) >= {"Chinese", "Japanese", "Korean", "Arabic"}
