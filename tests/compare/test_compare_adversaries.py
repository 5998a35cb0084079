"""Epsilon against each adversary: who rests on what, and that infinity survives files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.compare import Outcome, Work, compare_methods, load_methods
from airmixml.compare.adversaries import Exposure
from airmixml.compare.tables import adversaries_table, write_comparison
from airmixml.errors import PrivacyError
from airmixml.privacy import PrivacyStatement

IRIS = Scenario.preset("private-iris")


def exposure(name: str) -> Exposure:
    found = load_methods(name)[name].run(Work(scenario=IRIS)).exposure
    assert found is not None
    return found


def test_what_rests_on_the_receiver_is_open_to_everyone() -> None:
    ours = exposure("airmix")
    assert ours.server == pytest.approx(5.0, rel=1e-6)
    assert ours.everyone == math.inf
    assert ours.rests_on == "receiver noise"
    # The eavesdropper is 10 m from the loudest worker, which is heard far more strongly there than at the server.
    assert ours.eavesdropper is not None
    assert ours.eavesdropper > 1000.0


def test_over_the_air_methods_at_equal_energy_are_heard_alike() -> None:
    ours, federated = exposure("airmix"), exposure("federated")
    assert federated.eavesdropper == pytest.approx(ours.eavesdropper, rel=1e-6)
    assert federated.everyone == math.inf


@pytest.mark.parametrize("name", ["dp-logistic", "adassp", "logistic"])
def test_a_curator_is_trusted(name: str) -> None:
    central = exposure(name)
    assert (central.server, central.eavesdropper, central.everyone) == (math.inf, None, math.inf)


def test_where_nothing_can_be_stated_nothing_is_promised() -> None:
    def state(name: str) -> PrivacyStatement:
        raise PrivacyError(f"{name}: no")

    assert Exposure.of_receiver_noise(state).server == math.inf


def test_the_worst_seed_counts() -> None:
    first = Exposure(server=1.0, eavesdropper=None, everyone=math.inf, rests_on="x")
    second = Exposure(server=2.0, eavesdropper=None, everyone=3.0, rests_on="x")
    assert Exposure.worst([first, second]) == Exposure(server=2.0, eavesdropper=None, everyone=math.inf, rests_on="x")


def test_tables_and_files(tmp_path: Path) -> None:
    methods = load_methods("airmix", "local-dp", "adassp")
    compare_methods(IRIS, methods, out=tmp_path / "out")
    kept = compare_methods(IRIS, methods, out=tmp_path / "out")  # as read from the files
    assert kept.kept == 3
    rows = {row[0]: row[2:] for row in adversaries_table(kept).rows}
    assert rows["airmix"][0] == "5"
    assert rows["airmix"][2:] == ("inf", "receiver noise")
    assert rows["local-dp"] == ("5", "5", "5", "the worker's own noise")
    assert rows["adassp"] == ("inf", "–", "inf", "trust in the curator")
    write_comparison(kept)
    plain = {row["method"]: row for row in json.loads((tmp_path / "out" / "compare.json").read_text())["rows"]}
    assert plain["airmix"]["exposure"]["everyone"] == "infinite"
    assert plain["adassp"]["exposure"]["eavesdropper"] is None
    assert plain["local-dp"]["note"] == "15 rounds"
    assert "Epsilon against each adversary" in (tmp_path / "out" / "compare.md").read_text()


def test_a_method_of_another_package_need_not_say() -> None:
    privacy = load_methods("raw")["raw"].run(Work(scenario=IRIS)).privacy
    outcome = Outcome(accuracy=0.5, privacy=privacy)
    assert outcome.exposure is None
