"""What an audit is asked for; what makes no sense is refused in one line, before any data are loaded."""

from dataclasses import dataclass

from airmixml.audit.adversaries import AUDITED
from airmixml.audit.faults import SOUND, Fault
from airmixml.errors import ScenarioError
from airmixml.privacy import ADJACENCIES
from airmixml.radio.power_calibration import check_privacy_target
from airmixml.scenario import Scenario
from airmixml.scenario.consistency import require_real_numbers, require_single_rows


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How a scenario is audited.

    Attributes:
        adversaries: as whom to attack, of "release", "server" and "everyone"; empty for the first two, and for everyone
            too where workers bring noise.
        adjacency: which neighbours; empty for the scenario's own.
        trials: of which half have the canary.
        canaries: workers that are canaries in one real run; 0 for no such run.
        confidence: with which all lower bounds on all these adversaries hold together.
        fault: injected into the mechanism; claims are those of the sound one.
    """

    adversaries: tuple[str, ...] = ()
    adjacency: str = ""
    trials: int = 10_000
    canaries: int = 1000
    confidence: float = 0.95
    fault: Fault = SOUND

    def neighbours(self, scenario: Scenario) -> str:
        """Return which neighbours are audited."""
        return self.adjacency or scenario.privacy.adjacency

    def audited(self, scenario: Scenario) -> tuple[str, ...]:
        """Return as whom to attack."""
        by_receiver = not scenario.privacy.noise_kind.brought
        return self.adversaries or tuple(name for name, whom in AUDITED.items() if whom.hears_sums or not by_receiver)

    def check(self, scenario: Scenario) -> None:
        """Refuse in one line what cannot be audited."""
        if any(adversary not in AUDITED for adversary in self.adversaries):
            raise ScenarioError(f"adversary = {', '.join(self.adversaries)!r}: must be among {', '.join(AUDITED)}")
        isolating = [name for name in self.adversaries if not AUDITED[name].hears_sums]
        if isolating and not scenario.privacy.noise_kind.brought:
            what = 'nothing hides a worker that is heard alone; use privacy.noise = "masked" or "workers"'
            raise ScenarioError(f"adversary = {isolating[0]!r}: {what}")
        if self.adjacency not in ("", *ADJACENCIES):
            raise ScenarioError(f"adjacency = {self.adjacency!r}: must be one of {', '.join(ADJACENCIES)}")
        if not 100 <= self.trials <= 10**8:
            allowed = "at least 100, half of them with the canary, and at most 10^8"
            raise ScenarioError(f"trials = {self.trials}: must be {allowed}")
        if not 0 <= self.canaries <= 10**6:
            allowed = "at least 0 (no run with many canaries) and at most 10^6"
            raise ScenarioError(f"canaries = {self.canaries}: must be {allowed}")
        if not 0.5 <= self.confidence < 1.0:
            raise ScenarioError(f"confidence = {self.confidence:g}: must be at least 0.5 and below 1, such as 0.95")
        require_real_numbers(scenario.privacy, "an audit")
        require_single_rows(scenario.workers, "an audit")
        check_privacy_target(scenario)
        if why := self.fault.why_harmless(scenario, self.audited(scenario)):
            raise ScenarioError(f"fault = {self.fault.name!r}: {why}")
