"""What a system would really spend of its privacy whose power was set as if the air were ideal.

Every other command calibrates with the margin that an air needs, so that the target holds. Here the margin is left out:
the power is that of gains of 1, a noise floor as stated and one antenna; the epsilon is that of the gains that happen.
Pilots are in both.
"""

import hashlib
import json
import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from airmixml.errors import AirMixError
from airmixml.scenario import Air, Scenario
from airmixml.storage.files import ResultStore
from airmixml.version import __version__
from airmixml.wording import one_line

SLACK: Final = 1.01  #: A target counts as missed from 1 % above it


class Epsilons:
    """Computes epsilons of a scenario, whose power follows from a privacy target, on several airs.

    They are kept in a folder. ``dimensions`` are d_X as it leaves the encoder, and d_Y.
    """

    def __init__(self, scenario: Scenario, dimensions: tuple[int, int], folder: Path) -> None:
        self._scenario, self._dimensions, self._store = scenario, dimensions, ResultStore(folder)

    def realised(self, air: Air) -> float | None:
        """Return the epsilon on that air without any margin; None where it cannot be stated."""
        try:
            scenario = replace(self._scenario, air=air)
        except AirMixError:  # an air that cannot be
            return None
        content: list[Any] = [scenario.to_json(), self._dimensions, __version__]
        name = f"epsilon-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]}.json"
        kept = self._store.load(name, lambda values, _: math.nan if "error" in values else float(values["value"]))
        if kept is None:
            try:
                kept = _without_margin(scenario, *self._dimensions)
            except AirMixError as problem:
                self._store.save(name, {"error": one_line(str(problem))})
                return None
            self._store.save(name, {"value": kept})
        return None if math.isnan(kept) else kept


def _without_margin(scenario: Scenario, input_dim: int, label_dim: int) -> float:
    """Draw all slots on the scenario's air with the power of the ideal air, and state what the gains give."""
    from airmixml.radio.draws import AirSetting, draw_blocks
    from airmixml.radio.masking import with_masks_settled
    from airmixml.radio.system import sensitivity_of
    from airmixml.radio.tally import Tally, placed_distances

    distance_metres = placed_distances(scenario)
    ideal = replace(scenario, air=Air())
    # Noise and masks are those of the ideal air too; what hides a worker does not depend on how it is received.
    ideal = with_masks_settled(ideal)
    scenario = replace(scenario, privacy=ideal.privacy)
    sensitivity = sensitivity_of(scenario, input_dim, label_dim)  # with the pilots of this air
    watts = _calibrated(ideal, sensitivity, tuple(distance_metres.tolist()))
    setting = replace(AirSetting.of(scenario, input_dim, label_dim, distance_metres), private_received_watts=watts)
    tally = Tally(setting)
    for draws in draw_blocks(setting):
        tally.add_draws(draws)
    return tally.privacy.epsilon


@lru_cache(maxsize=8)
def _calibrated(scenario: Scenario, sensitivity: Any, distance_metres: tuple[float, ...]) -> float:
    import numpy as np

    from airmixml.radio.power_calibration import asked_received_watts

    return asked_received_watts(scenario, sensitivity, np.array(distance_metres))
