"""Accounts before a run: every accountant against every adversary."""

import math
import sys
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats

from airmixml import PrivacyError, Scenario, ScenarioError
from airmixml.edge import simulate
from airmixml.planning import known_inputs
from airmixml.planning.account import Account, account_numbers, account_scenario
from airmixml.planning.account_page import account_page, epsilon_curves
from airmixml.planning.known_inputs import data_dimensions
from airmixml.planning.multipliers import multipliers_in_words
from airmixml.privacy import gaussian_epsilon, participation_bound
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.radio.tally import rehearse
from airmixml.workers import settle

MNIST: dict[str, Any] = {"workers": 60_000, "scheduled": 64, "slots": 100_000, "delta": 0.01}


def said(account: Account, adversary: str, accountant: str) -> float:
    return next(
        each.epsilon for each in account.statements if (each.adversary, each.accountant) == (adversary, accountant)
    )


def gaussian_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def test_the_papers_mnist_setting() -> None:
    """READING of the paper: s = 3.166; 194 participations of 0.5621^-2 compose against the server."""
    account = account_scenario(Scenario.preset("paper-mnist"), 784, 10)
    assert said(account, "release", "paper-loose") == pytest.approx(10.0, rel=1e-9)
    assert said(account, "release", "paper-loose") <= 10.0
    assert account.design.noise_multiplier("replace-one") == pytest.approx(3.166**-0.5, rel=1e-3)
    server = said(account, "server", "gdp")
    mu = math.sqrt(194) / account.design.noise_multiplier("replace-one")
    assert float(gaussian_delta(mu, server)) == pytest.approx(0.01, rel=1e-6)
    assert said(account, "release", "pld") < said(account, "release", "rdp") < 10.0 < server
    assert account.refusals["release", "gdp"].startswith("exact only where the schedule is known")


def test_numbers_and_scenario_agree() -> None:
    by_numbers = account_numbers(**MNIST, epsilon=10.0)
    by_scenario = account_scenario(Scenario.preset("paper-mnist"), 784, 10)
    for each in by_numbers.statements:
        assert each.epsilon == pytest.approx(said(by_scenario, each.adversary, each.accountant), rel=1e-9)


def test_a_noise_multiplier_is_what_other_libraries_mean() -> None:
    """dp-accounting by itself, Poisson sampling, remove-one neighbours."""
    import dp_accounting as dp

    account = account_numbers(
        workers=1000,
        scheduled=10,
        slots=500,
        delta=1e-5,
        noise_multiplier=1.3,
        adjacency="remove-one",
        sampling="poisson",
    )
    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.3)), 500)
    theirs = accountant.get_epsilon(1e-5)
    assert said(account, "release", "pld") == pytest.approx(theirs, rel=2e-3)
    assert said(account, "release", "pld") >= theirs * (1 - 1e-4)


def test_colluders_change_the_release_but_not_the_server() -> None:
    alone, helped = (account_numbers(**MNIST, noise_multiplier=1.0, colluders=k) for k in (0, 30_000))
    assert said(helped, "server", "gdp") == said(alone, "server", "gdp")
    halved = account_numbers(**{**MNIST, "workers": 30_000}, noise_multiplier=1.0)
    assert said(helped, "release", "pld") == said(halved, "release", "pld") > said(alone, "release", "pld")


def test_a_limit_on_participations_holds_whoever_knows_less_to_what_the_server_learns() -> None:
    account = account_numbers(**MNIST, noise_multiplier=3.0, max_participations=107)
    for accountant in ("paper-loose", "paper-tight", "rdp", "pld", "gdp"):
        assert said(account, "release", accountant) <= said(account, "server", accountant) * (1 + 1e-9)


@pytest.mark.parametrize(("colluders", "slots"), [(990, 500), (0, 500), (0, 1)])
def test_whoever_knows_less_is_not_said_to_learn_more(colluders: int, slots: int) -> None:
    for adjacency in ("replace-one", "remove-one"):
        account = account_numbers(
            workers=1000,
            scheduled=10,
            slots=slots,
            delta=1e-5,
            noise_multiplier=1.0,
            colluders=colluders,
            adjacency=adjacency,
        )
        assert said(account, "release", "pld") <= said(account, "server", "pld") * (1 + 1e-9)


def test_a_loose_limit_is_no_worse_than_none() -> None:
    free, loose = (account_numbers(**MNIST, noise_multiplier=1.0, max_participations=most) for most in (0, 100_000))
    assert said(loose, "server", "gdp") == pytest.approx(said(free, "server", "gdp"), rel=1e-9)


