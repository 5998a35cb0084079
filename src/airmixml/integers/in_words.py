"""How sums of integers are taken, in words."""

from collections.abc import Mapping
from typing import Any


def integers_in_words(facts: Mapping[str, Any]) -> str:
    """Return how sums of integers are taken, from the facts of a report or a plan."""
    rounding = f"rounding is {facts['rounding_share']:.1%} of the noise in the sum"
    noise = f"Skellam noise of {facts['noise_in_steps']:,.0f} steps"
    beyond = f" up to {facts['assumed_range']:g} times the root mean square" if facts["assumed_range"] else ""
    wraps = f"no sum{beyond} wraps around, except with probability {facts['wrap_failure']:g}"
    return f"modulo 2^{facts['bits']:g}: {noise}, {rounding}; {wraps}"
