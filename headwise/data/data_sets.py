"""Public data sets by name: what the catalogue says of each, and how its files come into the data cache."""

import tempfile
import urllib.parse
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from pydantic import Field

from headwise.config import Config, build, read_toml
from headwise.data.archives import unpack
from headwise.data.download import Progress, download
from headwise.data.forms import FORMS, content_digest, copied
from headwise.errors import ConfigError, DataError, unknown
from headwise.files import replacing

# room for what wraps a file (headers of an archive, another release), and for what compressed text unpacks to
_SPARE = 4
_LEAST_BYTES = 64 << 20


class File(Config):
    """A file of a data set as recipes read it, and where it comes from."""

    name: str
    size_bytes: int = Field(gt=0)
    sha256: str = Field(description="of its content: what a .gz holds, the arrays of a .npz")
    url: str | None = None
    member: str | None = Field(None, description="what is taken out of the archive at the address; a folder: ends in /")
    form: str = "copied"


class DataSet(Config):
    """What is known of a data set."""

    title: str
    task: str
    home: str
    licence: str
    licence_url: str | None = None
    citation: str
    by_hand: str | None = Field(None, description="why it cannot be fetched, and what to do")
    moving: bool = Field(False, description="the address gives a newer release from time to time")
    download_bytes: int | None = Field(None, description="where more is downloaded than is kept")
    files: tuple[File, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def limit_bytes(self) -> int:
        """The most that is downloaded from an address, and the most that is unpacked for a file."""
        return _SPARE * (self.download_bytes or self.size_bytes) + _LEAST_BYTES


def folder() -> Path:
    """Where the catalogue lies: a file for each data set."""
    return Path(str(resources.files("headwise.data"))) / "catalogue"


def names() -> list[str]:
    """The data sets of the catalogue, in alphabetical order."""
    return sorted(path.stem for path in folder().glob("*.toml"))


def find(name: str) -> DataSet:
    """What the catalogue says of a data set.

    Raises: ConfigError with the nearest name where there is none of this one.

    >>> find("cora").files[0].name
    'cora.npz'
    """
    if name not in names():
        raise ConfigError(unknown("data set", name, names()))
    path = folder() / f"{name}.toml"
    return build(DataSet, read_toml(path), str(path))


def state(data: DataSet, place: Path) -> str:
    """Whether the files are there: "there", "missing", or "partly"; their content is not looked at."""
    present = [(place / file.name).is_file() for file in data.files]
    return "there" if all(present) else "partly" if any(present) else "missing"


def fetch(
    data: DataSet, place: Path, given: Path | None = None, progress: Progress | None = None
) -> Iterator[tuple[Path, str]]:
    """Puts the files of a data set into a folder; yields each path and what became of it: "there" or "fetched".

    A file whose content is right is left alone. What an address gives is downloaded beside the folder, unpacked,
    brought into the form that recipes read, checked, and put in its place in one step.

    Args:
        given: a folder of what the addresses give, under the last part of each address; what is there is not
            downloaded.
    Raises:
        DataError: a file that is there has another content; the data set has to be fetched by hand; a download failed
            or is not what it was.
    """
    missing = []
    for file in data.files:
        if (place / file.name).is_file():
            _check(place / file.name, file, data.moving, "remove it to fetch it again")
            yield place / file.name, "there"
        else:
            missing.append(file)
    if missing and data.by_hand is not None:
        raise DataError(f"{place / missing[0].name}: is not there, and cannot be fetched: {data.by_hand}")
    for url in dict.fromkeys(file.url for file in missing if file.url is not None):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=place.parent) as work:
            source = _source(data, url, Path(work), given, progress)
            for file in (entry for entry in missing if entry.url == url):
                _put(file, data, source, place, Path(work))
                yield place / file.name, "fetched"


def _source(data: DataSet, url: str, work: Path, folder: Path | None, progress: Progress | None) -> Path:
    name = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name
    if folder is not None and (folder / name).is_file():
        return folder / name
    try:
        download(url, work / name, max_bytes=data.limit_bytes, progress=progress)
    except DataError as error:
        raise DataError(f"{error}; --from FOLDER takes {name} from a folder") from None
    return work / name


def _put(file: File, data: DataSet, source: Path, place: Path, work: Path) -> None:
    if file.member is not None:
        member = file.member
        inside = Path(tempfile.mkdtemp(dir=work))
        # the outermost folder of an archive of a repository is named after a commit
        members = unpack(source, inside, chosen=lambda name: _is_in(member, name), max_bytes=data.limit_bytes)
        if not members:
            raise DataError(f"{file.url}: no '{member}' in it; the archive has changed; see {data.home}")
        source = inside if member.endswith("/") else members[0]
    output = work / f"made-{file.name}"
    FORMS[file.form](source, output)
    _check(output, file, data.moving, f"the original may have changed: see {data.home}")
    place.mkdir(parents=True, exist_ok=True)
    with replacing(place / file.name) as temporary:
        copied(output, temporary)


def _is_in(member: str, name: str) -> bool:
    """Whether a member of an archive is the one that is wanted, or in the folder that is."""
    return f"/{member}" in f"/{name}" if member.endswith("/") else f"/{name}".endswith(f"/{member}")


def _check(path: Path, file: File, moving: bool, advice: str) -> None:
    digest = content_digest(path)
    if digest != file.sha256 and not moving:
        raise DataError(f"{path}: its content has SHA-256 {digest}, expected {file.sha256}; {advice}")
