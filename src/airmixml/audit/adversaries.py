"""As whom a scenario is attacked: what each adversary is told, which trials it makes, and what is claimed against it.

An adversary is one class here, in ``AUDITED``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from airmixml.audit.faults import Fault, nothing_to_reveal, why_nothing_is_hidden
from airmixml.errors import ScenarioError
from airmixml.privacy import Design
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from airmixml.audit.trials import Bench, Trials


class Server:
    """Hears sums, and knows the schedule."""

    name: ClassVar[str] = "server"
    title: ClassVar[str] = "Server: knows the schedule"
    attack: ClassVar[str] = "by the server"
    hears_sums: ClassVar[bool] = True

    def why_told(self, _scenario: Scenario, _design: Design, _fault: Fault) -> str:
        """Return why the adversary knows the schedule; empty where that is hidden from it."""
        return "the schedule is known"

    def trials(self, bench: Bench, worker: int, *, told: bool) -> tuple[Trials, Trials | None]:
        """Return scores of the best attack on a worker, and of a second one if there is any."""
        from airmixml.audit.hidden_schedule import hidden_schedule_trials  # here: they need torch
        from airmixml.audit.known_schedule import known_schedule_trials

        return known_schedule_trials(bench, worker) if told else hidden_schedule_trials(bench), None

    def claimed(self, design: Design) -> Design:
        """Return what claims are about: here the schedule that was drawn."""
        return design


class Release(Server):
    """Sees the mixtures alone, unless they tell the schedule too."""

    name = "release"
    title = "Release: sees only the mixtures"
    attack = "on the release"

    def why_told(self, scenario: Scenario, design: Design, fault: Fault) -> str:
        """Return why nothing hides the schedule; refuse what is not audited."""
        why = why_nothing_is_hidden(scenario, design)
        if not why and not scenario.air.is_ideal and scenario.privacy.noise_kind.brought:
            raise ScenarioError(
                "adversary = 'release': a hidden schedule on an imperfect air is not audited where workers bring "
                "noise; audit server or everyone"
            )
        if fault.schedule_revealed and why:
            raise ScenarioError(f"fault = {fault.name!r}: {nothing_to_reveal(why)}")
        return why

    def claimed(self, design: Design) -> Design:
        """Return a random schedule where it is hidden: trials have other schedules than the one that was drawn."""
        return design if design.schedule_told else design.before_the_draw()


class Everyone(Server):
    """The isolating listener: hears every worker separately."""

    name = "everyone"
    title = "Everyone: hears each worker alone"
    attack = "by everyone together"
    hears_sums = False

    def trials(self, bench: Bench, worker: int, *, told: bool) -> tuple[Trials, Trials | None]:
        """Return scores of an attack that listens to all workers, and of one that listens to the audited one alone."""
        from airmixml.audit.isolating_listener import isolating_trials  # here: it needs torch

        return isolating_trials(bench, worker), isolating_trials(bench, worker, alone=True)


AUDITED: Final[dict[str, Server]] = {whom.name: whom for whom in (Release(), Server(), Everyone())}
"""As whom an audit attacks, by name; an adversary that does not hear sums needs noise that workers bring."""
