"""``airmix compare`` as a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from airmixml.cli.options import app
from airmixml.messages import RunFolderError

IRIS = ("compare", "--preset", "private-iris")


def test_one_json_object_with_rows(
    airmix: Callable[..., CompletedProcess[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = airmix(*IRIS, "--methods", "airmix,raw", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["method"] for row in result["rows"]] == ["airmix", "raw"]
    assert result["rows"][0]["privacy"][0]["adversary"] == "server"
    assert all((tmp_path / name).exists() for name in result["files"])
    # The same again in this process, and with other settings.
    monkeypatch.chdir(tmp_path)
    app([*IRIS, "--methods", "airmix,raw"], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "(2 results already finished)" in printed
    assert "compare.md" in printed
    assert "epsilon rests on" in printed
    assert result["verdict"] in " ".join(printed.split())
    with pytest.raises(RunFolderError, match="other settings"):
        app([*IRIS, "--methods", "raw", "--set", "privacy.epsilon=1"], standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--methods", "airmix,federatd"), ("--methods = 'federatd'", "did you mean federated?")),
        (("--set", "mixing.power=max"), ('mixing.power = "max"', "--set mixing.power=dp")),
        (("--seeds", "0"), ("seeds = 0", "at least 1")),
    ],
)
def test_mistakes_cost_one_line(refused: Callable[..., str], arguments: tuple[str, ...], said: tuple[str, ...]) -> None:
    line = refused(*IRIS, *arguments)
    for part in said:
        assert part in line


def test_each_channel_profile_has_a_folder_and_trust_is_always_shown(
    airmix: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    """80 characters: what an epsilon rests on is never left out."""
    for air, folder in ((), "compare-private-iris"), (("--air", "lab"), "compare-private-iris-lab"):
        done = airmix(*IRIS, "--methods", "airmix,raw", *air, columns=80)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "runs" / folder / "compare.png").exists()
        said = [" ".join(line.split()) for line in done.stdout.splitlines()]
        assert "method accuracy % epsilon against epsilon rests on" in said
        assert any(line.startswith("airmix 9") and line.endswith("receiver noise") for line in said)
        assert "not shown" not in done.stdout


def test_a_comparison_begins_with_what_keeps_the_target_and_crowns_no_tie(
    airmix: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    """Raw samples have no such epsilon; of the others one protects against everyone too, and they are hardly apart."""
    done = airmix(*IRIS, "--methods", "airmix,masked,raw")
    rows = {
        row["method"]: row
        for row in json.loads((tmp_path / "runs/compare-private-iris/compare.json").read_text())["rows"]
    }
    assert rows["raw"]["exposure"]["server"] > 5.001 > rows["masked"]["exposure"]["server"]
    told = {name: f"{name} ({100 * row['accuracy']['mean']:.2f} %)" for name, row in rows.items()}
    said = " ".join(done.stdout.split())
    assert said.startswith(
        "private-iris and its alternatives at epsilon 5, delta 0.01 against the server Within the target "
    )
    assert "are equal within chance" in said
    assert f"against everyone {told['masked']} is the only one (1 seed, 50 test rows; --seeds 10" in said
