"""What an audit is asked for: as whom a scenario is attacked, with which trials, and which fault.

What makes no sense is refused in one line, before any data are loaded. An adversary is one class here, in ``AUDITED``:
what it is told, which trials it makes, and what is claimed against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from airmixml.audit.faults import SOUND, Fault, nothing_to_reveal, why_nothing_is_hidden
from airmixml.messages import ScenarioError
from airmixml.privacy import ADJACENCIES, Design
from airmixml.radio.privacy_target import check_privacy_target
from airmixml.scenario import Scenario
from airmixml.scenario.consistency import require_single_rows

if TYPE_CHECKING:
    from airmixml.audit.trials import Bench, Trials


class Server:
    """Hears sums, and knows the schedule."""

    name: ClassVar[str] = "server"
    title: ClassVar[str] = "Server: knows the schedule"
    attack: ClassVar[str] = "by the server"
    hears_sums: ClassVar[bool] = True

    def refusal(self, scenario: Scenario) -> str:
        """Return why this adversary is not audited; empty where it is."""
        noise = scenario.privacy.noise_kind
        if scenario.air.is_ideal or not (noise.brought and noise.real):
            return ""
        return (
            "on an imperfect air where workers bring noise, claims are those against everyone; audit everyone "
            "(--adversary everyone)"
        )

    def why_told(self, _scenario: Scenario, _design: Design, _fault: Fault) -> str:
        """Return why the adversary knows the schedule; empty where that is hidden from it."""
        return "the schedule is known"

    def trials(self, bench: Bench, worker: int, *, told: bool) -> Trials:
        """Return scores of the best attack on a worker."""
        from airmixml.audit.sums import hidden_schedule_trials, known_schedule_trials  # here: they need torch

        return known_schedule_trials(bench, worker) if told else hidden_schedule_trials(bench)

    def claimed(self, design: Design) -> Design:
        """Return what claims are about: here the schedule that was drawn."""
        return design


class Release(Server):
    """Sees the mixtures alone, unless they tell the schedule too."""

    name = "release"
    title = "Release: sees only the mixtures"
    attack = "on the release"

    def refusal(self, scenario: Scenario) -> str:
        if scenario.air.is_ideal or why_nothing_is_hidden(scenario):
            return super().refusal(scenario)
        return "a hidden schedule on an imperfect air is not audited; audit the server (--adversary server)"

    def why_told(self, scenario: Scenario, design: Design, fault: Fault) -> str:
        """Return why nothing hides the schedule; refuse a fault that would reveal it then."""
        why = why_nothing_is_hidden(scenario, design)
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

    def refusal(self, scenario: Scenario) -> str:
        unprotected = 'nothing hides a worker that is heard alone; use privacy.noise = "masked" or "workers"'
        return "" if scenario.privacy.noise_kind.brought else unprotected

    def trials(self, bench: Bench, worker: int, *, told: bool) -> Trials:
        from airmixml.audit.isolating_listener import isolating_trials  # here: it needs torch

        if bench.air.integers is not None:  # all that all hear is worth the sum of the honest workers
            return super().trials(bench, worker, told=True)
        return isolating_trials(bench, worker)


AUDITED: Final[dict[str, Server]] = {whom.name: whom for whom in (Release(), Server(), Everyone())}
"""As whom an audit attacks, by name; an adversary that does not hear sums needs noise that workers bring."""

CHOICES: Final[dict[str, tuple[str, ...]]] = {  # what ``--adversary`` may be, and whom it names
    "release": ("release",),
    "server": ("server",),
    "both": ("release", "server"),
    "everyone": ("everyone",),
    "all": ("release", "server", "everyone"),
}


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How a scenario is audited."""

    # of AUDITED; empty for all that are audited
    adversaries: tuple[str, ...] = ()
    adjacency: str = ""  # which neighbours; empty for the scenario's own
    trials: int = 10_000  # of which half have the canary
    confidence: float = 0.95  # with which all lower bounds on all these adversaries hold together
    fault: Fault = SOUND  # injected into the mechanism; claims are those of the sound one

    def neighbours(self, scenario: Scenario) -> str:
        return self.adjacency or scenario.privacy.adjacency

    def audited(self, scenario: Scenario) -> tuple[str, ...]:
        return self.adversaries or tuple(name for name, whom in AUDITED.items() if not whom.refusal(scenario))

    def check(self, scenario: Scenario) -> None:
        """Refuse in one line what cannot be audited."""
        if any(adversary not in AUDITED for adversary in self.adversaries):
            raise ScenarioError(f"adversary = {', '.join(self.adversaries)!r}: must be among {', '.join(AUDITED)}")
        for adversary in self.adversaries:
            if refusal := AUDITED[adversary].refusal(scenario):
                raise ScenarioError(f"adversary = {adversary!r}: {refusal}")
        if self.adjacency not in ("", *ADJACENCIES):
            raise ScenarioError(f"adjacency = {self.adjacency!r}: must be one of {', '.join(ADJACENCIES)}")
        if not 100 <= self.trials <= 10**8:
            allowed = "must be at least 100, half of them with the canary, and at most 10^8"
            raise ScenarioError(f"trials = {self.trials}: {allowed}")
        if not 0.5 <= self.confidence < 1.0:
            raise ScenarioError(f"confidence = {self.confidence:g}: must be at least 0.5 and below 1, such as 0.95")
        require_single_rows(scenario.workers, "an audit")
        check_privacy_target(scenario)
        if why := self.fault.why_harmless(scenario, self.audited(scenario)):
            raise ScenarioError(f"fault = {self.fault.name!r}: {why}")
