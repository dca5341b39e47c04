"""The wheel alone serves every page of the explorer: built, installed where nothing else is, without node, looked at.

python -m tools.wheelcheck
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECIPE = """
task = "translate"
data.train = "pairs.tsv"
tokenizer = { kind = "word", joint = false }
model = { kind = "transformer", d_model = 8, d_ff = 8, num_heads = 2, encoder_layers = 1, decoder_layers = 1 }
training = { max_steps = 2, batch_tokens = 64, validate_every_epochs = 0, warmup_steps = 1 }
"""
# names of languages, which nothing fetches
NAMES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML")
KINDS = (".js", ".css", ".html", ".svg")


def outside(text: str) -> list[str]:
    """What a script, a style sheet or a page could load from elsewhere.

    >>> outside('import("https://cdn.example/x.js")'), outside('const SPACE = "http://www.w3.org/2000/svg";')
    (['https://cdn.example/x.js'], [])
    """
    for name in NAMES:
        text = text.replace(f'"{name}"', "")
    return re.findall(r"https?://[^\s\"'`]*|@import|url\((?!data:)", text)


def built(place: Path) -> Path:
    """The wheel of this tree."""
    told = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*told, "--wheel-dir", str(place), str(ROOT)], check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def pages_of(wheel: Path) -> list[str]:
    """The static files of a wheel, below `static/`; each loads nothing from elsewhere."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(KINDS):
                if wrong := outside(archive.read(name).decode()):
                    raise SystemExit(f"{name} names {wrong[0]}")
                found.append(name)
    static = [name.partition("explorer/static/")[2] for name in found]
    here = ROOT / "headwise" / "explorer" / "static"
    missing = {path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()} - set(static)
    if missing:
        raise SystemExit(f"the wheel lacks {', '.join(sorted(missing))}")
    return sorted(static)


def installed(wheel: Path, place: Path) -> Path:
    """The `headwise` of an environment with nothing but the wheel and what its extra `explore` asks for."""
    venv.create(place, with_pip=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # torch first and alone: asked for by its exact version it is found as a CPU build where one lies ready
    subprocess.run([*pip, (ROOT / "constraints.txt").read_text().strip()], check=True)
    subprocess.run([*pip, f"headwise[explore] @ {wheel.as_uri()}"], check=True)
    return place / "bin" / "headwise"


@contextmanager
def exploring(headwise: Path, place: Path) -> Iterator[str]:
    """The address of an explorer of a tiny run; no program but those of the environment can be found by its name."""
    place.mkdir()
    (place / "pairs.tsv").write_text("".join(f"{a} and {b} .\t{b} und {a} .\n" for a in "abcdef" for b in "ghijk"))
    (place / "tiny.toml").write_text(RECIPE)
    told = {"cwd": place, "env": {"PATH": str(headwise.parent), "HOME": str(place), "OMP_NUM_THREADS": "1"}}
    if any(shutil.which(name, path=str(headwise.parent)) for name in ("node", "npm")):
        raise SystemExit(f"{headwise.parent} has node")
    train = [str(headwise), "train", "tiny.toml", "--run-folder", "run"]
    subprocess.run(train, check=True, stdout=subprocess.DEVNULL, **told)
    command = [str(headwise), "explore", "run", "--no-browser", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **told) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[2].rstrip(";")
        finally:
            process.terminate()


def attention_inputs(address: str) -> list[str]:
    """Opens every page that the explorer links to, with an input; returns their names."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page()
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("response", lambda answer: answer.status < 400 or wrong.append(f"{answer.status} {answer.url}"))
        page.on("request", lambda one: one.url.startswith((address, "data:", "blob:")) or wrong.append(one.url))
        page.goto(f"{address}#/attend?x=a+and+g+.")
        page.wait_for_selector("canvas.heat")
        paths = page.locator("nav a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
        for path in paths:
            page.goto(address + path)
            page.reload()
            page.wait_for_selector("html[data-shell]")
            page.wait_for_selector("main > *")
            page.wait_for_load_state("networkidle")
        browser.close()
    if wrong:
        raise SystemExit("\n".join(wrong))
    return [path.partition("?")[0] for path in paths]


def main() -> None:
    """Says what was done, or ends with what is wrong."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    if shutil.which("chromium") is None:
        raise SystemExit("there is no chromium to open the pages in")
    # what it installs and runs knows nothing of this tree
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        wheel = built(place)
        static = pages_of(wheel)
        headwise = installed(wheel, place / "venv")
        with exploring(headwise, place / "runs") as address:
            for one in static:
                with urllib.request.urlopen(f"{address}static/{one}") as answer:
                    assert answer.status == 200, one
            opened = looked_at(address)
        page = place / "page.html"
        saved = [str(headwise), "explain", str(place / "runs" / "run"), "a and g .", "--html", str(page)]
        subprocess.run(saved, check=True, stdout=subprocess.DEVNULL)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(static)} static files served")
        print(f"pages opened: {', '.join(opened)}; one saved, {page.stat().st_size / 1e3:,.0f} KB")


if __name__ == "__main__":
    main()
