"""Plans and accounts of workers that hide themselves: against runs, closed forms, and inverses written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from airmixml import Scenario, simulate
from airmixml.planning.account import account_scenario
from airmixml.planning.known_inputs import InputMoments
from airmixml.planning.plan import make_plan
from airmixml.planning.planned import Plan
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.radio.air import expected_noise
from airmixml.radio.masking import masking_of, with_masks_settled
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of

DIGITS = Scenario.preset("trustless-digits")
SYMBOLS = (65, 10)


def planned_variance(scenario: Scenario) -> float:
    watts = private_received_watts(scenario, sensitivity_of(scenario, *SYMBOLS))
    return expected_noise(scenario).total_watts / 2.0 / (watts * scenario.radio.scheduled**2)


@pytest.mark.parametrize(
    ("air", "changes", "within"),
    [
        ("ideal", (), 1e-6),
        ("ideal", ("privacy.noise=workers",), 1e-6),
        ("ideal", ("air.reciprocity_nmse_db=-35",), 0.15),
        ("ideal", ("air.dac_bits=7",), 0.15),
        ("ideal", ("air.absent=0.05",), 0.25),
        ("ideal", ("air.absent=0.05", "privacy.most_absent=0.09", "air.reciprocity_nmse_db=-40"), 0.15),
        ("ideal", ("radio.fading=rayleigh", "air.truncation_db=-10"), 0.25),
        ("ideal", ("radio.fading=rician", "radio.rician_k=3", "air.truncation_db=-8"), 0.25),
        ("lab", (), 0.15),
        ("line-of-sight", (), 0.3),
    ],
)
def test_the_noise_in_the_sum_is_that_of_runs(air: str, changes: tuple[str, ...], within: float) -> None:
    scenario = DIGITS.on_air(air).with_overrides(*changes)
    seeds = range(1 if within < 0.01 else 4)
    seen = np.mean([simulate(scenario.with_seed(seed)).report.noise_variance for seed in seeds])
    assert planned_variance(scenario) == pytest.approx(seen, rel=within)


def test_recovered_masks_of_absent_workers_leave_next_to_nothing() -> None:
    """Present workers carry N (1 - a) s^2, and dividing by their mean gain makes that N s^2 / (1 - a)."""
    scenario = DIGITS.with_overrides("air.absent=0.05", "privacy.most_absent=0.09")
    masking = masking_of(scenario)
    assert masking is not None
    watts = private_received_watts(scenario, sensitivity_of(scenario, *SYMBOLS))
    own = 1200 * masking.own_watts / (watts * 1200**2)
    seen = simulate(scenario).report.noise_variance
    assert seen == pytest.approx(own / 0.95, rel=0.15)  # 512 symbols of noise, and as many absent as chance decides


@pytest.fixture(scope="module")
def absent_plan() -> Plan:
    scenario = DIGITS.with_overrides("air.absent=0.05", "radio.max_power_dbm=10")
    return make_plan(scenario, *SYMBOLS, InputMoments(mean=0.3, deviation=0.3), alternatives=False)


def test_powers_are_those_of_a_run(absent_plan: Plan) -> None:
    scenario = DIGITS.with_overrides("air.absent=0.05", "radio.max_power_dbm=10")
    report = simulate(scenario).report.to_dict()
    assert absent_plan.power_dbm is not None
    assert absent_plan.masks is not None
    assert absent_plan.power_dbm.median == pytest.approx(report["power_dbm"]["median"], abs=0.3)
    assert absent_plan.energy_joules == pytest.approx(report["energy_joules"], rel=0.02)
    assert absent_plan.masks["farthest_dbm"] == pytest.approx(report["power_dbm"]["largest"], abs=0.5)
    assert absent_plan.masks["nearest_dbm"] < absent_plan.power_dbm.median < absent_plan.masks["farthest_dbm"] < 0.5


def test_recovery_is_advised_where_absent_workers_are_what_costs(absent_plan: Plan) -> None:
    masks = absent_plan.masks
    assert masks is not None
    assert masks["overrides"] == ("privacy.most_absent=0.09",)
    alone = DIGITS.with_overrides("air.absent=0.05", "radio.max_power_dbm=10")
    recovered = alone.with_overrides(*masks["overrides"])
    gain_db = 10 * math.log10(planned_variance(alone) / planned_variance(recovered))
    assert masks["gain_db"] == pytest.approx(gain_db, abs=0.1)
    costs = [each["noise_db"] for each in masks["costs"] if "colluders" in each["override"]]
    assert costs == sorted(costs)
    assert min(costs) > 0.0


def test_what_is_settled_is_the_same_scenario() -> None:
    for changes in ((), ("air.reciprocity_nmse_db=-40",), ("privacy.noise=workers",), ("radio.scheduled=20",)):
        scenario = DIGITS.with_overrides(*changes)
        settled = with_masks_settled(scenario)
        assert settled.privacy.above_thermal_db
        assert Scenario.from_toml(settled.to_toml()) == settled
        first, second = masking_of(scenario), masking_of(settled)
        assert first is not None
        assert second is not None
        assert second.hidden_watts == pytest.approx(first.hidden_watts, rel=1e-4)
        assert second.added_watts == pytest.approx(first.added_watts, rel=1e-4)


def test_more_colluders_than_assumed_cost_what_the_inverse_says() -> None:
    """On a complete graph without its colluders S has the eigenvalues s^2 and s^2 + n e^2."""
    scenario = DIGITS.with_overrides("radio.scheduled=30")
    account = account_scenario(scenario, *SYMBOLS)
    masking = masking_of(scenario)
    assert masking is not None
    assert masking.graph is not None
    assert masking.graph.complete
    found = {each.name.split()[0]: each.epsilons for each in account.what_if}
    (watts,) = account.design.received_watts
    for colluders in (0, 9):
        honest, own, pair = 30 - colluders, masking.own_watts, masking.pair_watts
        exact = 1.0 / (honest * own) + (1.0 - 1.0 / honest) / (own + honest * pair)
        # The bound that is stated is above the inverse, and close to it.
        stated = gaussian_mu(found[str(colluders)]["everyone"], 1e-5) ** 2
        assert 1.0 <= stated / (watts * 1.25 * exact) < 1.1
    assert found["0"]["everyone"] == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize("colluders", [0, 20])
def test_colluders_who_know_the_graph_leave_a_worker_its_own_noise(colluders: int) -> None:
    """Of 100 workers everything is written out: the neighbours of the worker with the fewest are taken out of S."""
    changes = ("workers.count=100", "radio.scheduled=100", f"privacy.colluders={colluders}", "privacy.mask_degree=64")
    scenario = DIGITS.with_overrides(*changes)
    account, masking = account_scenario(scenario, *SYMBOLS), masking_of(scenario)
    assert masking is not None
    assert masking.graph is not None
    adjacency = masking.graph.adjacency.toarray()
    counts = (adjacency > 0).sum(axis=1)
    victim = int(counts.argmin())
    honest = np.flatnonzero(adjacency[victim] == 0)
    shared = adjacency[np.ix_(honest, honest)]
    covariance = masking.own_watts * np.eye(len(honest)) + masking.pair_watts * (np.diag(shared.sum(axis=1)) - shared)
    place = int(np.flatnonzero(honest == victim)[0])
    (watts,) = account.design.received_watts
    exact = watts * 1.25 * np.linalg.inv(covariance)[place, place]
    (found,) = [each for each in account.to_dict()["what_if"] if "know the graph" in each["name"]]
    assert found["name"] == f"{counts.min()} colluders who know the graph"
    assert gaussian_mu(found["epsilons"]["everyone"], 1e-5) ** 2 == pytest.approx(exact, rel=1e-6)
    assert found["epsilons"]["everyone"] > 100.0


@pytest.mark.parametrize("arithmetic", ["real", "integers"])
def test_colluders_are_withstood_up_to_a_number_where_masks_are_recovered(arithmetic: str) -> None:
    """Quorum and threshold stay as planned without colluders; with more than is stated own noise is left.

    1,020 of 1,200 workers are present at least, so that half-way from 601 to them 810 sign: 420 would have to sign two
    lists. Of 72 masks 36 may be with absent workers, and 17 with colluders until the second eigenvalue is reached.
    """
    changes = ("privacy.most_absent=0.15", f"privacy.arithmetic={arithmetic}")
    scenario = DIGITS.with_overrides(*changes)
    account = account_scenario(scenario, *SYMBOLS)
    found = {each.name.split()[0]: each for each in account.what_if if "colluders, " in each.name}
    stated = account.statements[0].withstands
    assert stated is not None
    assert set(found) == {"0", "12", str(stated), "120", "360"}
    assert 1200 * hypergeom.sf(17, 1199, stated, 72) <= 1e-9
    assert 1200 * binom.sf(17, 72, (stated + 1) / 1199) > 1e-9
    for colluders in (12, stated):  # the noise of so many fewer workers hides a worker, and they share fewer masks
        mu = gaussian_mu(found[str(colluders)].epsilons["everyone"], 1e-5)
        of_noise = gaussian_mu(10.0, 1e-5) * math.sqrt(1020 / (1020 - colluders))
        if arithmetic == "integers":
            assert mu == pytest.approx(of_noise, rel=1e-4)
        assert of_noise * 0.999 <= mu < 1.3 * of_noise
        assert found[str(colluders)].colluders == colluders
        assert not found[str(colluders)].note
    exact = [each for each in account.statements if (each.adversary, each.accountant) == ("everyone", "gdp")]
    assert exact[0].if_withstood == pytest.approx(found[str(stated)].epsilons["everyone"], rel=1e-6)
    for colluders in ("120", "360"):
        assert "own noise alone counts" in found[colluders].note
        assert found[colluders].epsilons["everyone"] > 100.0
        masking = masking_of(scenario)
        if masking is not None:
            (watts,) = account.design.received_watts
            mu = gaussian_mu(found[colluders].epsilons["everyone"], 1e-5)
            assert mu**2 == pytest.approx(watts * 1.25 / masking.own_watts, rel=1e-6)
    assert not found["0"].note
    assert found["0"].epsilons["everyone"] <= 10.0 * (1 + 1e-9)
    (informed,) = [each for each in account.what_if if "know the graph" in each.name]
    assert 25 <= int(informed.name.split()[0]) <= 37  # who hold 37 shares; some share several masks with the worker
    assert informed.colluders is None
    assert "shares" in informed.note


def test_where_all_share_masks_with_all_there_is_no_graph_to_know() -> None:
    for changes in (("radio.scheduled=30",), ("privacy.noise=workers",)):
        account = account_scenario(DIGITS.with_overrides(*changes), *SYMBOLS)
        assert not [each for each in account.what_if if "know the graph" in each.name]
    integers = account_scenario(DIGITS.with_overrides("privacy.arithmetic=integers"), *SYMBOLS)
    (found,) = [each for each in integers.what_if if "know the graph" in each.name]
    assert found.epsilons["everyone"] > 100.0


def test_a_better_receiver_changes_nothing_for_everyone() -> None:
    account = account_scenario(DIGITS, *SYMBOLS)
    quiet = [each for each in account.what_if if "receiver" in each.name]
    assert len(quiet) == 2
    for each in quiet:
        assert each.epsilons["everyone"] == pytest.approx(10.0, rel=1e-9)
        assert each.epsilons["server"] <= 10.0
    assert "what_if" in account.to_dict()
    receiver = replace(DIGITS, privacy=replace(DIGITS.privacy, noise="receiver", adversary="server"))
    names = [each.name for each in account_scenario(receiver, *SYMBOLS).what_if]
    assert names == ["+3 dB", "+10 dB", "64 antennas"]
