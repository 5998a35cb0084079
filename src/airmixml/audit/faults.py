"""Faults that an audit injects on purpose: an audit that does not catch one would not catch a mistake either.

A fault is one entry of ``FAULTS``; what it breaks says where there is nothing to break.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airmixml.messages import ScenarioError, did_you_mean, shown
from airmixml.privacy.facts import Revealed

if TYPE_CHECKING:
    from airmixml.privacy import Design
    from airmixml.scenario import Scenario


def why_nothing_is_hidden(scenario: Scenario, design: Design | None = None) -> str:
    """Return why no credit is claimed for a hidden schedule; empty where it is.

    Without a design it is what is known before the data are: whether a power that follows from epsilon tells the
    schedule depends on them.
    """
    from airmixml.privacy import Sensitivity  # here: help texts need the names of faults
    from airmixml.radio.system import planned_design

    if design is None:
        any_sensitivity = Sensitivity(removal=1.0, replacement=1.0)
        design = planned_design(scenario, any_sensitivity, received_watts=0.0)
    told = (each for each in design.facts if isinstance(each, Revealed))
    if why := next(filter(None, (each.reveals_schedule(scenario.privacy.colluders) for each in told)), ""):
        return why
    everybody = design.everybody_sends and design.sampling == "without-replacement"
    return "everybody sends in every slot" if everybody and scenario.mixing.policy == "equalmix" else ""


def nothing_to_reveal(why: str) -> str:
    """Return the refusal to reveal a schedule that is not hidden, empty where it is hidden."""
    return why and f"nothing is hidden that could be revealed, since {why}; choose another fault"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with the mechanism; the claims stay those of the sound one."""

    name: str = ""  # as the command line spells it; empty for the sound mechanism
    about: str = ""  # what is wrong, in words
    # deviation over the stated one of the noise that hides workers: the receiver's, or theirs
    noise_factor: float = 1.0
    sent_factor: float = 1.0  # what a worker sends over what its encoder declares
    gain_factor: float = 1.0  # amplitude with which a worker is received over what the statement assumes
    schedule_revealed: bool = False  # whether the release adversary is told who was scheduled
    unmasked: bool = False  # whether workers send without masks
    reused_seeds: bool = False  # whether all slots, and all runs, have the same masks
    unclipped: bool = False  # whether workers send gradients of any length
    reused_rounds: bool = False  # whether all rounds of a run have the noise of the first
    coarse_steps: float = 0.0  # step to which workers round integers, in deviations of the noise; 0: the stated one

    def why_harmless(self, scenario: Scenario, audited: Sequence[str]) -> str:
        """Return why the fault breaks nothing in a scenario that is attacked as these adversaries; empty: it does."""
        noise, masks = scenario.privacy.noise_kind, self.unmasked or self.reused_seeds
        of_rounds, alone = self.unclipped or self.reused_rounds, set(audited) == {"everyone"}
        reasons = {
            "workers shorten what is longer than declared before they round it; choose another fault": (
                (self.sent_factor != 1.0 or self.unclipped) and not noise.real
            ),
            'nothing is rounded to integers; use privacy.arithmetic = "integers"': self.coarse_steps and noise.real,
            "a worker's own noise grows with its gain, so that nothing is lost; choose another fault": (
                self.gain_factor != 1.0 and noise.brought
            ),
            'there are no masks; use privacy.noise = "masked"': masks and not noise.masked,
            "masks cancel in what others hear; audit everyone (--adversary everyone)": (
                masks and "everyone" not in audited
            ),
            "an isolating listener hears no receiver; audit the server (--adversary server)": (
                self.reused_rounds and alone
            ),
            "there are no rounds; use learner.rounds": of_rounds and not scenario.has_rounds,
            "the server knows the schedule anyway; audit the release (--adversary release)": (
                self.schedule_revealed and "release" not in audited
            ),
        }
        why = next((reason for reason, holds in reasons.items() if holds), "")
        return nothing_to_reveal(why_nothing_is_hidden(scenario)) if self.schedule_revealed and not why else why

    def heard(self, noise_watts: float) -> float:
        """Return the noise power that there really is, per complex symbol."""
        return noise_watts * self.noise_factor**2


SOUND: Final = Fault()
_LOUDER: Final = "workers are received with 1.5 times the amplitude that the statement has for them"
_COARSER: Final = "workers round to steps of 8 deviations of the noise, which is on finer steps"

FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault(name="half-noise", about="the noise has half the stated deviation", noise_factor=0.5),
        Fault(name="no-noise", about="there is no noise", noise_factor=0.0),
        Fault(name="wrong-sensitivity", about="workers send twice what their encoder declares", sent_factor=2.0),
        Fault(name="coarse-step", about=_COARSER, coarse_steps=8.0),
        Fault(name="gain-above-bound", about=_LOUDER, gain_factor=1.5),
        Fault(name="schedule-revealed", about="the release is told who was scheduled when", schedule_revealed=True),
        Fault(name="no-mask", about="workers send without masks", unmasked=True),
        Fault(name="reused-seed", about="every slot and every run has the same masks", reused_seeds=True),
        Fault(name="no-clip", about="workers do not clip gradients", unclipped=True),
        Fault(name="reused-round-noise", about="the noise of every round is that of the first", reused_rounds=True),
    )
}
"""What can be broken on purpose, by name; an audit must catch it."""


def fault_named(name: str) -> Fault:
    """Return the fault of that name; the sound mechanism for an empty one."""
    if name and name not in FAULTS:
        near = did_you_mean(name, list(FAULTS))
        raise ScenarioError(f"--fault = {shown(name)}: must be one of {', '.join(FAULTS)}{near}")
    return FAULTS[name] if name else SOUND
