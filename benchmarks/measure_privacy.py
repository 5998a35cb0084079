"""Measure how long one accounting query, a calibration, a ledger and a plan take at the paper's MNIST size.

    python benchmarks/measure_privacy.py --out benchmarks/results/privacy.json

Needs no data set and no torch. Each query is timed once, with nothing cached, after the libraries are imported.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dp_accounting.pld
import dp_accounting.rdp  # noqa: F401 - here, so that no query waits for it

from airmixml import Scenario, __version__
from airmixml.doors import ACCOUNTANTS
from airmixml.planning.plan import InputMoments, make_plan
from airmixml.privacy import Ledger, state_privacy
from airmixml.privacy.mechanism import accountant_named
from airmixml.radio.draws import AirSetting, draw_blocks
from airmixml.radio.privacy_target import adversary_named, planned_design, private_received_watts, sensitivity_of
from airmixml.radio.rehearsal import placed_distances
from results_file import show_and_write

MNIST = Scenario.preset("paper-mnist")


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return round(time.perf_counter() - started, 3)


def queries() -> dict[str, float]:
    sensitivity = sensitivity_of(MNIST, 784, 10)
    design = planned_design(MNIST, sensitivity, received_watts=private_received_watts(MNIST, sensitivity))
    taken = {}
    for adjacency in ("replace-one", "remove-one"):
        for name in ("release", "server"):
            adversary = adversary_named(name, MNIST)
            for accountant in ACCOUNTANTS.own:
                if accountant_named(accountant).refusal(adversary.mechanism(design, adjacency)):
                    continue
                taken[f"{name}, {accountant}, {adjacency}"] = seconds(
                    lambda a=adversary, b=accountant, c=adjacency: state_privacy(design, a, b, adjacency=c, delta=0.01)
                )
    return taken


def calibrations() -> dict[str, float]:
    targets = (("release", "paper-loose"), ("release", "rdp"), ("release", "pld"), ("server", "gdp"))
    taken = {}
    for adversary, accountant in targets:
        scenario = MNIST.with_overrides(
            f"privacy.adversary={adversary}", f"privacy.accountant={accountant}", "privacy.epsilon=9"
        )
        taken[f"{adversary}, {accountant}"] = seconds(
            lambda each=scenario: private_received_watts(each, sensitivity_of(each, 784, 10))
        )
    return taken


def ledger() -> dict[str, float]:
    setting = AirSetting.of(MNIST, 784, 10, placed_distances(MNIST))
    draws = [each.numpy() for each in draw_blocks(setting, 2048, noise=False)]
    kept = Ledger(MNIST.workers.count)

    def add_all() -> None:
        for each in draws:
            kept.add(each.scheduled_workers, each.ratios, each.power_scale_watts)

    noise_watts = 10**-14.4
    return {
        "adding 100,000 slots of 64": seconds(add_all),
        "epsilon of 60,000 workers": seconds(
            lambda: kept.epsilons(noise_watts=noise_watts, sensitivity=794.0, delta=0.01)
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    moments = InputMoments(mean=0.212, deviation=0.259)
    result = {
        "command": "python benchmarks/" + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "airmixml": __version__,
        "device": f"cpu, {os.cpu_count()} cores",
        "platform": platform.machine(),
        "query_seconds": queries(),
        "calibration_seconds": calibrations(),
        "ledger_seconds": ledger(),
        "plan_seconds": {
            "paper-loose": seconds(lambda: make_plan(MNIST, 784, 10, moments)),
            "pld": seconds(lambda: make_plan(MNIST.with_overrides("privacy.accountant=pld"), 784, 10, moments)),
        },
    }
    show_and_write(result, options.out)


if __name__ == "__main__":
    main()
