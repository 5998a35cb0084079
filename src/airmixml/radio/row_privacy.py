"""What adversaries can learn of one row of the data, or of a person, who may be on several workers of a scenario."""

from contextlib import suppress

from airmixml.doors import ADVERSARIES
from airmixml.errors import PrivacyError
from airmixml.privacy import Design, PrivacyStatement
from airmixml.privacy.copies import state_row
from airmixml.radio.centring import CentringSlot, with_centring
from airmixml.radio.privacy_target import adversary_named, slots_target
from airmixml.scenario import Scenario


def row_amplitude(scenario: Scenario) -> float:
    """Return how much one row of a worker moves what it sends, at most, as a share of what all its rows may move.

    A row adds its own products to the sum, whose norm is that of ``rows_bound`` rows at most; shortening sums to a norm
    never sets two of them farther apart. So it is 1 / rows_bound. Where at most ``max_rows`` enter, another row may
    take the place of one that is removed: twice that. Rounding comes after the sum, that of the worker's own converter
    too: there one row may move all of it.
    """
    workers = scenario.workers
    if not workers.several_rows or workers.bits or scenario.air.dac_bits:
        return 1.0
    replaced = workers.max_rows and scenario.privacy.adjacency == "remove-one"
    return min(1.0, (2.0 if replaced else 1.0) / workers.rows_bound)


def row_statement(
    scenario: Scenario,
    design: Design,
    adversary: str,
    copies: int,
    centring: CentringSlot | None = None,
    joined: Design | None = None,
) -> PrivacyStatement:
    """Return what an adversary can learn of a row that so many workers hold; see ``privacy.copies``.

    Where a worker holds several rows, one of them moves its sum by at most ``row_amplitude``; on several workers the
    statement is for the person with all rows. ``joined`` has all copies as one worker, where the draws tell. Raises a
    PrivacyError where nothing is certified.
    """
    alone, several = copies == 1, scenario.workers.several_rows
    stated = state_row(
        design.scaled(row_amplitude(scenario) ** 2) if alone else design,
        adversary_named(adversary, scenario),
        copies,
        adjacency=scenario.privacy.adjacency,
        delta=slots_target(scenario)[1],
        joined=joined,
        unit="person" if several and not alone else "row",
    )
    return with_centring(stated, centring, copies)


def row_statements(
    scenario: Scenario,
    design: Design,
    copies: int,
    centring: CentringSlot | None = None,
    joined: Design | None = None,
) -> list[PrivacyStatement]:
    """Return the same for every adversary that something is certified against, the scenario's own first."""
    stated = []
    for adversary in dict.fromkeys([scenario.privacy.adversary, *ADVERSARIES.names]):
        with suppress(PrivacyError):
            stated.append(row_statement(scenario, design, adversary, copies, centring, joined))
    return stated
