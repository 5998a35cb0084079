"""What an audit is asked for; what makes no sense is refused in one line, before any data are loaded.

It may be asked to inject a fault: an audit that does not catch that would not catch a mistake either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airmixml.errors import ScenarioError
from airmixml.privacy import ADJACENCIES, Design, Sensitivity
from airmixml.radio.privacy_target import check_privacy_target, planned_design
from airmixml.scenario import Scenario
from airmixml.scenario.scope import require_real_numbers, require_single_rows
from airmixml.wording import did_you_mean, shown
from airmixml.workers.payloads import Payload, Places, Wrapper

if TYPE_CHECKING:
    import torch

_HEAR_SUMS: Final = ("release", "server")
AUDITED: Final = (*_HEAR_SUMS, "everyone")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with the mechanism; the claims stay those of the sound one.

    Attributes:
        name: as the command line spells it; empty for the sound mechanism.
        about: what is wrong, in words.
        noise_factor: deviation over the stated one of the noise that hides workers: the receiver's, or their own.
        sent_factor: what a worker sends over what its encoder declares.
        gain_factor: amplitude with which a worker is received over what the statement reckons with.
        schedule_revealed: whether the release adversary is told who was scheduled.
        unmasked: whether workers send without masks.
        reused_seeds: whether all slots, and all runs, have the same masks.
    """

    name: str = ""
    about: str = ""
    noise_factor: float = 1.0
    sent_factor: float = 1.0
    gain_factor: float = 1.0
    schedule_revealed: bool = False
    unmasked: bool = False
    reused_seeds: bool = False

    def heard(self, noise_watts: float) -> float:
        """Return the noise power that there really is, per complex symbol."""
        return noise_watts * self.noise_factor**2

    def of(self, payload: Payload) -> Payload:
        """Return what workers really send, as loud as it arrives."""
        factor = self.sent_factor * self.gain_factor
        return payload if factor == 1.0 else _Louder(payload, factor)


class _Louder(Wrapper):
    taken_for_exact = True

    def __init__(self, inner: Payload, factor: float) -> None:
        super().__init__(inner)
        self._factor = factor

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        return self._factor * self.inner.weighted_sum(index, weights, places)


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
        ),
        Fault(name="schedule-revealed", about="the release is told who was scheduled when", schedule_revealed=True),
        Fault(name="no-mask", about="workers send without masks", unmasked=True),
        Fault(name="reused-seed", about="every slot and every run has the same masks", reused_seeds=True),
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
        return self.adversaries or (_HEAR_SUMS if scenario.privacy.noise == "receiver" else AUDITED)

    def check(self, scenario: Scenario) -> None:
        """Refuse in one line what cannot be audited."""
        if any(adversary not in AUDITED for adversary in self.adversaries):
            raise ScenarioError(f"adversary = {', '.join(self.adversaries)!r}: must be among {', '.join(AUDITED)}")
        if "everyone" in self.adversaries and scenario.privacy.noise == "receiver":
            what = 'nothing hides a worker that is heard alone; use privacy.noise = "masked" or "workers"'
            raise ScenarioError(f"adversary = 'everyone': {what}")
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
        self._check_masks(scenario)
        if self.fault.schedule_revealed:
            if "release" not in self.audited(scenario):
                why = "the server knows the schedule anyway; audit the release (--adversary release)"
                raise ScenarioError(f"fault = {self.fault.name!r}: {why}")
            # Whether a power that follows from epsilon tells the schedule depends on the data; the rest does not.
            any_sensitivity = Sensitivity(removal=1.0, replacement=1.0)
            check_hidden(self.fault, scenario, planned_design(scenario, any_sensitivity, received_watts=0.0))

    def _check_masks(self, scenario: Scenario) -> None:
        """Refuse faults that are none for this kind of noise."""
        noise, fault = scenario.privacy.noise, self.fault
        if fault.unmasked or fault.reused_seeds:
            if noise != "masked":
                raise ScenarioError(f'fault = {fault.name!r}: there are no masks; use privacy.noise = "masked"')
            if "everyone" not in self.audited(scenario):
                why = "masks cancel in what others hear; audit everyone (--adversary everyone)"
                raise ScenarioError(f"fault = {fault.name!r}: {why}")
        if fault.gain_factor != 1.0 and noise != "receiver":
            why = "a worker's own noise grows with its gain, so that nothing is lost; choose another fault"
            raise ScenarioError(f"fault = {fault.name!r}: {why}")


def why_nothing_is_hidden(scenario: Scenario, design: Design) -> str:
    """Return why no credit is claimed for a hidden schedule; empty where it is."""
    if design.power_tells_schedule:
        return "received power may tell who was scheduled"
    if design.gains_tell_schedule:
        return "what the air does to a signal may tell who was scheduled"
    if design.ratios_tell_ranks and scenario.privacy.colluders:
        return "the ratios of colluding workers tell of the others' channels"
    everybody = design.everybody_sends and design.sampling == "without-replacement"
    return "everybody sends in every slot" if everybody and scenario.mixing.policy == "equalmix" else ""


def check_hidden(fault: Fault, scenario: Scenario, design: Design) -> None:
    """Refuse to reveal a schedule that is not hidden."""
    if why := why_nothing_is_hidden(scenario, design):
        nothing = f"nothing is hidden that could be revealed, since {why}; choose another fault"
        raise ScenarioError(f"fault = {fault.name!r}: {nothing}")