@pytest.mark.parametrize("multiplier", [1e-9, 1e-4, 1e9])
def test_noise_of_any_size_has_a_finite_account(multiplier: float) -> None:
    account = account_numbers(workers=100, scheduled=10, slots=1000, delta=1e-5, noise_multiplier=multiplier)
    assert all(0.0 <= each.epsilon < math.inf for each in account.statements)
    assert said(account, "server", "gdp") == pytest.approx(
        0.0 if multiplier > 1 else participation_bound(1000, 10, 100) / multiplier**2 / 2, rel=0.01
    )


def test_ten_million_slots_take_no_longer() -> None:
    account = account_numbers(workers=1000, scheduled=10, slots=10**7, delta=1e-5, noise_multiplier=1.0)
    assert 1900 < said(account, "release", "pld") < 2100


def test_every_accountant_works_where_dp_accounting_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    account = account_numbers(**MNIST, noise_multiplier=1.0)
    assert {each.accountant for each in account.statements} == {"paper-loose", "paper-tight", "rdp", "pld", "gdp"}


def test_the_ledger_is_that_of_the_drawn_schedule() -> None:
    scenario = Scenario.preset("paper-iris")
    told, planned = (account_scenario(scenario, 4, 3, ledger=flag) for flag in (True, False))
    assert said(told, "release", "pld") == pytest.approx(said(planned, "release", "pld"), rel=1e-9)
    assert said(told, "server", "gdp") < said(planned, "server", "gdp")
    ledger = told.to_dict()["ledger"]
    assert ledger["worst_epsilon"] == pytest.approx(said(told, "server", "gdp"), rel=1e-9)
    assert {each.given for each in planned.statements} == {"a random schedule"}
    assert {each.given for each in told.statements if each.adversary == "server"} == {"the schedule that was drawn"}


@pytest.mark.parametrize(
    ("power", "ratios"),
    [
        ("max", "mixing.alpha=1"),
        ("fixed", "mixing.policy=equalmix"),
        pytest.param("fixed", "mixing.alpha=1", marks=pytest.mark.long),
    ],
)
def test_powers_that_follow_no_target_are_rehearsed(power: str, ratios: str) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides(
        f"mixing.power={power}", "mixing.power_scale_watts=1e-13", ratios, "radio.slots=300"
    )
    account = account_scenario(scenario, 4, 3)
    assert account.tally is not None
    assert account.tally.slots == 300
    (credited,) = [
        each.sampling for each in account.statements if (each.adversary, each.accountant) == ("release", "paper-loose")
    ]
    assert credited == ("none" if power == "max" else "without-replacement")


@pytest.mark.long
def test_curves_end_at_the_account() -> None:
    account = account_scenario(Scenario.preset("paper-iris"), 4, 3)
    slots, curves = epsilon_curves(account)
    assert (slots[0], slots[-1]) == (10, 1000)
    assert len(curves) == 4 + 1 + 1
    for (adversary, accountant), epsilons in curves.items():
        assert epsilons[-1] == pytest.approx(said(account, adversary, accountant), rel=1e-9)
        assert epsilons == sorted(epsilons)


def test_numbers_that_make_no_sense() -> None:
    with pytest.raises(ScenarioError, match="either a noise multiplier"):
        account_numbers(**MNIST)
    with pytest.raises(ScenarioError, match="others need a scenario"):
        account_numbers(**MNIST, epsilon=1.0, adversary="eavesdropper")
    with pytest.raises(PrivacyError, match="scheduled = 64: must be at least 1 and at most the 10 workers"):
        account_numbers(**{**MNIST, "workers": 10}, noise_multiplier=1.0)
    with pytest.raises(PrivacyError, match="must be at least 107"):
        account_numbers(**MNIST, noise_multiplier=1.0, max_participations=106)
    with pytest.raises(PrivacyError, match="a Poisson schedule keeps no limit"):
        account_numbers(**MNIST, noise_multiplier=1.0, max_participations=200, sampling="poisson")
    with pytest.raises(PrivacyError, match="colluders = 60000: must be fewer"):
        account_numbers(**MNIST, noise_multiplier=1.0, colluders=60_000)


def test_the_account_of_a_private_mean_is_for_the_whole_delta() -> None:
    scenario = Scenario.preset("private-iris").with_overrides("workers.centre=private")
    account = account_scenario(scenario, 5, 3)
    assert account.delta == 0.01
    server = next(each for each in account.statements if (each.adversary, each.accountant) == ("server", "gdp"))
    assert (server.delta, server.epsilon) == (0.01, pytest.approx(5.0, rel=1e-9))
    slots, curves = epsilon_curves(account)
    assert slots[-1] >= 1
    assert curves["server", "gdp"][slots.index(1)] == pytest.approx(5.0, rel=1e-6)


