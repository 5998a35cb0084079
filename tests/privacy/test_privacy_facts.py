"""A new mechanism adds a kind of fact, a new adversary reads those it sees; nothing else has to know either."""

from dataclasses import dataclass, replace

import pytest

from airmixml.messages import PrivacyError
from airmixml.privacy import Adversary, Design, Eavesdropper, Release, Sensitivity, Server, facts

# A removed worker moves a slot by 0.4 x 6 over half of 4 W: 1.2.
DESIGN = Design(
    workers=100,
    scheduled=4,
    received_watts=(0.4,),
    counts=(10,),
    sensitivity=Sensitivity(removal=6.0, replacement=10.0),
    noise_watts=4.0,
    max_participations=1,
)


@dataclass(frozen=True, kw_only=True)
class Gossip(facts.Fact):
    """A mechanism of another package, in which workers tell each other when they send."""

    def reveals_schedule(self, colluders: int) -> str:
        return "workers gossip" if colluders else ""


@dataclass(frozen=True, kw_only=True)
class Neighbour(Adversary):
    """An adversary of another package, who receives all signals four times as strongly as the server."""

    name = "neighbour"
    about = "a receiver next door"
    knows_schedule = True

    @property
    def knows(self) -> str:
        return "everything, four times as strong"

    def why(self, design: Design) -> str:
        return "it is near"

    def heard(self, design: Design) -> Design:
        return design.scaled(4.0)


def test_a_kind_that_is_not_stated_says_nothing() -> None:
    assert not DESIGN.says(facts.ImperfectAir)
    assert DESIGN.fact(facts.ImperfectAir) == facts.ImperfectAir(gain_bound=1.0, gain_failure=0.0)
    assert DESIGN.stating(facts.ImperfectAir(gain_bound=2.0)).fact(facts.ImperfectAir).gain_bound == 2.0


def test_a_fact_takes_the_place_of_the_one_of_its_kind() -> None:
    first = DESIGN.stating(facts.Antennas(gain=2.0), facts.PowerTells())
    second = first.stating(facts.Antennas(gain=3.0))
    assert second.facts == (facts.Antennas(gain=3.0), facts.PowerTells())
    assert second.stating(facts.GainsTell()).facts[0] == facts.GainsTell()
    assert len({first, second, replace(first)}) == 2  # designs are keys of what was computed


def test_a_new_mechanism_takes_the_credit_for_a_hidden_schedule_from_those_whom_it_tells() -> None:
    gossiping = DESIGN.stating(Gossip())
    assert Release().mechanism(gossiping, "remove-one") == Release().mechanism(DESIGN, "remove-one")
    told = Release(colluders=1).mechanism(gossiping, "remove-one")
    assert told.sampling == "none"
    assert told.why.startswith("workers gossip, so ")
    assert Release(colluders=1).mechanism(DESIGN, "remove-one").sampling == "without-replacement"


@pytest.mark.parametrize("adversary", [Server(), Neighbour()])
def test_a_new_adversary_says_only_what_it_hears(adversary: Adversary) -> None:
    times = 4.0 if adversary.name == "neighbour" else 1.0
    assert adversary.mechanism(DESIGN, "remove-one").total == pytest.approx(times * 1.2)
    drawn = DESIGN.stating(facts.Drawn(received_watts=0.1, participations=1))
    assert adversary.mechanism(drawn, "remove-one").total == pytest.approx(times * 0.3)


def test_workers_noise_counts_where_the_receiver_s_is_less() -> None:
    """An isolating listener faces 5 W; a sum on the ideal air holds 4 W of the receiver and 3 W of the workers."""
    brought = DESIGN.stating(facts.WorkersNoise(alone_watts=5.0, in_sum_watts=3.0, by="noise", failure=1e-9))
    assert brought.in_workers_noise().noise_watts == 7.0
    assert brought.in_workers_noise().fact(facts.WorkersNoise).failure == 0.0
    rough = brought.stating(facts.ImperfectAir())
    assert rough.in_workers_noise().noise_watts == 5.0
    assert rough.in_workers_noise().fact(facts.WorkersNoise).failure == 1e-9
    rounding = facts.Rounding(step_mu=(1e-3,), numbers=(7,))
    integers = DESIGN.stating(facts.WorkersNoise(alone_watts=0.5, by="noise", rounding=rounding))
    assert integers.in_workers_noise().noise_watts == 0.5  # no receiver's noise counts
    assert Release().mechanism(integers, "remove-one").sampling == "none"


def test_a_draw_that_does_not_say_what_was_sent_hides_nobody_from_an_eavesdropper() -> None:
    eavesdropper = Eavesdropper(gain=1e-3, own_noise_watts=1.0)
    drawn = DESIGN.stating(facts.Drawn(received_watts=0.1, participations=1))
    with pytest.raises(PrivacyError, match="shifts up to inf"):
        eavesdropper.mechanism(drawn, "remove-one")
