"""What losses are together and whether they keep a budget: the rules of every ledger, of one worker or of millions.

A loss has a Gaussian part and a rest. Gaussian mechanisms add up in mu^2, exactly (Dong, Roth and Su 2022, Cor. 3.3);
for the rest epsilons and deltas add up (basic composition). With a budget (E, D) a worker has spent, at D,

    epsilon = gaussian_epsilon(sqrt(sum mu^2), D - sum delta) + sum epsilon.

A budget is fixed before anything is sent, so that later mechanisms may be chosen by what earlier ones showed: both sums
are privacy filters (Rogers et al. 2016 for epsilons and deltas; Smith and Thakurta 2022 and, worker by worker, Koskela,
Tobaben and Honkela 2023 for mu^2). Every sum is rounded up, and what is left is rounded down.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.arrays import Doubles
from airmixml.messages import PrivacyError
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_epsilons, gaussian_mu

_LEAST_EPSILON: Final = 1e-300  # stands for 0, of which mu is not asked
_LARGEST_SQUARED_MU: Final = 1e290
_LARGEST_BUDGET: Final = 1e100
_SHOWN_LESS: Final = 1.0 - 1e-9  # so that what is said to fit does, however it is rounded on its way


def add_up(first: ArrayLike, second: ArrayLike) -> Doubles:
    """Return the sum of numbers that are not negative, never below the true one; arrays broadcast."""
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return np.where(one == 0.0, other, np.where(other == 0.0, one, np.nextafter(one + other, np.inf)))


def take_off(whole: float, part: float) -> float:
    """Return the difference, never above the true one and never below 0."""
    return whole if part == 0.0 else max(0.0, math.nextafter(whole - part, -math.inf))


def root_up(square: ArrayLike) -> Doubles:
    """Return the square root, never below the true one."""
    values = np.asarray(square, dtype=np.float64)
    return np.where(values == 0.0, 0.0, np.nextafter(np.sqrt(values), np.inf))


@dataclass(frozen=True, kw_only=True, eq=False)
class Loss:
    """What workers lose to one adversary; each has the shape workers, or 1 where it is the same for all."""

    squared_mu: Doubles  #: mu^2 of all that is Gaussian
    epsilon: Doubles  #: of all else, added up
    delta: Doubles  #: of all else, added up, with the probabilities that a statement fails for another reason

    def __post_init__(self) -> None:
        shapes = {name: part.shape for name, part in self.parts.items()}
        if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values()) - {(1,)}) > 1:
            told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise PrivacyError(f"shapes of a loss: {told}; each must be one number, or one for each worker")
        for name, most in (("squared_mu", _LARGEST_SQUARED_MU), ("epsilon", math.inf), ("delta", math.inf)):
            values = getattr(self, name)
            if len(wrong := values[~((values >= 0.0) & (values < most))]):
                below = f" and below {most:g}" if math.isfinite(most) else ""
                raise PrivacyError(f"{name} = {wrong[0]:g} of a loss: must be finite, at least 0{below}")

    @classmethod
    def of(cls, *, squared_mu: ArrayLike = 0.0, epsilon: ArrayLike = 0.0, delta: ArrayLike = 0.0) -> Self:
        """Return the loss of these numbers or arrays, those that are left out being 0."""
        parts = (np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in (squared_mu, epsilon, delta))
        return cls(**dict(zip(PARTS, parts, strict=True)))

    @classmethod
    def nothing(cls, workers: int) -> Self:
        """Return the loss of so many workers before anything is sent."""
        return cls(**{name: np.zeros(workers) for name in PARTS})

    def __add__(self, other: "Loss") -> "Loss":
        """Return both together, rounded up."""
        return Loss(**{name: add_up(getattr(self, name), getattr(other, name)) for name in PARTS})

    def of_workers(self, who: Any) -> "Loss":
        """Return the loss of these workers alone, in their order; ``who`` indexes workers."""
        return Loss(**{name: part[who] if len(part) > 1 else part for name, part in self.parts.items()})

    def spread(self) -> "Loss":
        """Return the same with an entry for each worker."""
        workers = max(map(len, self.parts.values()))
        return Loss(**{name: np.broadcast_to(part, workers) for name, part in self.parts.items()})

    def worst(self) -> "Loss":
        """Return a loss that no worker exceeds."""
        return Loss.of(**{name: float(part.max(initial=0.0)) for name, part in self.parts.items()})

    @property
    def parts(self) -> dict[str, Doubles]:
        """The three parts by name."""
        return {name: getattr(self, name) for name in PARTS}


PARTS: Final = ("squared_mu", "epsilon", "delta")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The (epsilon, delta) that no worker's losses may exceed together."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < _LARGEST_BUDGET:
            raise PrivacyError(
                f"epsilon = {self.epsilon:g} of a budget: must be above 0 and below {_LARGEST_BUDGET:g}, beyond which "
                "nothing can be added up"
            )
        if not 0.0 < self.delta < 1.0:
            raise PrivacyError(f"delta = {self.delta:g} of a budget: must lie between 0 and 1")

    def epsilons(self, spent: Loss) -> Doubles:
        """Return what each worker has spent, at the budget's delta; infinite where delta is used up. Shape workers."""
        spent = spent.spread()
        found = np.empty(len(spent.squared_mu))
        for epsilon, delta, place in _alike(spent):
            squares, rest = spent.squared_mu[place], take_off(self.delta, delta)
            gaussian = np.where(squares > 0.0, np.inf, 0.0 if delta <= self.delta else np.inf)
            if rest > 0.0:
                gaussian = gaussian_epsilons(root_up(squares), rest)
            found[place] = add_up(gaussian, epsilon)
        return found

    def squared_mu_left(self, epsilon: float, delta: float) -> float:
        """Return the largest sum of mu^2 beside ``epsilon`` and ``delta`` spent otherwise; negative where none is."""
        if epsilon > self.epsilon or delta > self.delta:
            return -1.0
        rest = take_off(self.delta, delta)
        if rest == 0.0:
            return 0.0
        return gaussian_mu(max(take_off(self.epsilon, epsilon), _LEAST_EPSILON), rest) ** 2

    def keeps(self, spent: Loss) -> NDArray[np.bool_]:
        """Return for each worker whether the losses keep the budget; shape workers."""
        spent = spent.spread()
        kept = np.empty(len(spent.squared_mu), dtype=bool)
        for epsilon, delta, place in _alike(spent):
            kept[place] = spent.squared_mu[place] <= self.squared_mu_left(epsilon, delta)
        return kept

    def fullest(self, spent: Loss) -> int:
        """Return the worker that has spent most (its place in the arrays), without asking for each one's epsilon."""
        spent = spent.spread()
        everybody = np.arange(len(spent.squared_mu))
        places = [everybody[place] for _, _, place in _alike(spent)]
        worst = np.array([each[int(spent.squared_mu[each].argmax())] for each in places])
        return int(worst[int(self.epsilons(spent.of_workers(worst)).argmax())])

    def epsilon_left(self, spent: Loss, *, delta: float, gaussian: bool = True, times: int = 1) -> float:
        """Return the largest epsilon at ``delta`` that one worker may still spend ``times`` times; 0 where none."""
        epsilon, lost = float(spent.epsilon.max()), float(spent.delta.max())
        if gaussian:
            left = self.squared_mu_left(epsilon, lost) - float(spent.squared_mu.max())
            return gaussian_epsilon(math.sqrt(left / times), delta) * _SHOWN_LESS if left > 0.0 else 0.0
        lost = float(add_up(lost, times * delta))
        spent_at = float(self.epsilons(Loss.of(squared_mu=spent.squared_mu, epsilon=epsilon, delta=lost)).max())
        return max(0.0, self.epsilon - spent_at) / times * _SHOWN_LESS


