"""The least epsilon that an accountant certifies for a design against an adversary.

An epsilon is never a bare number: a statement says whose noise, which adversary, which neighbours, which bound.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

from airmixml.errors import PrivacyError
from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.mechanism import GaussianSlots, accountant_named

# Beyond this a delta is needed that no accountant resolves.
_LARGEST_STEP: Final = 300.0
_HEADROOM: Final = 1.01


@lru_cache(maxsize=4096)
def certified_epsilon(accountant: str, mechanism: GaussianSlots, delta: float, *, quickly: bool = False) -> float:
    """Return the accountant's epsilon, or raise a PrivacyError that says why it has none."""
    chosen = accountant_named(accountant)
    refusal = chosen.refusal(mechanism)
    if refusal:
        raise PrivacyError(
            f"privacy.accountant = {accountant!r}: cannot treat sampling {mechanism.sampling} with "
            f"{mechanism.adjacency} neighbours: {refusal}"
        )
    if not 0.0 < delta < 1.0:
        raise PrivacyError(f"privacy.delta = {delta:g}: must lie between 0 and 1")
    epsilon_of = chosen.quick_epsilon if quickly else chosen.epsilon
    return epsilon_of(mechanism, delta) if mechanism.steps == 1 else _two_steps(epsilon_of, mechanism, delta)


def _two_steps(epsilon_of: Callable[[GaussianSlots, float], float], mechanism: GaussianSlots, delta: float) -> float:
    """Return the epsilon of neighbours two steps apart: (2 e, (1 + exp e) d) where one step has (e, d).

    The smaller d must be, the larger e gets, so it is raised until the two agree.
    """
    step = epsilon_of(mechanism, delta / 2.0)
    while step < _LARGEST_STEP:
        enough = _HEADROOM * step
        found = epsilon_of(mechanism, delta / (1.0 + math.exp(enough)))
        if found <= enough:
            return 2.0 * found
        step = found
    return math.inf


def considered_views(
    design: Design, adversary: Adversary, accountant: str, adjacency: str
) -> tuple[GaussianSlots, ...]:
    """Return the descriptions of the slots over which the least epsilon is taken.

    Renyi and privacy-loss accounting take all. The paper's bounds stay what they are in print, and ``gdp`` leaves
    hidden schedules to others, unless participations are limited: then a known schedule is what to fall back on.
    """
    views = adversary.views(design, adjacency)
    every = accountant_named(accountant).considers_all_views or design.max_participations
    return views if every else views[:1]


def least_epsilon(
    design: Design, adversary: Adversary, accountant: str, *, adjacency: str, delta: float, quickly: bool = False
) -> tuple[float, GaussianSlots]:
    """Return the least epsilon over the considered views that the accountant treats, and the view that gives it."""
    found: list[tuple[float, GaussianSlots]] = []
    problems: list[PrivacyError] = []
    for view in considered_views(design, adversary, accountant, adjacency):
        try:
            found.append((certified_epsilon(accountant, view, delta, quickly=quickly), view))
        except PrivacyError as problem:
            problems.append(problem)
    if not found:
        raise problems[0]
    return min(found, key=lambda pair: pair[0])


def refusal(design: Design, adversary: Adversary, accountant: str, adjacency: str) -> str:
    """Return why the accountant can treat no view of the adversary; empty if it can treat one."""
    views = considered_views(design, adversary, accountant, adjacency)
    reasons = [accountant_named(accountant).refusal(view) for view in views]
    return "" if "" in reasons else reasons[0]


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
