"""Masked integers over digital links, as a process: the air decides who is absent, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Finished = subprocess.CompletedProcess[str]
Airmix = Callable[..., Finished]
PRESET = ("--preset", "trustless-digits-digital")


def metrics_of(done: Finished) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    plain: dict[str, Any] = json.loads(done.stdout)
    return plain


@pytest.mark.long
def test_a_run_on_a_bad_air_has_the_exact_sum(airmix: Airmix) -> None:
    """Phases, timing, converters and gains of the cheapest air leave what the ideal air gives, less absent workers."""
    some = ("--set", "air.absent=0.1", "--json")
    bad, good = (metrics_of(airmix("run", *PRESET, "--air", air, *some, "--out", air)) for air in ("low-cost", "ideal"))
    assert bad["air"]["preset"] == "low-cost"
    for name in ("accuracy", "air_seconds", "energy_joules", "link", "privacy", "ledger", "snr_db"):
        assert bad[name] == good[name], name
    assert bad["accuracy"]["final"] > 0.8
    assert bad["link"]["access_points"] == 6
    assert 60 < bad["ledger"]["slots_per_worker"]["silent"] < 180


@pytest.mark.long
def test_rounds_over_a_digital_link(airmix: Airmix) -> None:
    rounds = ("--set", "learner.rounds=4", "--json")
    plain = metrics_of(airmix("run", *PRESET, "--air", "line-of-sight", *rounds, "--out", "run"))
    assert plain["privacy"][0]["epsilon"] <= 10.0
    assert plain["accuracy"]["final"] > 0.9
    link, each = plain["link"], plain["rounds"]
    own = plain["air_seconds"] - 4 * each["seconds_per_round"]
    packets = link["packets_per_vector"]
    bits = (link["bits_per_vector"] + packets * 480) * link["expected_tries"]
    assert own == pytest.approx(200 * bits / 50e6, rel=1e-9)
    assert link["backhaul_bits"] == 6 * (link["bits_per_vector"] + 4 * each["symbols_per_round"])


@pytest.mark.long
def test_protection_and_a_ledger(airmix: Airmix) -> None:
    book = ("--ledger", "book.db")
    assert airmix("ledger", "create", "book.db", "--epsilon", "25", "--delta", "3e-5").returncode == 0
    plain = metrics_of(airmix("run", *PRESET, "--air", "campus", "--private", "--json", "--out", "one", *book))
    assert plain["mode"] == "protection"
    assert plain["link"]["packets_per_vector"] > 1
    assert plain["integers"]["bits"] >= 16
    assert {each["epsilon"] for each in plain["privacy"] if each["accountant"] == "gdp"} != {None}
    assert "energy_joules" not in plain  # who was absent is not told


def test_account_and_plan(airmix: Airmix) -> None:
    stated = metrics_of(airmix("account", *PRESET, "--air", "low-cost", "--json", "--no-picture"))
    exact = {each["adversary"]: each["epsilon"] for each in stated["statements"] if each["accountant"] == "gdp"}
    assert set(exact) == {"release", "server", "eavesdropper", "everyone"}
    assert max(exact.values()) == pytest.approx(min(exact.values()), rel=1e-10)
    planned = metrics_of(airmix("plan", *PRESET, "--air", "low-cost", "--json", "--no-picture"))
    assert planned["feasible"] is True
    assert planned["air"]["preset"] == "low-cost"
    link = planned["link"]
    assert planned["air_seconds"] == pytest.approx(200 * link["worker_seconds"], rel=1e-12)
    assert planned["worker_energy_joules"] == pytest.approx(0.1 * link["worker_seconds"], rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("privacy.arithmetic=real",), 'privacy.arithmetic = "real": must be "integers" for radio.link = "digital"'),
        (("privacy.noise=receiver",), 'privacy.noise = "receiver": must be "masked" or "workers"'),
        (("air.absent=0.3",), "privacy.most_absent = 0.15: 0.3 of the workers are absent on average"),
        (("link.packet_error=0.9",), "privacy.most_absent = 0.15: "),
        (("link.power_dbm=30",), "link.power_dbm = 30: must be at most radio.max_power_dbm = 23"),
        (("link.acess_points=3",), "link.acess_points: unknown key"),
    ],
)
def test_mistakes_get_one_line(refused: Callable[..., str], changes: tuple[str, ...], message: str) -> None:
    told = refused("run", *PRESET, *(word for each in changes for word in ("--set", each)))
    assert told.startswith(f"airmix: error: {message}"), told