# --- Rows on several workers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [5.0, 1.0])
def test_an_account_counts_the_copies_of_a_row_that_a_run_has(epsilon: float) -> None:
    """All send in one slot, so that c workers with the same flower are c times as loud: mu is c times as large."""
    scenario = Scenario.preset("private-iris").with_overrides(f"privacy.epsilon={epsilon}")
    sent = simulate(scenario)
    copies = int(np.bincount(sent.population.sample_index).max())
    account = account_scenario(scenario, 5, 3, accountants=["gdp"])
    assert account.row is not None
    wanted = gaussian_epsilon(copies * gaussian_mu(epsilon, 0.01), 0.01)
    assert account.row.epsilons["server"] == pytest.approx(wanted, rel=1e-6)
    plain = account.to_dict()
    assert (plain["row_copies"], account.unit.count("up to 34 workers")) == (copies, 1)
    assert {each["adversary"] for each in plain["row_statements"]} == {"server", "release", "eavesdropper"}
    dealt = ("workers.holding=dealt", "workers.count=100", "radio.scheduled=100")
    alone = account_scenario(scenario.with_overrides(*dealt), 5, 3, accountants=["gdp"])
    assert (alone.row, alone.unit) == (None, "one worker, which is one row of the data")
    assert "row_copies" not in alone.to_dict()


def test_what_an_account_says_before_a_draw_holds_for_what_is_drawn() -> None:
    scenario = Scenario.preset("paper-iris")
    before = account_scenario(scenario, 4, 3, accountants=["gdp"]).row
    assert before is not None
    for seed in range(5):
        after = account_scenario(scenario.with_seed(seed), 4, 3, accountants=["gdp"], ledger=True).row
        assert after is not None
        if after.copies <= before.copies:
            assert after.epsilons["server"] < before.epsilons["server"] < 3 * after.epsilons["server"]


@pytest.mark.parametrize(
    "name", ["private-mnist-rounds", "trustless-mnist-rounds", "trustless-digits-rounds", "private-table"]
)
def test_rounds_are_accounted_for_as_a_run_states_them(name: str) -> None:
    scenario = settle(Scenario.preset(name))
    dimensions = data_dimensions(scenario, None, None)
    account = account_scenario(scenario, *dimensions)
    stated = {(each.adversary, each.accountant): each.epsilon for each in account.statements}
    target = scenario.privacy
    assert stated[target.adversary, target.accountant] == pytest.approx(target.epsilon, rel=1e-6)
    in_a_run = [each for each in rehearse(scenario, *dimensions).statements if each.adjacency == target.adjacency]
    assert {(each.adversary, each.accountant) for each in in_a_run} == set(stated)
    for each in in_a_run:
        assert stated[each.adversary, each.accountant] == pytest.approx(each.epsilon, rel=1e-6)
    # All workers send in all slots, so the median one is as the worst.
    assert account.median_epsilon == pytest.approx(stated["server", "gdp"], rel=1e-3)
    slots, curves = epsilon_curves(account)
    assert slots[-1] == account.design.slots == 1 + scenario.learner.rounds
    assert curves["release", "gdp"][-1] == pytest.approx(stated["release", "gdp"], rel=1e-6)
    share, alone = scenario.rounds_share, curves["release", "gdp"][0]
    assert alone < 0.5 * stated["release", "gdp"], "the moments have a small share of the loss"
    assert share > 0.5
    mean = ", after a slot for the mean" if scenario.workers.centre == "refined" else ""
    assert f"in 1 slot and {scenario.learner.rounds} rounds{mean}" in account_page(account).to_markdown()
    assert account.to_dict()["rounds"] == scenario.learner.rounds


def test_both_epsilons_against_the_server_stand_beside_each_other() -> None:
    """Before a draw any worker may get many slots; the drawn schedule of seed 0 has one of 12, and says both."""
    scenario = Scenario.preset("paper-iris")
    before = account_scenario(scenario, 4, 3, accountants=("gdp",))
    drawn = account_scenario(scenario, 4, 3, accountants=("gdp",), ledger=True)
    first, second = (
        next(each for each in account.statements if each.adversary == "server") for account in (before, drawn)
    )
    assert second.epsilon < first.epsilon
    assert second.before_the_draw == pytest.approx(first.epsilon, rel=1e-9)
    assert first.before_the_draw is None
    told = (
        "server, gdp 48.98: before the draw, for up to 25 slots of one worker; after a typical draw about 27, for the"
    )
    assert before.draw_in_words.startswith(f"{told} 12 slots of the worst worker")
    assert before.to_dict()["draw"] == before.draw_in_words
    assert before.draw_in_words in account_page(before, brief=True).to_markdown()
    assert f"were drawn server: gdp {first.epsilon:.4g}" in drawn.draw_in_words


