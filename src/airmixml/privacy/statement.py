"""An epsilon is never a bare number: it says whose noise, which adversary, which neighbours, which bound."""

from dataclasses import asdict, dataclass
from typing import Any

from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.evaluation import least_epsilon


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """An (epsilon, delta) guarantee together with all that it assumes.

    Attributes:
        epsilon: privacy loss of one worker over all slots.
        delta: probability with which that may fail.
        adversary: who is protected against.
        accountant: the bound that gives epsilon.
        adjacency: what neighbouring sets of workers are: "replace-one" or "remove-one".
        sensitivity: the bound on the squared move of what one worker sends that was used.
        unit: whose privacy it is: one worker's. A person on several workers is protected less.
        given: which schedule it holds for: a random one, any within the limit, or the one that was drawn.
        schedule_failure: probability, not in delta, with which a worker is drawn more often than assumed.
        sampling: how the hidden schedule was drawn; "none" where no credit is taken for it.
        sampling_rate: the share of workers per slot that the bound takes credit for; 1 where it takes none.
        compositions: slots (or rounds) that compose.
        noise_watts_per_symbol: noise power per complex symbol that the adversary's receiver is assumed to have; half of
            it falls on the real part that carries the signal.
        colluders: workers that help the adversary.
        knows: what the adversary knows, in words.
        why: why this epsilon follows, in words.
        target_epsilon: the epsilon that was asked for, if the power was set to meet one.
    """

    epsilon: float
    delta: float
    adversary: str
    accountant: str
    adjacency: str
    sensitivity: float
    sampling: str
    sampling_rate: float
    compositions: int
    noise_watts_per_symbol: float
    unit: str = "worker"
    given: str = "a random schedule"
    schedule_failure: float = 0.0
    colluders: int = 0
    knows: str = ""
    why: str = ""
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


def state_privacy(
    design: Design,
    adversary: Adversary,
    accountant: str,
    *,
    adjacency: str,
    delta: float,
    target_epsilon: float | None = None,
) -> PrivacyStatement:
    """Return what the accountant certifies for the design against the adversary, or raise a PrivacyError."""
    epsilon, mechanism = least_epsilon(design, adversary, accountant, adjacency=adjacency, delta=delta)
    return PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        adversary=adversary.name,
        accountant=accountant,
        adjacency=adjacency,
        sensitivity=mechanism.squared_move,
        sampling=mechanism.sampling,
        sampling_rate=mechanism.sampling_rate,
        compositions=mechanism.composed,
        noise_watts_per_symbol=adversary.noise_watts(design),
        given=mechanism.given,
        schedule_failure=mechanism.schedule_failure,
        colluders=adversary.colluders,
        knows=adversary.knows,
        why=mechanism.why,
        target_epsilon=target_epsilon,
    )
