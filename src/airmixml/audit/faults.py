"""Injected faults: an audit that does not catch them would not catch a mistake either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airmixml.errors import ScenarioError
from airmixml.wording import nearest, shown

if TYPE_CHECKING:
    import torch

    from airmixml.radio.senders import Sender


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with the mechanism; the claims stay those of the sound one.

    Attributes:
        name: as the command line spells it; empty for the sound mechanism.
        about: what is wrong, in words.
        noise_factor: deviation of the receiver noise over the stated one.
        sent_factor: what a worker sends over what its encoder declares.
        schedule_revealed: whether the release adversary is told who was scheduled.
    """

    name: str = ""
    about: str = ""
    noise_factor: float = 1.0
    sent_factor: float = 1.0
    schedule_revealed: bool = False

    def heard(self, noise_watts: float) -> float:
        """Return the noise power that there really is, per complex symbol."""
        return noise_watts * self.noise_factor**2

    def of(self, sender: Sender) -> Sender:
        """Return what workers really send."""
        return sender if self.sent_factor == 1.0 else _Louder(sender, self.sent_factor)


class _Louder:
    """Sends a multiple of what it should."""

    def __init__(self, sender: Sender, factor: float) -> None:
        self._sender, self._factor = sender, factor

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return the sum on the air; slots x symbols."""
        return self._sender.mix(sample_index, ratios) * self._factor


SOUND: Final = Fault()
FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault(name="half-noise", about="the receiver noise has half the stated deviation", noise_factor=0.5),
        Fault(name="wrong-sensitivity", about="workers send twice what their encoder declares", sent_factor=2.0),
        Fault(name="schedule-revealed", about="the release is told who was scheduled when", schedule_revealed=True),
    )
}


def fault_named(name: str) -> Fault:
    """Return the fault of that name; the sound mechanism for an empty one."""
    if not name:
        return SOUND
    if name not in FAULTS:
        raise ScenarioError(
            f"--fault = {shown(name)}: must be one of {', '.join(FAULTS)}; did you mean "
            f"{nearest(name.lower(), list(FAULTS))}?"
        )
    return FAULTS[name]
