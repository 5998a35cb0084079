"""Fetching by processes of their own: killed half-way, and two at once."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_mnist
from tiny_mnist import CONTENT, mirror

from airmixml.data.mnist import MNIST_FILES

LAST_RESORT_SECONDS = 600
FETCH = """
import os, sys
sys.path.insert(0, {tests!r})
import tiny_mnist
from airmixml.data.mnist import MNIST_FILES
MNIST_FILES.files = tiny_mnist.FILES
MNIST_FILES.mirrors = ({address!r},)
{before}
MNIST_FILES.fetch(MNIST_FILES.folder, replace_broken=True)
"""


def start(address: str, before: str = "") -> subprocess.Popen[bytes]:
    code = FETCH.format(tests=str(Path(__file__).parent), address=address, before=before)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE)


def whole_looking(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name in CONTENT]


@pytest.mark.usefixtures("tiny")
def test_a_download_killed_half_way_leaves_nothing_that_looks_whole(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_sent = threading.Event()
    killed = threading.Event()

    def stall(name: str) -> tuple[int, Iterator[bytes], int]:
        body = gzip.compress(CONTENT[name])

        def halves() -> Iterator[bytes]:
            yield body[: len(body) // 2]
            half_sent.set()
            killed.wait(LAST_RESORT_SECONDS)
            yield body[len(body) // 2 :]

        return 200, halves(), len(body)

    with mirror(stall) as (address, _):
        process = start(address)
        assert half_sent.wait(LAST_RESORT_SECONDS)
        process.kill()
        process.communicate()
        killed.set()
    assert process.returncode != 0
    assert whole_looking(cache) == []
    with mirror() as (address, _):
        monkeypatch.setattr(MNIST_FILES, "mirrors", (address,))
        obtained = MNIST_FILES.fetch(cache, replace_broken=True)
    assert [entry.content for entry in obtained] == list(CONTENT.values())


def test_a_process_that_dies_while_writing_leaves_nothing_that_looks_whole(cache: Path) -> None:
    with mirror() as (address, _):
        process = start(address, before="os.replace = lambda *_: os._exit(17)")
        process.communicate(timeout=LAST_RESORT_SECONDS)
    assert process.returncode == 17
    assert whole_looking(cache) == []
    assert len(list(cache.iterdir())) == 1  # so it did die with the file half made


def test_two_fetchers_at_once_both_succeed(cache: Path) -> None:
    both_ask = threading.Barrier(2)

    def together(name: str) -> tuple[int, bytes, int]:
        both_ask.wait(LAST_RESORT_SECONDS)
        return tiny_mnist.whole_answer(name)

    with mirror(together) as (address, asked):
        processes = [start(address) for _ in range(2)]
        errors = [process.communicate(timeout=LAST_RESORT_SECONDS)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert sorted(asked) == sorted([*CONTENT, *CONTENT])
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == CONTENT
