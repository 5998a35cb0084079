"""A scenario's privacy target becomes power, and the report of the run keeps it."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airmixml import PrivacyError
from airmixml.edge import simulate
from airmixml.impairments.fading import weakest_gain
from airmixml.privacy import Eavesdropper, Sensitivity, facts, gaussian_epsilon
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.mixing import MaxMin
from airmixml.radio.privacy_target import check_privacy_target, private_received_watts
from airmixml.radio.system import System, adversary_named, planned_design, sensitivity_of
from airmixml.radio.tally import Tally, rehearse
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Mixing, Scenario
from airmixml.streams import Streams

NOISE_WATTS = 10 ** (-14.4)


def iris(*changes: str) -> Scenario:
    return Scenario.preset("paper-iris").with_overrides("radio.slots=200", "learner.epochs=1", *changes)


PAIRS = [
    ("release", "paper-loose"),
    ("release", "paper-tight"),
    ("release", "pld"),
    ("server", "gdp"),
    ("server", "pld"),
    ("server", "rdp"),
    ("eavesdropper", "pld"),
]


@pytest.mark.parametrize(
    ("adversary", "accountant", "adjacency"),
    [
        pytest.param(*pair, adjacency, marks=[pytest.mark.long] if (place + kind) % 2 else [])  # the others are long
        for place, pair in enumerate(PAIRS)
        for kind, adjacency in enumerate(("replace-one", "remove-one"))
    ],
)
def test_a_run_keeps_its_target(adversary: str, accountant: str, adjacency: str) -> None:
    scenario = iris(
        f"privacy.adversary={adversary}", f"privacy.accountant={accountant}", f"privacy.adjacency={adjacency}"
    )
    own = simulate(scenario).report.privacy
    assert (own.adversary, own.accountant, own.adjacency) == (adversary, accountant, adjacency)
    assert own.target_epsilon == 5.0
    assert own.epsilon <= 5.0
    # Before a run the server's worst case is reckoned with; a drawn schedule is kinder.
    assert own.epsilon > (1.0 if adversary == "server" else 4.99)


def test_against_the_server_with_a_limit_by_hand() -> None:
    """Two participations of equal shares: mu^2 = 2 s, and s = beta q^2 7 / (sigma^2 / 2)."""
    scenario = iris(
        "radio.max_participations=2", "mixing.policy=equalmix", "privacy.adversary=server", "privacy.accountant=gdp"
    )
    watts = private_received_watts(scenario, sensitivity_of(scenario, 4, 3))
    mu = math.sqrt(2 * watts * 7 / (NOISE_WATTS / 2))
    assert gaussian_epsilon(mu, 0.01) == pytest.approx(5.0, rel=1e-9)
    report = simulate(scenario).report
    assert report.ledger.participations.max() == 2
    assert report.privacy.epsilon <= 5.0


def test_a_rehearsal_tallies_what_the_run_would() -> None:
    scenario = iris("mixing.alpha=2", "radio.max_participations=40", "seed=5")
    told, ran = rehearse(scenario, 4, 3), simulate(scenario).report
    assert told.ledger.participations.tolist() == ran.ledger.participations.tolist()
    assert told.worker_energy_joules == pytest.approx(ran.worker_energy_joules, rel=1e-12, abs=0)
    assert [each.to_dict() for each in told.statements] == [each.to_dict() for each in ran.statements]


def test_part_of_a_run_keeps_the_rounds_of_the_whole() -> None:
    """Rounds of 100 slots: after the first chapter everybody who sent may have done so twice, not seven times."""
    scenario = Scenario().with_overrides(
        "workers.count=400", "radio.scheduled=4", "radio.slots=2000", "radio.max_participations=20"
    )
    setting = AirSetting.of(scenario, 4, 3, np.full(400, 100.0))
    tally = Tally(setting)
    tally.add_draws(draw_slots(setting, range(128)))
    assert tally.ledger.participations[:400].sum() == 128 * 4
    assert (tally.design.round_length, tally.design.rounds) == (100, 2)
    assert adversary_named("release", scenario).mechanism(tally.design, "replace-one").sampling == "none"


@pytest.mark.parametrize(
    "changes",
    [
        ("mixing.power=max", "privacy.adversary=eavesdropper", "radio.fading=rayleigh"),
        ("mixing.power=fixed", "privacy.accountant=gdp"),
    ],
)
def test_a_statement_that_cannot_be_made_is_refused_before_anything_is_sent(changes: tuple[str, ...]) -> None:
    with pytest.raises(PrivacyError):
        check_privacy_target(iris(*changes))


def test_sensitivities() -> None:
    assert sensitivity_of(iris(), 4, 3) == Sensitivity(removal=7.0, replacement=7.0)
    assert sensitivity_of(iris("privacy.sensitivity=encoder"), 4, 3) == Sensitivity(removal=5.0, replacement=6.0)
    clipped = iris("privacy.sensitivity=encoder", "workers.encoder=clip", "workers.clip_norm=0.5")
    assert sensitivity_of(clipped, 4, 3) == Sensitivity(removal=1.25, replacement=2.5)


def test_the_power_limit_tells_where_it_can_bind() -> None:
    """The corner is 353.55 m away; with n = 2 and -32 dB its gain is 10^-3.2 / 125000."""
    scenario = iris()
    floor = 10**-3.2 / 125_000
    assert weakest_gain(scenario) == pytest.approx(floor, rel=1e-12, abs=0)
    limit_watts = 10**-0.7

    def tells(asked: Scenario, received_watts: float) -> bool:
        return System.of(asked, 4, 3).design(received_watts).says(facts.PowerTells)

    assert not tells(scenario, 0.999 * limit_watts * floor)
    assert tells(scenario, 1.001 * limit_watts * floor)
    assert tells(iris("mixing.power=max"), 0.0)
    fixed = f"mixing.power_scale_watts={20 * limit_watts * floor}"
    assert tells(iris("mixing.power=fixed", fixed), 0.0)
    assert not tells(iris("mixing.power=fixed", fixed, "mixing.policy=equalmix"), 0.0)


def test_fading_takes_the_credit_and_the_target_is_met_without_it() -> None:
    scenario = iris("radio.fading=rayleigh")
    assert weakest_gain(scenario) == 0.0
    own = simulate(scenario).report.privacy
    assert (own.sampling, own.sampling_rate) == ("none", 1.0)
    assert own.epsilon <= 5.0
    assert own.why.startswith("received power may tell who was scheduled, so the ")
    assert " slots of the worst worker together, as if the schedule were known; before the draw" in own.why


def test_a_weak_power_limit_lowers_the_power_until_it_cannot_bind() -> None:
    scenario = iris("radio.max_power_dbm=-45")
    report = simulate(scenario).report
    own = report.statements[0]
    assert report.limited_slots == 0
    assert (own.sampling, own.sampling_rate) == ("without-replacement", 8 / 2000)
    assert own.epsilon < 5.0
    assert private_received_watts(scenario, sensitivity_of(scenario, 4, 3)) == pytest.approx(
        10**-7.5 * 10**-3.2 / 125_000, rel=1e-9, abs=0
    )


def test_a_very_weak_one_binds_and_takes_the_credit() -> None:
    """At a tenth of the corner's power every slot with a far worker is limited; the target holds without credit."""
    scenario = iris("radio.max_power_dbm=-68")
    report = simulate(scenario).report
    own = report.statements[0]
    assert report.limited_slots > 0
    assert own.sampling == "none"
    assert own.epsilon <= 5.0


