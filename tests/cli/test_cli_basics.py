"""The commands that only print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import pytest

from airmixml import Scenario
from airmixml.registries import ACCOUNTANTS, ATTACKS, METHODS
from airmixml.registry import Registry

Airmix = Callable[..., subprocess.CompletedProcess[str]]


def test_version(airmix: Airmix) -> None:
    done = airmix("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"airmixml {version('airmixml')}\n", "")


def test_presets_as_a_table_and_as_json(airmix: Airmix) -> None:
    table = airmix("presets")
    assert table.returncode == 0
    assert all(name in table.stdout for name in ("paper-iris", "paper-mnist", "digits", "60,000 workers"))
    done = airmix("presets", "--json")
    presets = json.loads(done.stdout)["presets"]
    assert [preset["name"] for preset in presets] == [
        "digits",
        "paper-iris",
        "paper-mnist",
        "private-images",
        "private-iris",
        "private-mnist",
        "private-mnist-release",
        "private-mnist-rounds",
        "private-table",
        "trustless-digits",
        "trustless-digits-digital",
        "trustless-digits-rounds",
        "trustless-iris",
        "trustless-mnist",
        "trustless-mnist-digital",
        "trustless-mnist-rounds",
        "trustless-wine",
    ]
    assert all(preset["summary"] for preset in presets)


@pytest.mark.parametrize("name", ["paper-iris", "paper-mnist"])
def test_what_show_prints_is_the_preset(airmix: Airmix, name: str) -> None:
    done = airmix("show", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert Scenario.from_toml(done.stdout) == Scenario.preset(name)
    assert "# T, number of time slots" in done.stdout


def test_show_as_json(airmix: Airmix) -> None:
    assert json.loads(airmix("show", "digits", "--json").stdout) == Scenario.preset("digits").to_json()


def test_help_names_the_commands_and_every_option(airmix: Airmix) -> None:
    done = airmix("run", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    options = "--preset --set --seed --seeds --out --force --device --block-slots --threads --data-dir --json"
    assert all(option in done.stdout for option in options.split())


@pytest.mark.parametrize("command", ["run", "account", "plan", "compare", "attack"])
def test_every_command_explains_shared_options_in_the_same_words(airmix: Airmix, command: str) -> None:
    text = " ".join(airmix(command, "--help").stdout.split())
    assert "--set KEY=VALUE Change a key, such as privacy.epsilon=1; may be repeated." in text
    assert "--json Print one JSON object instead of tables." in text


@pytest.mark.parametrize(("command", "registry"), [("attack", ATTACKS), ("compare", METHODS), ("account", ACCOUNTANTS)])
def test_help_lists_the_names_of_the_registries(airmix: Airmix, command: str, registry: Registry) -> None:
    text = airmix(command, "--help").stdout.replace("\n", " ")
    assert ", ".join(registry.names).replace("-", "") in " ".join(text.split()).replace("- ", "").replace("-", "")


def test_no_command_at_all_is_answered_with_readable_help(airmix: Airmix) -> None:
    done = airmix()
    lines = (done.stdout + done.stderr).splitlines()
    assert "Traceback" not in done.stderr
    assert any(line.split()[:1] == ["run"] for line in lines), lines  # one command per line


def test_printing_commands_need_no_torch() -> None:
    code = "import airmixml.cli.options, sys; print([name for name in ('torch', 'matplotlib') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "airmixml", "show", "digits"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("airmix: error: ")
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_reader_that_goes_away_is_no_error_to_speak_of() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "airmixml", "show", "digits"],
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == ""


def test_a_closed_stdout_is_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m airmixml presets >&-"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


def test_a_group_without_a_command_prints_its_help(airmix: Airmix) -> None:
    done = airmix("data")
    assert any(line.split()[:1] == ["fetch"] for line in done.stdout.splitlines())
