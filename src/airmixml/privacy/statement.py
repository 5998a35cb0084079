"""An epsilon is never a bare number: it says whose noise, which adversary, which neighbours, which bound."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["PrivacyStatement"]


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """An (epsilon, delta) guarantee together with all that it assumes.

    Attributes:
        epsilon: privacy loss of one worker over all slots.
        delta: probability with which that may fail.
        adversary: who is protected against, and what they know.
        accountant: the bound that gives epsilon.
        adjacency: what neighbouring sets of workers are.
        sensitivity: the bound on ||input||^2 + ||label||^2 of one worker.
        sampling_rate: the share of workers per slot that the bound takes credit for; 1 where it takes none, because
            the received power told who was scheduled.
        noise_watts_per_symbol: noise power per complex symbol that the adversary is assumed to suffer.
        target_epsilon: the epsilon that was asked for, if the power was set to meet one.
    """

    epsilon: float
    delta: float
    adversary: str
    accountant: str
    adjacency: str
    sensitivity: float
    sampling_rate: float
    noise_watts_per_symbol: float
    target_epsilon: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"(epsilon {self.epsilon:.4g}, delta {self.delta:g}) by {self.accountant}, "
            f"adversary {self.adversary}, {self.adjacency} neighbours, sensitivity {self.sensitivity:g}, "
            f"noise {self.noise_watts_per_symbol:.3g} W per symbol"
        )
