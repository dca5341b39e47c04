"""A file from an address: within limits, checked by its digest, in its place only when it is whole."""

import hashlib
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol, runtime_checkable

from headwise.errors import ConfigError, DataError
from headwise.files import replacing

SCHEMES = ("https", "http", "file")
BLOCK_BYTES = 1 << 18
_BY_HAND = "try again, or fetch it by other means"
# a server that is silent for so long is given up
SILENCE_S = 30.0
LIMIT_S = 3600.0
_LONGEST_LENGTH = 20


@runtime_checkable
class Answer(Protocol):
    """What a server gives, or a file."""

    def read(self, amount: int, /) -> bytes: ...

    def close(self) -> None: ...


# told the bytes that are there and, where the server says so, how many there will be
Progress = Callable[[int, int | None], None]


def download(
    url: str,
    path: Path,
    *,
    digest: tuple[str, str] | None = None,
    max_bytes: int,
    limit_s: float = LIMIT_S,
    progress: Progress | None = None,
) -> None:
    """Writes what an address gives to `path`; what breaks off leaves nothing there, and begins anew the next time.

    Args:
        digest: name of the algorithm, such as "sha256", and the expected digest as hexadecimal text; None: unchecked.
        limit_s: seconds for the whole file; besides, a server that is silent for 30 seconds is given up.
    Raises:
        ConfigError: another kind of address.
        DataError: no answer, an error for an answer, less or more than was announced, another digest.
        OSError: the disk is full, or the folder cannot be written.
    """
    if urllib.parse.urlsplit(url).scheme not in SCHEMES:
        raise ConfigError(f"'{url}' is no address that can be fetched; it must start with {', '.join(SCHEMES)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    hasher = hashlib.new(digest[0] if digest else "sha256")
    with replacing(path) as temporary, temporary.open("xb") as out, closing(_answer(url)) as answer:
        total = _announced(answer, url)
        if total is not None and total > max_bytes:
            raise DataError(f"{url}: {total:,} bytes are announced, more than the {max_bytes:,} that are allowed")
        ends, done = time.monotonic() + limit_s, 0
        while block := _block(answer, url):
            done += len(block)
            if done > max_bytes:
                raise DataError(f"{url}: gives more than the {max_bytes:,} bytes that are allowed")
            if time.monotonic() > ends:
                raise DataError(f"{url}: took longer than {limit_s:,.0f} s ({done:,} bytes came); try again later")
            hasher.update(block)
            out.write(block)
            if progress is not None:
                progress(done, total)
        if total is not None and done != total:
            raise DataError(f"{url}: broke off after {done:,} of {total:,} bytes; run the same command again")
        if digest is not None and hasher.hexdigest() != digest[1]:
            raise DataError(
                f"{url}: its {digest[0]} is {hasher.hexdigest()}, not {digest[1]}: changed at its source, or damaged "
                "on the way; nothing was kept; try again, or find the original file"
            )


def _answer(url: str) -> Answer:
    request = urllib.request.Request(url, headers={"User-Agent": "headwise", "Accept-Encoding": "identity"})
    try:
        answer: Answer = urllib.request.urlopen(request, timeout=SILENCE_S)
    except urllib.error.HTTPError as error:
        with error:
            reason = " ".join(str(error.reason).split())
            raise DataError(f"{url}: answers {error.code} {reason}; {_BY_HAND}") from None
    except (urllib.error.URLError, OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise DataError(f"{url}: cannot be reached ({why}); {_BY_HAND}") from None
    return answer


def _block(answer: Answer, url: str) -> bytes:
    try:
        return answer.read(BLOCK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{url}: broke off ({error or type(error).__name__}); {_BY_HAND}") from None


def _announced(answer: Answer, url: str) -> int | None:
    headers = getattr(answer, "headers", None)
    length = None if headers is None else headers.get("Content-Length")
    if length is None or not length.isdecimal():
        return None
    # Python reads no number of more digits than some thousands
    if len(length) > _LONGEST_LENGTH:
        raise DataError(f"{url}: announces a length of {len(length):,} digits; {_BY_HAND}")
    return int(length)
