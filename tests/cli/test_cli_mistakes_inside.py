"""More mistakes, in this process: the same entry point, without the seconds that a process takes to import torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airmixml.cli.main import main

IRIS = ("run", "--preset", "paper-iris", "--set", "radio.slots=20", "--set", "learner.epochs=1")
Refused = Callable[..., str]


@pytest.fixture
def refused_inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Refused:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["airmix", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (2, "")
        assert err.startswith("airmix: error: ")
        assert err.count("\n") == 1, err
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return call


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta", "cuda:-1", "cuda:99999999999999999999", "mps", "cpu0"])
def test_devices_that_are_not_there(refused_inside: Refused, device: str) -> None:
    assert f"device = '{device}'" in refused_inside(*IRIS, "--device", device)


@pytest.mark.parametrize("out", [".", "..", "/", "", "x.partial"])
def test_out_folders_that_cannot_be(refused_inside: Refused, out: str) -> None:
    refused_inside(*IRIS, "--out", out)
    refused_inside(*IRIS, "--out", out, "--force")


def test_an_out_folder_that_cannot_be_written(refused_inside: Refused) -> None:
    line = refused_inside(*IRIS, "--out", "/proc/airmix/run")
    assert "cannot be written" in line
    assert "free space" not in line


def test_a_convolution_without_images(refused_inside: Refused) -> None:
    line = refused_inside(*IRIS, "--set", "learner.model=cnn", "--out", "a/b/c")
    assert 'learner.model = "cnn": needs images' in line


def test_force_without_out(refused_inside: Refused) -> None:
    assert "--force" in refused_inside(*IRIS, "--force")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--out", "n" * 300),
        ("--out", "new/" + "n" * 300),
        ("--set", "name=" + "n" * 300),
        ("--block-slots", "-1"),
        ("--threads", "-1"),
        ("--threads", "5000"),
        ("--set", "radio.slots=1000000000000"),
        ("--set", "workers.dataset=missing.csv"),
        ("--set", "workers.dataset=~no-such-user/data.csv"),
        ("--set", "workers.dataset=" + "n" * 5000 + ".csv"),
        ("--set", "workers.dataset=iriss"),
        ("--set", "workers.train_samples=150"),
        ("--set", "mixing.prior=0.5,0.5"),
        ("surplus", "--json"),
        ("--seeds", "two"),
        ("--seed", "-1"),
        ("--seed", "9223372036854775808"),
        ("--set", "radio.slots=many"),
        ("--set", "radio.slots"),
        ("--nothing",),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_other_mistakes(refused_inside: Refused, arguments: tuple[str, ...]) -> None:
    refused_inside(*IRIS, *arguments)


def test_more_workers_than_fit_into_memory(refused_inside: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of 8 GB, whatever this one has."""
    monkeypatch.setattr("airmixml.workers.population.physical_memory_bytes", lambda: 8 * 10**9)
    assert "of this machine" in refused_inside(*IRIS, "--set", "workers.count=1000000000")


@pytest.mark.parametrize("dataset", ["iris", "digits"])
def test_a_network_that_fits_no_memory(refused_inside: Refused, dataset: str) -> None:
    """Weights of 4 and 3.6 terabytes."""
    model = {
        "iris": ("learner.hidden_units=1000000,1000000",),
        "digits": (
            "learner.model=cnn",
            "learner.kernel_size=3",
            "learner.filters=100000",
            "learner.hidden_units=1000000",
        ),
    }
    overrides = (f"workers.dataset={dataset}", "workers.train_samples=0", *model[dataset])
    assert "memory" in refused_inside(*IRIS, *(f"--set={assignment}" for assignment in overrides))


def test_memory_that_runs_out_half_way(refused_inside: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU torch raises a RuntimeError whose words depend on the processor."""
    import torch

    monkeypatch.setattr("airmixml.runs.run", lambda *_scenario, **_options: torch.empty(2**50, dtype=torch.uint8))
    assert "not enough memory" in refused_inside(*IRIS)


def test_a_data_set_that_is_no_file_is_not_read(refused_inside: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no end fills the memory; the name alone says that it is no data set."""
    read = Path.read_bytes

    def read_no_device(path: Path) -> bytes:
        assert not path.is_char_device(), f"reads {path}"
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_no_device)
    assert "must be iris, digits, mnist" in refused_inside(*IRIS, "--set", "workers.dataset=/dev/zero")


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_force_replaces_only_run_folders(refused_inside: Refused, tmp_path: Path, kind: str) -> None:
    taken, precious = tmp_path / "taken", tmp_path / "elsewhere" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("precious")
    if kind == "link":
        taken.symlink_to(precious.parent)
    elif kind == "folder":
        precious = precious.parent.rename(taken) / "thesis.txt"
    else:
        precious = precious.rename(taken)
    assert "taken: exists" in refused_inside(*IRIS, "--out", "taken")
    assert "not a run folder" in refused_inside(*IRIS, "--out", "taken", "--force")
    assert precious.read_text() == "precious"


def test_the_last_of_several_seeds_is_checked_before_the_first_is_run(refused_inside: Refused) -> None:
    assert "seed = 9223372036854775808" in refused_inside(*IRIS, "--seed", "9223372036854775807", "--seeds", "2")


def test_several_seeds_of_an_impossible_scenario_leave_nothing(refused_inside: Refused) -> None:
    assert "privacy.epsilon" in refused_inside(*IRIS, "--set", "privacy.epsilon=1", "--seeds", "3", "--out", "a/b")


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (("workers.encoder=projection", "workers.features=100000"), "workers.features = 100000"),
        (("workers.encoder=projection", "workers.features=1000", "workers.sends=moments"), "workers.features = 1000"),
        (("workers.encoder=clip", "workers.sends=moments"), 'workers.sends = "moments"'),
    ],
    ids=["features", "products of features", "products of inputs"],
)
def test_features_and_products_that_fit_no_memory(
    refused_inside: Refused, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], key: str
) -> None:
    """Digits on a machine of 1 MB; 1,797 samples of 1,000 features alone take 7. Nothing is computed before."""
    monkeypatch.setattr("airmixml.workers.loading.physical_memory_bytes", lambda: 10**6)
    monkeypatch.setattr("airmixml.workers.loading.encode", lambda *_arguments, **_options: pytest.fail("encoded"))
    digits = ("workers.dataset=digits", "workers.train_samples=0", "learner.model=ridge", "radio.slot_seconds=0")
    digits += ("workers.centre=own", "privacy.sensitivity=encoder")
    if "workers.sends=moments" in overrides:
        digits += ("workers.constant=0.5",)
    problem = refused_inside(*IRIS, *(f"--set={assignment}" for assignment in (*digits, *overrides)))
    assert key in problem
    assert "GB of memory" in problem
