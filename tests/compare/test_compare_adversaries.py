"""Epsilon against each adversary: who rests on what, and that infinity survives files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.compare import Outcome, Work, choose_methods, compare_methods, load_methods
from airmixml.compare.comparison_page import adversaries_table, methods_table
from airmixml.compare.methods import Exposure
from airmixml.edge import learn
from airmixml.messages import PrivacyError
from airmixml.privacy import PrivacyStatement
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.scenario import Speed

IRIS = Scenario.preset("private-iris")


@pytest.fixture
def exposure(on_iris: Callable[[str], Outcome]) -> Callable[[str], Exposure]:
    return lambda name: on_iris(name).exposure


Exposed = Callable[[str], Exposure]


def test_what_rests_on_the_receiver_is_open_to_everyone(exposure: Exposed) -> None:
    ours = exposure("airmix")
    assert ours.server == pytest.approx(5.0, rel=1e-6)
    assert ours.everyone == math.inf
    assert ours.rests_on == "receiver noise"
    # The eavesdropper is 10 m from the loudest worker, which is heard far more strongly there than at the server.
    assert ours.eavesdropper is not None
    assert ours.eavesdropper > 1000.0


def test_over_the_air_methods_at_equal_energy_are_heard_alike(exposure: Exposed) -> None:
    ours = exposure("airmix")
    for other in map(exposure, ("airmix-rounds", "federated")):
        assert other.eavesdropper == pytest.approx(ours.eavesdropper, rel=1e-6)
        assert other.everyone == math.inf


@pytest.mark.parametrize("name", ["workers-noise", "local-dp"])
def test_noise_of_all_workers_hides_each_of_them_in_the_sum(name: str, exposure: Exposed) -> None:
    """Each adds what hides it alone; the sum has that of 2,000 workers: mu is smaller by the root of their number."""
    alone = exposure(name)
    assert alone.everyone == pytest.approx(5.0, rel=1e-6)
    assert alone.eavesdropper == pytest.approx(5.0, rel=1e-6)
    in_sum = gaussian_epsilon(gaussian_mu(5.0, 0.01) / math.sqrt(2000), 0.01)
    assert alone.server == pytest.approx(in_sum, rel=1e-4)
    assert alone.rests_on == "workers' noise"


@pytest.mark.parametrize("name", ["masked", "masked-rounds", "federated-masked"])
def test_masks_keep_the_target_against_everyone(name: str, exposure: Exposed) -> None:
    hidden = exposure(name)
    assert hidden.everyone == pytest.approx(5.0, rel=1e-6)
    assert hidden.server is not None
    # On the ideal air masks have a tenth of the loss: without them mu^2 is nine tenths.
    in_sum = gaussian_epsilon(math.sqrt(0.9) * gaussian_mu(5.0, 0.01), 0.01)
    assert hidden.server == pytest.approx(in_sum, rel=1e-3)
    assert hidden.server < in_sum  # the server's own receiver has noise too
    assert hidden.rests_on == "noise and masks"


def test_gradients_with_masks_carry_the_noise_that_hides_them() -> None:
    """R gradients of norm 1 from N workers: noise of deviation sqrt(R / 0.9) / mu in each sum, the receiver's aside."""
    masked, bare = (load_methods(name)[name].own_scenario(IRIS) for name in ("federated-masked", "federated"))
    assert masked is not None
    assert bare is not None
    dataset, population = Work(scenario=IRIS).load(masked.workers)
    report, bare_report = (
        learn(each, dataset=dataset, population=population).transmission.report for each in (masked, bare)
    )
    unit = math.sqrt(report.sensitivity.removal)  # a gradient of norm 1 is sent with that of the largest vector
    expected = unit * math.sqrt(100 / 0.9) / gaussian_mu(5.0, 0.01) / 2000
    assert math.sqrt(report.noise_variance) == pytest.approx(expected, rel=1e-3)
    assert report.energy_joules > 1e3 * bare_report.energy_joules


def test_the_same_run_is_not_made_twice() -> None:
    trustless = Scenario.preset("trustless-digits")
    chosen, left_out = choose_methods(None, trustless, Speed())
    assert {name: left_out[name] for name in ("masked", "masked-rounds", "federated-masked")} == {
        "masked": "the same as airmix",
        "masked-rounds": "the same as airmix-rounds",
        "federated-masked": "the same as federated",
    }
    assert "workers-noise" in chosen
    chosen, _ = choose_methods(None, IRIS, Speed())
    assert {"masked", "masked-rounds", "workers-noise", "federated-masked"} <= set(chosen)


def test_raw_samples_rest_on_the_receiver_whatever_the_scenario_asks() -> None:
    scenario = Scenario.preset("trustless-iris")
    outcome = load_methods("raw")["raw"].run(Work(scenario=scenario))
    assert outcome.privacy[0].adversary == "server"
    assert outcome.exposure is not None
    assert outcome.exposure.everyone == math.inf


@pytest.mark.parametrize("name", [pytest.param("dp-logistic", marks=pytest.mark.long), "adassp", "logistic"])
def test_a_curator_is_trusted(name: str, exposure: Exposed) -> None:
    central = exposure(name)
    assert (central.server, central.eavesdropper, central.everyone) == (math.inf, None, math.inf)


def test_where_nothing_can_be_stated_nothing_is_promised() -> None:
    def state(name: str) -> PrivacyStatement:
        raise PrivacyError(f"{name}: no")

    assert Exposure.of_statements(state, noise="receiver").server == math.inf


def test_the_worst_seed_counts() -> None:
    first = Exposure(server=1.0, eavesdropper=None, everyone=math.inf, rests_on="x")
    second = Exposure(server=2.0, eavesdropper=None, everyone=3.0, rests_on="x")
    assert Exposure.worst([first, second]) == Exposure(server=2.0, eavesdropper=None, everyone=math.inf, rests_on="x")


def test_tables_and_files(tmp_path: Path) -> None:
    methods = load_methods("airmix", "local-dp", "adassp")
    compare_methods(IRIS, methods, out=tmp_path / "out")
    kept = compare_methods(IRIS, methods, out=tmp_path / "out")  # as read from the files
    assert kept.kept == 3
    rows = {row[0]: row[1:4] for row in adversaries_table(kept.to_dict(), IRIS).rows}
    assert (rows["airmix"][0], rows["airmix"][2]) == ("5", "no guarantee")
    assert rows["local-dp"][1:] == ("5", "5")
    assert rows["adassp"] == ("no guarantee", "–", "no guarantee")
    rests = [row[-1] for row in methods_table(kept.to_dict()).rows]
    assert rests == ["receiver noise", "workers' noise", "trusted curator"]
    plain = {row["method"]: row for row in json.loads(json.dumps(kept.to_dict(), allow_nan=False))["rows"]}
    assert plain["airmix"]["exposure"]["everyone"] == "infinite"
    assert plain["adassp"]["exposure"]["eavesdropper"] is None
