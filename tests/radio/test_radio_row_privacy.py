"""What adversaries learn of a row that several workers hold, against sums written out slot by slot."""

import math
import re
from collections import Counter, defaultdict

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, norm

from airmixml import Scenario
from airmixml.arrays import dbm_to_watts
from airmixml.edge import simulate
from airmixml.messages import PrivacyError
from airmixml.privacy import Design, Everyone, Release, Sensitivity, Server, gaussian_epsilon
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.privacy.statements import state_row
from airmixml.radio.draws import AirSetting, draw_slots, in_blocks
from airmixml.radio.masking import masking_of
from airmixml.radio.tally import rehearse
from airmixml.scenario import preset_names, preset_summary
from airmixml.workers.population import planned_holding


@pytest.mark.parametrize(
    "changes",
    [
        ["mixing.alpha=2"],
        ["mixing.policy=equalmix", "radio.schedule=poisson", "privacy.adjacency=remove-one", "privacy.accountant=rdp"],
    ],
)
def test_shifts_of_the_workers_with_a_row_add_up_slot_by_slot(changes: list[str]) -> None:
    """Shares of the copies in a slot are added and squared; slots are added. Nothing is gained by one loud slot."""
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=200", *changes)
    sent = simulate(scenario)
    rows, distance_metres = sent.population.sample_index, sent.population.distance_metres
    squared: defaultdict[int, float] = defaultdict(float)
    setting = AirSetting.of(scenario, 4, 3, distance_metres)
    for block in (draw_slots(setting, some) for some in in_blocks(range(scenario.radio.slots), 64)):
        draws = block.numpy()
        for slot, workers in enumerate(draws.scheduled_workers):
            amplitude: Counter[int] = Counter()
            for worker, ratio in zip(workers.tolist(), draws.ratios[slot].tolist(), strict=True):
                amplitude[int(rows[worker])] += ratio * math.sqrt(draws.power_scale_watts[slot])
            for row, value in amplitude.items():
                squared[row] += value**2
    move = sent.report.sensitivity.squared_move(scenario.privacy.adjacency, "none")
    mu = math.sqrt(max(squared.values()) * move / (dbm_to_watts(-114.0) / 2.0))
    copies = Counter(rows.tolist()).most_common(1)[0][1]
    stated = sent.report.privacy_of_a_row(copies)
    assert stated.epsilon == pytest.approx(gaussian_epsilon(mu, scenario.privacy.delta), rel=1e-9)
    assert (stated.unit, sent.report.row_copies) == (f"row on {copies} workers", copies)
    # Far below the bound for workers that all send in the same slots, far above that of a worker.
    assert 1.5 * sent.report.privacy_against_server.epsilon < stated.epsilon
    worst = math.sqrt(sent.report.worker_squared_mu().max())
    assert stated.epsilon < 0.2 * gaussian_epsilon(copies * worst, scenario.privacy.delta)


def test_every_adversary_learns_more_of_a_row_than_of_a_worker() -> None:
    for preset in ("paper-iris", "private-iris", "trustless-iris"):
        report = simulate(Scenario.preset(preset)).report
        adjacency = report.scenario.privacy.adjacency
        of_rows = report.privacy_of_rows()
        assert of_rows[0].adversary == report.scenario.privacy.adversary
        assert len({each.adversary for each in of_rows}) == len(of_rows) >= 3
        for each in of_rows:
            of_worker = [
                stated.epsilon
                for stated in report.statements
                if (stated.adversary, stated.adjacency) == (each.adversary, adjacency)
            ]
            assert each.epsilon > 3 * min(of_worker)


