"""Who lost how much: one line per worker, kept slot by slot in memory that grows with the workers alone."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.privacy.gaussian import gaussian_epsilons

_BARS: Final = 20


class Ledger:
    """What each worker spent, for an adversary who knows the schedule.

    Attributes:
        participations: slots that each worker took part in; shape workers.
        received_watts: sum over those slots of beta q^2, the worker's signal at the server; shape workers.
    """

    def __init__(self, workers: int) -> None:
        self.participations: NDArray[np.int64] = np.zeros(workers, dtype=np.int64)
        self.received_watts: NDArray[np.float64] = np.zeros(workers)

    def add(
        self,
        scheduled_workers: NDArray[np.int64],
        ratios: NDArray[np.float64],
        power_scale_watts: NDArray[np.float64],
        sending: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take slots into account.

        Args:
            scheduled_workers: who sent; slots x scheduled.
            ratios: q; slots x scheduled.
            power_scale_watts: beta; slots.
            sending: which of them do send, if not all; slots x scheduled.
        """
        workers = scheduled_workers.ravel()
        spent = (ratios**2 * power_scale_watts[:, None]).ravel()
        seats = workers if sending is None else scheduled_workers[sending]
        self.participations += np.bincount(seats, minlength=len(self.participations))
        self.received_watts += np.bincount(workers, spent, len(self.participations))

    def losses(self, *, noise_watts: float, sensitivity: float) -> NDArray[np.float64]:
        """Return mu^2 of each worker; shape workers."""
        return np.asarray(self.received_watts * sensitivity / (noise_watts / 2.0))

    def epsilons(self, *, noise_watts: float, sensitivity: float, delta: float) -> NDArray[np.float64]:
        """Return the exact epsilon of each worker at ``delta``; shape workers."""
        return gaussian_epsilons(np.sqrt(self.losses(noise_watts=noise_watts, sensitivity=sensitivity)), delta)

    def summary(self, epsilons: NDArray[np.float64]) -> dict[str, Any]:
        """Return worst, median and histogram over the workers as plain values."""
        counts, edges = np.histogram(epsilons, bins=_BARS, range=(0.0, max(float(epsilons.max()), 1e-300)))
        worst = int(np.argmax(epsilons))
        return {
            "worst_epsilon": float(epsilons[worst]),
            "worst_worker": worst,
            "worst_worker_slots": int(self.participations[worst]),
            "median_epsilon": float(np.median(epsilons)),
            "mean_epsilon": float(epsilons.mean()),
            "slots_per_worker": {
                "least": int(self.participations.min()),
                "median": float(np.median(self.participations)),
                "most": int(self.participations.max()),
            },
            "histogram": {"epsilon_edges": edges.tolist(), "workers": counts.tolist()},
        }
