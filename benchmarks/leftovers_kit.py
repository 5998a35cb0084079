"""Search what a process left behind for private rows: their cells, and digests of the file, of rows and of columns.

Patterns are compared by their first eight bytes, all at once, and then in full. Content of ZIP files, PNG pictures,
zlib streams of ledgers and base64 text is searched too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "blake2b", "blake2s")
CHECKSUMS = (zlib.crc32, zlib.adler32)
KEY = 8  # bytes by which all patterns are looked up
_HEX = re.compile(rb"(?<![0-9A-Za-z+/_-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{16,}(?![0-9A-Za-z+/_-])")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{64,}={0,2}")
_COMPRESSED = (b"PK\x03\x04", b"\x89PNG")


@dataclass
class Search:
    """What to look for, by the first bytes of it; ``add`` takes more."""

    patterns: dict[bytes, list[tuple[bytes, str, bool]]] = field(default_factory=dict)
    raw_checksums: dict[bytes, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path) -> Search:
        """Return the search for a CSV file with a header and numbers in all columns but the last."""
        search, content = cls(), path.read_bytes()
        lines = content.splitlines()
        texts = [line.split(b",")[:-1] for line in lines[1:]]
        values = np.array(texts, dtype=np.float64)
        search.add_digests("file", [content, content.rstrip()])
        search.add_digests("numbers", [kind(values).tobytes() for kind in (np.float64, np.float32)])
        for row, line in enumerate(lines[1:]):
            forms = [line, line + b"\n", values[row].tobytes(), values[row].astype(np.float32).tobytes()]
            search.add_digests(f"row {row}", forms)
        for check in CHECKSUMS:
            of_rows = [check(line) for line in lines[1:]]
            for row, pair in enumerate(pairwise(of_rows)):
                for order in "<>":
                    search.add(struct.pack(f"{order}2I", *pair), f"{check.__name__} of rows {row}, {row + 1}, raw")
        for row, cells in enumerate(texts):
            for text in cells:
                if len(text) >= KEY:
                    search.add(text, f"cell of row {row}")
        search.add_values(values)
        return search

    def add(self, pattern: bytes, what: str, *, word: bool = False) -> None:
        """Look for these bytes; as a ``word``, with no letter or digit beside it."""
        self.patterns.setdefault(pattern[:KEY], []).append((pattern, what, word))

    def add_values(self, values: np.ndarray) -> None:
        """Look for numbers as they lie in memory: each as float64, two neighbours as float32; shape rows, columns."""
        for row, numbers in enumerate(values):
            for order in "<>":
                for number in numbers[~np.isin(numbers, (0.0, 1.0))]:  # those are everywhere
                    self.add(struct.pack(f"{order}d", number), f"float64 of row {row}")
                for pair in pairwise(numbers):
                    if {*pair} & {0.0, 1.0}:
                        continue
                    self.add(struct.pack(f"{order}2f", *pair), f"float32 of row {row}")

    def add_digests(self, of: str, contents: Iterable[bytes]) -> None:
        """Look for the beginnings of digests of these contents: raw, hex, base64 and as whole numbers."""
        for content in contents:
            for name in HASHES:
                digest, what = hashlib.new(name, content).digest(), f"{name} of {of}"
                for raw in (digest, digest[::-1]):
                    self.add(raw[:KEY], what)
                    self.add(raw.hex()[:16].encode(), what)
                    self.add(raw.hex()[:16].upper().encode(), what)
                    self.add(base64.b64encode(raw)[:12], what)
                    self.add(base64.urlsafe_b64encode(raw)[:12], what)
                    self.add(str(int.from_bytes(raw))[:16].encode(), what)
            for check in CHECKSUMS:
                value, what = check(content), f"{check.__name__} of {of}"
                for text in (f"{value:08x}", f"{value:08X}", f"{value:010d}"):
                    self.add(text.encode(), what, word=True)
                if of == "file":
                    self.raw_checksums |= {struct.pack(f"{order}I", value): f"{what}, raw" for order in "<>"}

    def found_in(self, content: bytes) -> set[str]:
        """Return what of it is in the content."""
        found, keys = set(), self._keys
        for start in range(min(KEY, max(0, len(content) - KEY + 1))):
            windows = np.frombuffer(content, np.uint64, (len(content) - start) // KEY, start)
            nearest = keys[np.minimum(np.searchsorted(keys, windows), len(keys) - 1)]
            for place in np.flatnonzero(nearest == windows):
                at = start + KEY * int(place)
                for pattern, what, word in self.patterns[content[at : at + KEY]]:
                    beside = content[max(at - 1, 0) : at] + content[at + len(pattern) : at + len(pattern) + 1]
                    if content.startswith(pattern, at) and not (word and re.search(rb"[0-9A-Za-z]", beside)):
                        found.add(what)
        if not content.startswith(_COMPRESSED):
            found |= {what for raw, what in self.raw_checksums.items() if raw in content}
            found |= {f"hex text {text.decode()}" for text in _HEX.findall(content)}
        return found

    @property
    def _keys(self) -> np.ndarray:
        if getattr(self, "_sorted", None) is None or len(self._sorted) != len(self.patterns):
            self._sorted = np.sort(np.frombuffer(b"".join(self.patterns), np.uint64))
        return self._sorted

    def found_below(self, *folders: Path) -> dict[str, set[str]]:
        """Return what is in the files below the folders and in their names, by path."""
        found: dict[str, set[str]] = {}
        for folder in folders:
            for path in sorted(folder.rglob("*")):
                here = self.found_in(path.name.encode())
                if path.is_file() and not path.is_symlink():
                    for content in contents_of(path.read_bytes()):
                        here |= self.found_in(content)
                if here:
                    found[str(path.relative_to(folder))] = here
        return found


def contents_of(content: bytes, depth: int = 0) -> Iterator[bytes]:
    """Yield a file's content, and what is packed in it."""
    yield content
    if depth == 2:
        return
    if content.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for name in archive.namelist():
                    yield from contents_of(archive.read(name), depth + 1)
        except zipfile.BadZipFile:  # half of one
            pass
    if content.startswith(b"\x89PNG"):
        packed = b"".join(content[at.end() : at.end() + 4_000_000] for at in re.finditer(b"IDAT", content))
        yield from _unpacked(packed)
    if content.startswith(b"SQLite format 3"):
        for at in re.finditer(rb"z\x78[\x01\x5e\x9c\xda]", content):
            yield from _unpacked(content[at.start() + 1 :])
    for text in _BASE64.findall(content):
        try:
            yield from contents_of(base64.b64decode(text + b"=" * (-len(text) % 4)), depth + 1)
        except binascii.Error:
            continue


def _unpacked(content: bytes) -> Iterator[bytes]:
    try:
        yield zlib.decompressobj().decompress(content)
    except zlib.error:
        return