def test_masks_hide_copies_no_better_than_their_sum() -> None:
    """x' S^-1 x of workers who all change, with the covariance written out, is at most what is stated."""
    scenario = Scenario.preset("trustless-iris").with_overrides("workers.count=200", "radio.scheduled=200")
    sent = simulate(scenario)
    copies, masking = sent.report.row_copies, masking_of(scenario)
    assert masking is not None
    assert masking.graph is not None
    design = sent.report.design
    adjacency = np.zeros((200, 200))
    for first, second in masking.graph.edges:
        adjacency[first, second] += 1.0
        adjacency[second, first] += 1.0
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    covariance = masking.own_watts * np.eye(200) + masking.pair_watts * laplacian
    changed = np.bincount(sent.population.sample_index).argmax()
    moved = (sent.population.sample_index == changed) * math.sqrt(max(design.received_watts))
    true_mu = math.sqrt(design.sensitivity.removal * (moved @ np.linalg.solve(covariance, moved)))
    stated = next(each for each in sent.report.privacy_of_rows() if each.adversary == "everyone")
    alone = Everyone().mechanism(design, sent.scenario.privacy.adjacency).total
    bound = gaussian_epsilon(copies * math.sqrt(alone), 0.01)
    assert 0.5 * bound < gaussian_epsilon(true_mu, 0.01) <= stated.epsilon
    assert stated.epsilon == pytest.approx(bound, rel=1e-9)


def _design(**given: object) -> Design:
    return Design(
        **{
            "workers": 1000,
            "scheduled": 10,
            "received_watts": (1.0,),
            "counts": (1,),
            "sensitivity": Sensitivity(removal=1.0, replacement=1.0),
            "noise_watts": 2.0,
            "sampling": "poisson",
            **given,
        }
    )


@pytest.mark.parametrize(("slots", "squared_shifts"), [(1, 3 * 3), (2, 2 * 7 * 3)])
def test_no_more_copies_meet_in_a_slot_than_send_in_it(slots: int, squared_shifts: int) -> None:
    """Of 7 copies 3 send in a slot: their shifts of 1 add up to 3. In 2 slots 7 send twice, each with 3 at most."""
    design = _design(scheduled=3, workers=8, counts=(slots,), sampling="without-replacement")
    stated = state_row(design, Server(), 7, adjacency="remove-one", delta=1e-3)
    assert stated.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(squared_shifts), 1e-3), rel=1e-9)


@pytest.mark.parametrize("copies", [2, 3])
def test_group_privacy_of_a_hidden_schedule_covers_the_true_mixture(copies: int) -> None:
    """A row on c workers, each with its own coin: a mixture of c + 1 Gaussians against one, integrated."""
    stated = state_row(_design(), Release(), copies, adjacency="remove-one", delta=1e-4)
    assert stated.accountant == "rdp"
    grid = np.linspace(-12.0, 12.0 + copies, 200_001)
    chances = binom.pmf(np.arange(copies + 1), copies, 0.01)
    present = sum(chance * norm.pdf(grid, loc=count) for count, chance in enumerate(chances))
    absent = norm.pdf(grid)
    for first, second in ((present, absent), (absent, present)):
        lost = np.trapezoid(np.maximum(first - math.exp(stated.epsilon) * second, 0.0), grid)
        assert lost <= 1e-4
    # It is not so large that it would cover anything: as if the schedule were known it would be far larger.
    known = state_row(_design(), Server(), copies, adjacency="remove-one", delta=1e-4)
    assert stated.epsilon < 0.7 * known.epsilon


@pytest.mark.parametrize(("sampling", "copies"), [("poisson", 5), ("without-replacement", 30)])
def test_before_a_draw_chance_bounds_how_often_copies_meet(sampling: str, copies: int) -> None:
    """The distribution of sum_t K_t^2 over 50 slots, convolved, has a tail of at most 1e-9 beyond the bound."""
    design = _design(counts=(50,), sampling=sampling)
    stated = state_row(design, Server(), copies, adjacency="remove-one", delta=1e-4)
    assert (stated.schedule_failure, stated.given) == (1e-9, "a random schedule")
    law = binom(copies, 0.01) if sampling == "poisson" else hypergeom(1000, copies, 10)
    once = np.zeros(10**2 + 1)
    once[np.arange(11) ** 2] = law.pmf(np.arange(11))
    total = np.ones(1)
    for _ in range(50):
        total = np.convolve(total, once)
    tail = 1.0 - np.cumsum(total)
    fewest = int(np.flatnonzero(tail <= 1e-9 / 1000 + 1e-13)[0])
    squared_mu = gaussian_mu(stated.epsilon, 1e-4) ** 2
    assert fewest <= squared_mu * (1 + 1e-9) < 2 * fewest
    assert squared_mu < 0.5 * copies**2 * design.participations


