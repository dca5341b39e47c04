"""Makes the pictures of README and docs anew: trains the phrasebook, opens the explorer, and draws.

python -m tools.pictures [RUN]
"""

import argparse
import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import headwise

IMAGES = Path(__file__).parents[1] / "docs" / "images"
RUN = Path("runs/phrasebook")
SENTENCE, LONGER = "i'm home .", "she wants a red apple ."
# name of the picture, address of the page, height of the window
PAGES = {
    "explorer-home": ("#/", 860),
    "explorer-attend": (f"#/attend?x={LONGER.replace(' ', '+')}", 760),
    "explorer-trace": (f"#/trace?x={LONGER.replace(' ', '+')}", 925),
    "explorer-links": (f"#/attend?x={LONGER.replace(' ', '+')}&v=links", 760),
}
WIDTH, COLOURS = 1280, 256


def main() -> None:
    """Trains what is not trained yet, and writes every picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, nargs="?", default=RUN, help="a run of the recipe phrasebook")
    run = parser.parse_args().run
    headwise.train("phrasebook", run)
    with explored(run) as address, sync_playwright() as library:
        browser = library.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        for name, (place, height) in PAGES.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": height})
            page.goto(f"{address}{place}")
            settle(page)
            save(page.screenshot(), IMAGES / f"{name}.png")
            page.close()
        browser.close()
    print(headwise.load(run).explain(SENTENCE).save(IMAGES / "im-home.png"))


@contextmanager
def explored(run: Path) -> Iterator[str]:
    """The address at which a run is shown."""
    command = [sys.executable, "-m", "headwise", "explore", str(run), "--no-browser", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[2].rstrip(";")
        finally:
            process.terminate()


def settle(page: Page) -> None:
    """Waits until nothing is asked for and the last picture is drawn."""
    page.wait_for_selector("html[data-shell]")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(2500)


def save(picture: bytes, path: Path) -> None:
    """A PNG with few colours, which a screenshot needs no more of."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)


if __name__ == "__main__":
    main()