def _alike(spent: Loss) -> list[tuple[float, float, NDArray[np.bool_] | slice]]:
    """Return the different pairs of epsilon and delta, and the workers that have each: of them mu^2 alone differs."""
    if not len(spent.epsilon):
        return []
    first = (float(spent.epsilon[0]), float(spent.delta[0]))
    if bool((spent.epsilon == first[0]).all() and (spent.delta == first[1]).all()):
        return [(*first, slice(None))]
    pairs, place = np.unique(np.stack([spent.epsilon, spent.delta]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    return [(epsilon, delta, place == number) for number, (epsilon, delta) in enumerate(pairs.T.tolist())]


# Which adversary learns at least what another does, so that a loss to the first bounds one to the second. Only what is
# proven: the second's view is computed from the first's, with noise of its own at most, and post-processing reveals
# nothing. ``everyone`` hears each worker by itself and without noise, so it has what a server or an eavesdropper
# receives, and knows who sent. A server has the mixtures that are released, and the schedule besides. An eavesdropper
# hears what no server does, and a server knows what no eavesdropper does: neither covers the other.
_COVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "everyone": ("server", "release", "eavesdropper"),
    "server": ("release",),
}


def loss_to(adversary: str, losses: Mapping[str, Loss | None]) -> Loss:
    """Return the loss to an adversary: its own, else the one to an adversary that learns at least as much.

    None says that nothing bounds its own, and that the neighbours of a stronger one's are not the same.
    """
    own = losses.get(adversary)
    if own is not None:
        return own
    for stronger, loss in losses.items():
        if adversary not in losses and loss is not None and adversary in _COVERS.get(stronger, ()):
            return loss
    stated = ", ".join(name for name, loss in losses.items() if loss is not None) or "nobody"
    raise PrivacyError(
        f"adversary {adversary}: the ledger keeps a budget against it, and nothing bounds what this mechanism reveals "
        f"to it (there is a bound for {stated}); state one, or keep a ledger without that adversary"
    )
