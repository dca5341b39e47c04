"""The book's data files by name: downloaded once into the data folder, checked, and unpacked."""

import gzip
import os
import shutil
import tempfile
import zlib
from pathlib import Path

from headwise.data.archives import unpack
from headwise.data.download import download as fetched
from headwise.data.files import data_cache
from headwise.errors import ConfigError, DataError, unknown
from headwise.files import replacing
from headwise.textbook.data import FRA_ENG

DATA_URL = "http://d2l-data.s3-accelerate.amazonaws.com/"
# name: address and SHA-1; a page adds its own
DATA_HUB: dict[str, tuple[str, str]] = {
    "fra-eng": (f"{DATA_URL}fra-eng.zip", "94646ad1522d915e7b0f9296181140edcf86a4f5")
}
MAX_BYTES = 1 << 30


def download(name: str, cache_dir: str | os.PathLike[str] | None = None) -> str:
    """The path of a file of `DATA_HUB`, which is downloaded where it is not there yet.

    Args:
        cache_dir: None: the data folder, which `HEADWISE_DATA` names.
    Raises:
        ConfigError: no such name.
        DataError: it cannot be downloaded, or is not what it was; see `headwise.data.download`.
    """
    if name not in DATA_HUB:
        raise ConfigError(unknown("file of DATA_HUB", name, DATA_HUB))
    url, sha1 = DATA_HUB[name]
    path = Path(cache_dir or data_cache()) / url.rpartition("/")[2]
    if not path.exists():
        try:
            fetched(url, path, digest=("sha1", sha1), max_bytes=MAX_BYTES)
        except DataError as error:
            raise DataError(f"{error}; put it at {path}") from None
    return str(path)


def download_extract(name: str, folder: str | None = None) -> str:
    """The folder of an archive of `DATA_HUB`, which is downloaded and unpacked where it is not there yet.

    Where the data folder has the sentence pairs of `headwise data fetch tatoeba-en-fr`, those of "fra-eng" are made
    from them.

    Args:
        folder: a folder inside the archive; None: that of the archive's name.
    Raises:
        ConfigError: no such name.
        DataError: as `download`; an archive that cannot be trusted.
    """
    home = data_cache() / (folder or name)
    # an empty folder is what an attempt that failed has left
    if home.is_dir() and any(home.iterdir()):
        return str(home)
    if name == "fra-eng" and (data_cache() / FRA_ENG).is_file():
        _pairs_of(data_cache() / FRA_ENG, home)
        return str(home)
    archive = Path(download(name))
    with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=archive.parent) as work:
        unpack(archive, Path(work))
        # an archive has its folder inside, or is that folder
        inside = Path(work) / home.name
        if home.is_dir():
            home.rmdir()
        shutil.move(inside if inside.is_dir() else work, home)
        Path(work).mkdir(exist_ok=True)
    return str(home)


def _pairs_of(file: Path, home: Path) -> None:
    """Unpacks the sentence pairs into a folder. Raises: DataError for a damaged file."""
    home.mkdir(exist_ok=True)
    try:
        with gzip.open(file) as pairs, replacing(home / "fra.txt") as temporary, temporary.open("xb") as out:
            shutil.copyfileobj(pairs, out)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{file}: is damaged or cut off ({error}); fetch it again") from None