def test_the_median_worker_before_and_after_the_draw() -> None:
    """Half of 2,000 workers with 8 in each of 1,000 slots send in at most 4, the median of Binomial(1000, 0.004)."""
    scenario = Scenario.preset("paper-iris")
    before = account_scenario(scenario, 4, 3, accountants=("gdp",))
    drawn = account_scenario(scenario, 4, 3, accountants=("gdp",), ledger=True)
    assert scipy.stats.binom.median(1000, 0.004) == before.median_slots == drawn.median_slots == 4
    # Before a draw every share is the largest one.
    assert 0.95 * before.median_epsilon < drawn.median_epsilon < before.median_epsilon
    assert drawn.median_epsilon == drawn.to_dict()["ledger"]["median_epsilon"]


def test_a_median_worker_of_integers_that_never_sends_has_lost_nothing() -> None:
    """100 of 1,200 in each of three slots: eleven in twelve do not send in one, three in four in none."""
    scenario = Scenario.preset("trustless-digits").with_overrides(
        'privacy.arithmetic="integers"', "radio.scheduled=100", "radio.slots=3"
    )
    account = account_scenario(scenario, 64, 10, accountants=["gdp"])
    assert (account.median_slots, account.median_epsilon) == (0, 0.0)


def test_where_nothing_is_drawn_there_is_one_epsilon() -> None:
    assert account_scenario(Scenario.preset("private-iris"), 4, 3, accountants=("gdp",)).draw_in_words == ""


def test_statements_for_a_drawn_schedule_tell_what_a_plan_says_before_the_draw() -> None:
    planned, drawn = (account_scenario(Scenario.preset("paper-iris"), 4, 3, ledger=ledger) for ledger in (False, True))
    before = {(each.adversary, each.accountant): each.epsilon for each in planned.statements}
    told = {(each.adversary, each.accountant): each for each in drawn.statements}
    differ = {pair for pair, each in told.items() if each.epsilon < 0.999 * before[pair]}
    assert {("server", "pld"), ("server", "gdp"), ("eavesdropper", "pld")} < differ
    assert {pair for pair, each in told.items() if each.before_the_draw is not None} == differ
    assert all(told[pair].before_the_draw == pytest.approx(before[pair]) for pair in differ)
    assert planned.row is not None
    assert drawn.row is not None
    assert drawn.row.before_the_draw == pytest.approx(planned.row.epsilons)
    assert (planned.row.when, drawn.row.when) == (", before the draw", "")
    assert "also before the draw: server by paper-loose, paper-tight, rdp, pld; eavesdropper" in planned.draw_in_words
    assert "a row of the data: release 435.9, server 435.9, eavesdropper 469,000" in drawn.draw_in_words


def test_an_eavesdroppers_epsilon_follows_from_the_places_of_workers() -> None:
    """Before they are placed it is that of the account without a ledger; both are told, with the reason."""
    scenario = settle(Scenario.preset("private-iris").with_overrides("privacy.adjacency=replace-one"))
    planned, drawn = (
        account_scenario(scenario, 4, 3, ledger=ledger, accountants=("pld", "gdp")) for ledger in (False, True)
    )
    before, after = (
        next(each for each in account.statements if (each.adversary, each.accountant) == ("eavesdropper", "pld"))
        for account in (planned, drawn)
    )
    assert after.epsilon < 0.99 * before.epsilon
    assert after.before_the_draw == pytest.approx(before.epsilon, rel=1e-6)
    assert planned.draw_in_words == ""
    assert "before schedule and places were drawn eavesdropper: pld 2,071" in drawn.draw_in_words


def test_data_are_counted_in_the_folder_that_the_caller_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, load = [], known_inputs.load_dataset
    monkeypatch.setattr(known_inputs, "load_dataset", lambda *args, **options: (asked.append(options), load(*args))[1])
    rows = "".join(f"{row % 7},{row % 5},{row % 2}\n" for row in range(30))
    (tmp_path / "own.csv").write_text(f"a,b,kind\n{rows}", encoding="utf-8")
    changes = (f"workers.dataset={tmp_path / 'own.csv'}", "workers.label_column=kind", "workers.count=15")
    bounds = ("workers.input_lower=0", "workers.input_upper=7", "radio.scheduled=2")
    scenario = Scenario.preset("paper-iris").with_overrides(*changes, *bounds)
    assert data_dimensions(scenario, None, None, data_dir=tmp_path) == (2, 2)
    assert asked == [{"data_dir": tmp_path}]


def test_noise_multipliers_are_written_in_digits() -> None:
    found = [{"kind": "slot", "noise_multiplier": 12345.6}, {"kind": "round", "noise_multiplier": 0.5624}]
    assert multipliers_in_words(found, limited=False) == "12,350 in every slot, 0.5624 in every round"
    assert multipliers_in_words(found, limited=True) == "0.5624 in the strongest slot"
