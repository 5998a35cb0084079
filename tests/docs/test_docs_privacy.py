"""docs/privacy.md: every command prints what is shown or linked, and every number in the text is among that."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
# What the page links to instead: a command, and the lines below it.
LINKED = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in re.findall(r"\]\((accounts/\w+\.txt)\)", TEXT)]
NUMBER = re.compile(r"(?<![\w.^])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w^])")
# Formulas, orders and counts of words: not results.
NOT_RESULTS = {"0", "1", "2", "512"}


def shown() -> list[tuple[str, str]]:
    """Each command with the lines shown below it."""
    pairs: list[tuple[str, list[str]]] = []
    for line in "".join(BLOCKS + LINKED).splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], []))
        else:
            pairs[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in pairs if lines]


def test_every_command_has_an_output_shown_or_linked() -> None:
    commands = re.findall(r"^\$ (.+)$", "".join(BLOCKS), re.MULTILINE)
    assert sorted(commands) == sorted(command for command, _ in shown())


def numbers(text: str) -> set[str]:
    return {number.replace(",", "").rstrip(".") for number in NUMBER.findall(text)}


@pytest.mark.parametrize(("command", "output"), shown(), ids=range(len(shown())))
def test_a_command_prints_what_is_shown(
    command: str, output: str, airmix_in: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    name, *arguments = shlex.split(command)
    assert name == "airmix"
    done = airmix_in(*arguments, cwd=tmp_path, columns=80)
    printed = done.stdout if done.returncode == 0 else done.stderr
    assert "\n".join(line.rstrip() for line in printed.rstrip().splitlines()) == output


def test_every_number_in_the_text_is_printed_by_a_command() -> None:
    prose = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    printed = numbers("".join(BLOCKS + LINKED)) | NOT_RESULTS
    assert len(numbers(prose)) > 10
    assert numbers(prose) - printed == set()


@pytest.mark.record
def test_what_the_text_says_of_plans() -> None:
    cases = json.loads((ROOT / "benchmarks/results/plan_check.json").read_text(encoding="utf-8"))["cases"]
    behind = [-case["ahead_points"] for case in cases if case["ahead_points"] < 0]
    assert (len(cases), len(behind)) == (8, 1)
    assert max(behind) < 1.0
    for case in cases:
        recommended, *others = case["at_once"]
        assert "workers.label_weight=1.0" in recommended["changes"]
        assert recommended["error_percent"] < min(each["error_percent"] for each in others) + 0.05
