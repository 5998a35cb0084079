"""What a rehearsed run counts, where all workers send alike: sums over slots and workers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.privacy.gaussian import gaussian_epsilon
from airmixml.radio.tally import Tally, rehearse

TWELVE = Scenario.preset("private-mnist").with_overrides(
    "workers.count=12",
    "workers.train_samples=12",
    "radio.scheduled=12",
    "radio.slots=3",
    "workers.features=8",
    "workers.centre=none",
    "privacy.delta=1e-5",
)
HOLDING = np.array([0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4])


def told(*changes: str, holding: np.ndarray | None = None) -> Tally:
    return rehearse(TWELVE.with_overrides(*changes), 8, 10, holding=holding)


def test_every_worker_s_epsilon_is_the_stated_one_where_all_send_alike() -> None:
    """Three slots of one power: mu^2 is 3 s, and so the exact epsilon of each."""
    tally = told()
    squares = tally.worker_squared_mu()
    design = tally.design
    move = tally.sensitivity.squared_move(TWELVE.privacy.adjacency, "none")
    assert squares == pytest.approx(
        np.full(12, 3 * design.squared_shift(design.received_watts[0], move)), rel=1e-9, abs=0.0
    )
    exact = gaussian_epsilon(float(np.sqrt(squares[0])), 1e-5)
    assert tally.worker_epsilons() == pytest.approx(np.full(12, exact), rel=1e-9, abs=0.0)
    assert tally.privacy_against_server.epsilon == pytest.approx(exact, rel=1e-6, abs=0.0)
    assert tally.row_squared_mu() is None
    assert (tally.design.participations, tally.ledger.participations.tolist()) == (3, [3] * 12)


def test_a_row_on_several_workers_has_the_square_of_their_sum() -> None:
    """Rows on 2, 3, 1, 4 and 2 workers that send alike: the squares of those times what one has."""
    tally = told(holding=HOLDING)
    rows, one = tally.row_squared_mu(), tally.worker_squared_mu()[0]
    assert rows == pytest.approx(one * np.array([4.0, 9.0, 1.0, 16.0, 4.0]), rel=1e-6, abs=0.0)
    assert tally.row_copies == 4
    exact = gaussian_epsilon(float(np.sqrt(16.0 * one)), 1e-5)
    assert tally.privacy_of_a_row(4).epsilon == pytest.approx(exact, rel=1e-6, abs=0.0)
    statements = {each.adversary: each.epsilon for each in tally.privacy_of_rows()}
    assert statements["server"] == pytest.approx(exact, rel=1e-6, abs=0.0)


def test_adversaries_without_any_statement_are_told_with_the_reason() -> None:
    """Fading leaves what an eavesdropper hears without a bound; against all others something is certified."""
    plain, fading = told().to_dict(), told("radio.fading=rayleigh", "air.truncation_db=-10").to_dict()
    for each in (plain, fading):
        assert not {one["adversary"] for one in each["privacy"]} & set(each["unstated"])
    assert set(plain["unstated"]) == set()
    assert set(fading["unstated"]) == {"eavesdropper"}
    assert "fading puts no bound" in fading["unstated"]["eavesdropper"]


def test_epsilons_of_integers_are_tilted_and_cut_as_stated() -> None:
    """The worst worker of sums of integers has the stated epsilon; in a ledger it counts for more than that."""
    integers = Scenario.preset("trustless-digits").with_overrides('privacy.arithmetic="integers"', "radio.slots=2")
    tally = rehearse(integers, 65, 10)
    assert tally.worker_epsilons().max() == pytest.approx(tally.privacy_against_server.epsilon, rel=1e-6, abs=0.0)
    assert tally.privacy_against_server.epsilon <= integers.privacy.epsilon
    composed = gaussian_epsilon(float(np.sqrt(tally.worker_squared_mu().max())), integers.privacy.delta)
    assert composed >= tally.privacy_against_server.epsilon
    assert composed <= 1.2 * tally.privacy_against_server.epsilon


def test_energy_and_powers_add_up() -> None:
    tally = told()
    energy = tally.to_dict()["worker_energy_joules"]
    assert tally.energy_joules == pytest.approx(tally.worker_energy_joules.sum(), rel=1e-9, abs=0.0)
    assert energy["largest"] == tally.worker_energy_joules.max()
    assert energy["mean"] == pytest.approx(tally.worker_energy_joules.mean())
    assert energy["median"] == pytest.approx(np.median(tally.worker_energy_joules))
    assert tally.transmit_power.median <= tally.transmit_power.largest <= tally.transmit_power.limit
    assert tally.to_dict()["slots"] == 3
