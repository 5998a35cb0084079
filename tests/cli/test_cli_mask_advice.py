"""Where gain errors leave much of masks, run, account and plan say so in one line; elsewhere they do not."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from airmixml import Scenario
from airmixml.planning.expected_signal import InputMoments
from airmixml.planning.plan import make_plan
from airmixml.planning.plan_page import plan_page

FEW = ("workers.count=400", "radio.scheduled=400")
# 1 + sqrt(400) g: with 10 % of complex error, of which 7.1 % are in phase, 2.4 times; with 1 % 1.14 times.
MUCH, LITTLE = "air.reciprocity_nmse_db=-20", "air.reciprocity_nmse_db=-40"
PARTS = ("times the noise of exact gains", "use integers over a digital link")


def words_of(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("command", [("run",), ("account", "--no-picture", "--brief")], ids=lambda each: each[0])
def test_commands(airmix: Callable[..., CompletedProcess[str]], command: tuple[str, ...]) -> None:
    settings = [word for each in (*FEW, MUCH) for word in ("--set", each)]
    done = airmix(command[0], "--preset", "trustless-iris", *settings, *command[1:])
    assert done.returncode == 0, done.stderr
    assert all(part in words_of(done.stdout) for part in PARTS)


@pytest.mark.parametrize(("error", "much"), [(MUCH, True), (LITTLE, False)])
def test_plans(error: str, much: bool) -> None:
    scenario = Scenario.preset("trustless-iris").with_overrides(*FEW, error)
    plan = make_plan(scenario, 5, 3, InputMoments(mean=0.5, deviation=0.2), alternatives=False)
    assert plan.masks is not None
    assert plan.masks.times_the_noise == pytest.approx(2.41 if much else 1.14, rel=0.06)  # of 512 drawn gains
    assert (PARTS[1] in plan_page(plan.to_dict(), scenario).to_markdown()) is much


@pytest.mark.parametrize(
    ("command", "settings", "told"),
    [
        (("account", "--no-picture", "--brief"), ("air.preset=lab",), True),
        (("account", "--no-picture", "--brief"), (), False),
        (("account", "--no-picture", "--brief"), ("air.preset=lab", "privacy.adversary=everyone"), False),
        (("plan", "--no-picture"), ("air.preset=lab",), True),
        (("run",), ("air.preset=lab",), True),
    ],
)
def test_noise_of_others_that_does_not_count_is_said(
    airmix: Callable[..., CompletedProcess[str]], command: tuple[str, ...], settings: tuple[str, ...], told: bool
) -> None:
    """Of 400 workers each is hidden by its own noise alone: the sum has sqrt(400) = 20 times the noise."""
    chosen = (*FEW, "privacy.noise=workers", "privacy.adversary=server", *settings)
    words = [word for each in chosen for word in ("--set", each)]
    done = airmix(command[0], "--preset", "trustless-iris", *words, *command[1:])
    assert done.returncode == 0, done.stderr
    said = words_of(done.stdout)
    assert ("hidden by its own noise alone, and the sum has 20 times the noise of exact gains" in said) is told
    assert ("more strongly than the noise of the 399 others" in said) is told