def test_an_eavesdropper_under_fading_has_no_statement() -> None:
    with pytest.raises(PrivacyError, match="fading puts no bound"):
        check_privacy_target(iris("radio.fading=rician", "privacy.adversary=eavesdropper"))
    stated = simulate(iris("radio.fading=rician")).report.statements
    assert {each.adversary for each in stated} == {"release", "server"}


def test_an_eavesdropper_is_described_by_the_scenario() -> None:
    scenario = iris(
        "privacy.eavesdropper_distance_metres=20",
        "privacy.eavesdropper_antennas=4",
        "privacy.eavesdropper_noise_dbm=-120",
    )
    adversary = adversary_named("eavesdropper", scenario)
    assert isinstance(adversary, Eavesdropper)
    assert adversary.gain == pytest.approx(4 * 10**-3.2 / 400, rel=1e-12, abs=0)
    assert adversary.own_noise_watts == pytest.approx(1e-15, rel=1e-12, abs=0)
    # Sending P = w / floor, heard as P gain, with squared moves of up to 4 * 7, over half its noise.
    design = planned_design(scenario, sensitivity_of(scenario, 4, 3), received_watts=1e-16)
    squared_shift = 4 * 7 * (1e-16 * 125_000 / 10**-3.2) * (4 * 10**-3.2 / 400) / (1e-15 / 2)
    assert adversary.mechanism(design, "replace-one").squared_shifts == pytest.approx((squared_shift,), rel=1e-9, abs=0)


def mixture(samples: NDArray[Any], ratios: NDArray[Any], channels: NDArray[Any]) -> NDArray[Any]:
    dealt = torch.from_numpy(np.sort(ratios))[None], torch.from_numpy(channels)[None]
    shares = MaxMin().deal(Mixing(), *dealt, range(1), slot_words(Streams(1), "assignment"))[0]
    return shares.numpy() @ samples


def test_exchanging_a_worker_under_max_min_moves_a_mixture_no_further_than_the_largest_share() -> None:
    """Another worker has another channel, so everybody's share may change; brute force over random corners."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(1000):
        size = int(rng.integers(2, 6))
        ratios = rng.dirichlet(np.full(size, 0.5))
        samples = rng.integers(0, 2, (size + 1, 3)).astype(float)
        channels = rng.random(size + 1)
        seats = list(range(size))
        before = mixture(samples[seats], ratios, channels[seats])
        exchanged = [size, *seats[1:]]
        after = mixture(samples[exchanged], ratios, channels[exchanged])
        diameter = max(
            float(((samples[a] - samples[b]) ** 2).sum()) for a, b in itertools.combinations(range(size + 1), 2)
        )
        moved, allowed = float(((before - after) ** 2).sum()), float(ratios.max() ** 2 * diameter)
        assert moved <= allowed * (1 + 1e-12)
        largest = max(largest, moved / allowed if allowed else 0.0)
    assert largest > 0.95


def test_colluders_under_max_min_cost_the_credit() -> None:
    scenario = iris("mixing.assignment=max-min", "privacy.colluders=10")
    design = planned_design(scenario, sensitivity_of(scenario, 4, 3), received_watts=1e-18)
    release = adversary_named("release", scenario)
    assert release.mechanism(design, "replace-one").sampling == "none"
    assert "no credit" in release.why(design)
    random = replace(design, facts=tuple(each for each in design.facts if not isinstance(each, facts.RanksTell)))
    assert release.mechanism(random, "replace-one").population == 1990
