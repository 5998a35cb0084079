"""What an audit is asked for; what makes no sense is refused in one line, before any data are loaded.

It may be asked to inject a fault: an audit that does not catch that would not catch a mistake either. A fault is one
entry of ``FAULTS``: what it breaks, and where there is nothing to break.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airmixml.audit.adversaries import AUDITED, nothing_to_reveal, why_nothing_is_hidden
from airmixml.errors import ScenarioError
from airmixml.privacy import ADJACENCIES, Sensitivity
from airmixml.radio.privacy_target import check_privacy_target, planned_design
from airmixml.scenario import Scenario
from airmixml.scenario.scope import require_real_numbers, require_single_rows
from airmixml.wording import did_you_mean, shown

if TYPE_CHECKING:
    from airmixml.radio.senders import Sender


def _always_breaks(_scenario: Scenario, _audited: Sequence[str]) -> str:
    return ""


def _hidden_schedule_only(scenario: Scenario, audited: Sequence[str]) -> str:
    if "release" not in audited:
        return "the server knows the schedule anyway; audit the release (--adversary release)"
    # Whether a power that follows from epsilon tells the schedule depends on the data; the rest does not.
    any_sensitivity = Sensitivity(removal=1.0, replacement=1.0)
    why = why_nothing_is_hidden(scenario, planned_design(scenario, any_sensitivity, received_watts=0.0))
    return nothing_to_reveal(why) if why else ""


def _masks_only(scenario: Scenario, audited: Sequence[str]) -> str:
    if scenario.privacy.noise != "masked":
        return 'there are no masks; use privacy.noise = "masked"'
    if "everyone" not in audited:
        return "masks cancel in what others hear; audit everyone (--adversary everyone)"
    return ""


def _receiver_noise_only(scenario: Scenario, _audited: Sequence[str]) -> str:
    if scenario.privacy.noise == "receiver":
        return ""
    return "a worker's own noise grows with its gain, so that nothing is lost; choose another fault"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with the mechanism; the claims stay those of the sound one.

    Attributes:
        name: as the command line spells it; empty for the sound mechanism.
        about: what is wrong, in words.
        noise_factor: deviation over the stated one of the noise that hides workers: the receiver's, or their own.
        sent_factor: what a worker sends over what its encoder declares.
        gain_factor: amplitude with which a worker is received over what the statement assumes.
        schedule_revealed: whether the release adversary is told who was scheduled.
        unmasked: whether workers send without masks.
        reused_seeds: whether all slots, and all runs, have the same masks.
        why_harmless: returns why the fault breaks nothing in a scenario, attacked as these adversaries; else empty.
    """

    name: str = ""
    about: str = ""
    noise_factor: float = 1.0
    sent_factor: float = 1.0
    gain_factor: float = 1.0
    schedule_revealed: bool = False
    unmasked: bool = False
    reused_seeds: bool = False
    why_harmless: Callable[[Scenario, Sequence[str]], str] = _always_breaks

    def heard(self, noise_watts: float) -> float:
        """Return the noise power that there really is, per complex symbol."""
        return noise_watts * self.noise_factor**2

    def of(self, sender: Sender) -> Sender:
        """Return what workers really send, as loud as it arrives."""
        factor = self.sent_factor * self.gain_factor
        if factor == 1.0:
            return sender
        from airmixml.audit.canaries import AlteredSender  # here: it needs torch

        return AlteredSender(sender=sender, factor=factor)


SOUND: Final = Fault()

FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault(name="half-noise", about="the noise has half the stated deviation", noise_factor=0.5),
        Fault(name="wrong-sensitivity", about="workers send twice what their encoder declares", sent_factor=2.0),
        Fault(
            name="gain-above-bound",
            about="workers are received with 1.5 times the amplitude that the statement has for them",
            gain_factor=1.5,
            why_harmless=_receiver_noise_only,
        ),
        Fault(
            name="schedule-revealed",
            about="the release is told who was scheduled when",
            schedule_revealed=True,
            why_harmless=_hidden_schedule_only,
        ),
        Fault(name="no-mask", about="workers send without masks", unmasked=True, why_harmless=_masks_only),
        Fault(
            name="reused-seed",
            about="every slot and every run has the same masks",
            reused_seeds=True,
            why_harmless=_masks_only,
        ),
    )
}
"""What can be broken on purpose, by name; an audit must catch it."""


def fault_named(name: str) -> Fault:
    """Return the fault of that name; the sound mechanism for an empty one."""
    if name and name not in FAULTS:
        near = did_you_mean(name, list(FAULTS))
        raise ScenarioError(f"--fault = {shown(name)}: must be one of {', '.join(FAULTS)}{near}")
    return FAULTS[name] if name else SOUND


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
        by_receiver = scenario.privacy.noise == "receiver"
        return self.adversaries or tuple(name for name, whom in AUDITED.items() if whom.hears_sums or not by_receiver)

    def check(self, scenario: Scenario) -> None:
        """Refuse in one line what cannot be audited."""
        if any(adversary not in AUDITED for adversary in self.adversaries):
            raise ScenarioError(f"adversary = {', '.join(self.adversaries)!r}: must be among {', '.join(AUDITED)}")
        isolating = [name for name in self.adversaries if not AUDITED[name].hears_sums]
        if isolating and scenario.privacy.noise == "receiver":
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