def test_coins_may_schedule_more_copies_than_are_scheduled_on_average() -> None:
    """50 copies in 1,000 slots, each with chance 1/100: sum_t K_t^2 is 745 on average, and 50 more is nothing rare."""
    design = _design(workers=100, scheduled=1, counts=(1000,))
    stated = state_row(design, Server(), 50, adjacency="remove-one", delta=1e-4)
    assert gaussian_mu(stated.epsilon, 1e-4) ** 2 > 1000 * (50 * 0.01 * 0.99 + 0.5**2)


@pytest.mark.parametrize("adjacency", ["remove-one", "replace-one"])
def test_other_rows_of_a_worker_tell_that_it_was_scheduled(adjacency: str) -> None:
    """With its row a worker sends 5, without it 4.5, and in one slot of a hundred: two mixtures, integrated."""
    whole = _design(workers=100, scheduled=1).scaled(25.0)
    stated = state_row(whole.scaled(0.01), Release(), 1, adjacency=adjacency, delta=1e-4, whole=whole)
    grid = np.linspace(-12.0, 20.0, 200_001)
    both = [0.99 * norm.pdf(grid) + 0.01 * norm.pdf(grid, loc=sent) for sent in (5.0, 4.5)]
    for first, second in (both, both[::-1]):
        lost = np.trapezoid(np.maximum(first - math.exp(stated.epsilon) * second, 0.0), grid)
        assert lost <= 1e-4
    # As if the worker had no other row, it would be too small: this test can fail.
    alone = state_row(whole.scaled(0.01), Release(), 1, adjacency=adjacency, delta=1e-4)
    first, second = both
    assert np.trapezoid(np.maximum(first - math.exp(alone.epsilon) * second, 0.0), grid) > 1e-4


def test_nothing_is_stated_where_nothing_is_certified() -> None:
    report = simulate(Scenario.preset("private-iris").with_overrides("workers.centre=private")).report
    assert "eavesdropper" not in {each.adversary for each in report.privacy_of_rows()}
    with pytest.raises(PrivacyError, match="not accounted for"):
        report.privacy_of_a_row(34, "eavesdropper")


PROMISE = re.compile(r"epsilon = ([\d.]+) for a worker, ([\d,]+) for an? (?:flower|image) on up to (\d+) of them")
DIMENSIONS = {"iris": (4, 3), "mnist": (784, 10), "digits": (64, 10)}


@pytest.mark.parametrize(
    "name", ["paper-iris", "private-iris", "trustless-iris", pytest.param("paper-mnist", marks=pytest.mark.long)]
)
def test_the_first_line_of_a_preset_says_what_protects_a_row(name: str) -> None:
    """Its numbers are those of the preset's own schedule and holding, against its own adversary."""
    scenario, promise = Scenario.preset(name), PROMISE.search(preset_summary(name))
    assert promise is not None
    input_dim, label_dim = DIMENSIONS[scenario.workers.dataset]
    if scenario.workers.sends == "moments":
        input_dim += 1  # the constant
    tally = rehearse(scenario, input_dim, label_dim, holding=planned_holding(scenario))
    of_row = tally.privacy_of_rows()[0]
    assert (of_row.adversary, scenario.privacy.epsilon) == (scenario.privacy.adversary, float(promise[1]))
    assert f"{of_row.epsilon:,.0f}" == promise[2]
    assert tally.row_copies == int(promise[3])


def test_no_preset_that_copies_rows_is_silent_about_it() -> None:
    copying = [name for name in preset_names() if Scenario.preset(name).workers.holding == "drawn"]
    silent = [name for name in copying if not PROMISE.search(preset_summary(name))]
    assert silent == ["digits"]
    assert "protects nobody" in preset_summary("digits")
    report = simulate(Scenario.preset("digits").with_overrides("radio.slots=50")).report
    assert min(each.epsilon for each in report.statements) > 50.0
