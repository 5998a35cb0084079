"""Who shares masks with whom in protection: what nobody could know when colluders were chosen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from airmixml import PrivacyError, Scenario, simulate
from airmixml.integers import integer_noise
from airmixml.masks.graph import draw_graph, who_is_left
from airmixml.privacy import Everyone, Sensitivity, Server, facts, state_privacy
from airmixml.radio import impaired_reception, workers_noise
from airmixml.radio.draws import AirSetting
from airmixml.radio.masking import Masking, any_masking, masking_of
from airmixml.radio.system import planned_design
from airmixml.radio.transmission import simulate_family
from airmixml.radio.transmitters import ResidualNoise
from airmixml.scenario import RunContext
from airmixml.streams import Secret

DIGITS = Scenario.preset("trustless-digits").with_overrides("privacy.colluders=12")
UNIT = Sensitivity(removal=1.0, replacement=1.0, numbers=10)


def neighbours_of(masking: Masking | None, seat: int = 0) -> set[int]:
    assert masking is not None
    assert masking.graph is not None
    return set(masking.graph.neighbours[seat])


def test_the_public_seed_tells_nobody_s_neighbours_in_protection() -> None:
    one, other = Secret(), Secret()
    public = neighbours_of(masking_of(DIGITS))
    first, second = (neighbours_of(masking_of(DIGITS, secret)) for secret in (one, other))
    assert neighbours_of(masking_of(DIGITS, one)) == first
    for some in (public & first, public & second, first & second):  # of 1,200 workers each has about 40
        assert len(some) < 12
    assert neighbours_of(masking_of(DIGITS)) == public
    assert neighbours_of(masking_of(DIGITS.with_seed(1))) != public


def test_masks_hide_as_much_on_the_graph_that_was_drawn() -> None:
    planned = masking_of(DIGITS)
    assert planned is not None
    for _ in range(5):
        drawn = masking_of(DIGITS, Secret())
        assert drawn is not None
        assert drawn.graph is not None
        assert drawn.hidden_watts == pytest.approx(planned.hidden_watts, rel=1e-9)
        assert drawn.own_watts == planned.own_watts
        assert drawn.pair_watts == pytest.approx(planned.pair_watts, rel=0.05)
    # The covariance written out, with the colluders of one choice taken out.
    honest = np.ones(1200, dtype=bool)
    honest[:12] = False
    covariance = drawn.pair_watts * -drawn.graph.adjacency.toarray()[np.ix_(honest, honest)]
    covariance += np.diag(drawn.own_watts - covariance.sum(axis=1))
    assert np.diag(np.linalg.inv(covariance)).max() <= 1.0 / drawn.hidden_watts


def test_a_protected_run_leaves_what_its_own_graph_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[set[int]]()

    class Watched(ResidualNoise):
        def __init__(self, scenario: Scenario, masking: Masking) -> None:
            seen.append(neighbours_of(masking))
            super().__init__(scenario, masking)

    monkeypatch.setattr(impaired_reception, "ResidualNoise", Watched)
    asked, secret = DIGITS.with_overrides("air.reciprocity_nmse_db=-40"), Secret()
    simulate(asked)
    simulate(asked, secret=secret)
    public, private = seen[0], seen[-1]
    assert public == neighbours_of(masking_of(asked))
    assert private == neighbours_of(masking_of(asked, secret)) != public


def test_a_setting_knows_the_graph_of_its_run() -> None:
    setting, secret = AirSetting.of(DIGITS, 65, 10, np.full(1200, 50.0)), Secret()
    assert neighbours_of(setting.masking) == neighbours_of(masking_of(DIGITS))
    assert neighbours_of(replace(setting, secret=secret).masking) == neighbours_of(masking_of(DIGITS, secret))


class Rigged(Secret):
    """Gives one graph after the other, of known seeds."""

    def __init__(self, *seeds: int) -> None:
        self.seeds = seeds

    def generator(self, stream: int, chapter: int) -> Any:
        return SimpleNamespace(bytes=lambda count: self.seeds[chapter].to_bytes(count, "little"))


def test_a_graph_that_may_be_cut_is_drawn_again_and_then_refused() -> None:
    changes = ("workers.count=100", "radio.scheduled=100", "privacy.mask_degree=16", "privacy.colluders=2")
    asked = DIGITS.with_overrides(*changes)
    assert who_is_left(draw_graph(100, 16, 8), 2).is_cut
    masking = any_masking(asked, Rigged(8, 8, 1, 8))
    graph, honest = masking.graph, masking.honest
    assert np.array_equal(graph.successors, draw_graph(100, 16, 1).successors)
    assert not honest.is_cut
    for arithmetic in ("real", "integers"):
        with pytest.raises(PrivacyError, match=r"^privacy\.mask_degree = 16: of 4 graphs .* must be higher"):
            simulate(asked.with_overrides(f"privacy.arithmetic={arithmetic}"), secret=Rigged(8, 8, 8, 8))


@pytest.mark.parametrize("arithmetic", ["real", "integers"])
def test_statements_say_that_colluders_do_not_know_the_graph(arithmetic: str) -> None:
    said = "if colluders are chosen without knowing the graph"
    asked = DIGITS.with_overrides(f"privacy.arithmetic={arithmetic}")
    for changes, assumed in ((), True), (("privacy.colluders=0",), False), (("radio.scheduled=30",), False):
        design = planned_design(asked.with_overrides(*changes), UNIT, received_watts=1e-12)
        assert (said in Everyone().why(design)) == assumed
        assert (design.fact(facts.WorkersNoise).failure > 0) == assumed


def test_so_does_the_server_s_statement_where_it_rests_on_masks() -> None:
    """On the ideal air everybody's noise hides a worker in the sum, whoever knows the graph."""
    for changes, assumed in ((), False), (("air.reciprocity_nmse_db=-40",), True):
        design = planned_design(DIGITS.with_overrides(*changes), UNIT, received_watts=1e-12)
        stated = state_privacy(design, Server(colluders=12), "gdp", adjacency="remove-one", delta=1e-5)
        assert ("without knowing the graph" in stated.why) == assumed
        assert ("without knowing the graph" in Server(colluders=12).why(design)) == assumed
        assert (stated.hidden_failure > 0) == assumed


@pytest.mark.parametrize("secret", [None, Secret()])
def test_only_a_simulation_draws_its_integers_fast(secret: Secret | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where so many numbers are sent that a simulation does not form them: in protection each is."""
    fast = []
    real = integer_noise.draw_skellam

    def draw(variance: float, generator: Any, shape: tuple[int, ...], *, simulated: bool = False) -> Any:
        fast.append(simulated)
        return real(variance, generator, shape, simulated=simulated)

    monkeypatch.setattr(integer_noise, "draw_skellam", draw)
    monkeypatch.setattr(workers_noise, "_MOST_FORMED", 0)
    scenario = Scenario.preset("trustless-digits-digital").with_overrides("workers.count=60", "radio.scheduled=60")
    simulate_family([scenario], context=RunContext(secret=secret))
    assert fast
    assert set(fast) == {secret is None}
