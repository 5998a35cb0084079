import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from complex_baseband import received_amplitude
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.radio.mixing import PowerControl, control_power
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of
from airmixml.scenario import Scenario

MAX_POWER_WATTS = 10 ** (-0.7)  # 23 dBm


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(each) for each in arrays]


def controlled(asked: Scenario, private_watts: float, ratios: np.ndarray, magnitude: np.ndarray) -> Any:
    """The power control as arrays."""
    control: PowerControl = control_power(asked, private_watts, *tensors(ratios, magnitude))
    return SimpleNamespace(**{name: value.numpy() for name, value in vars(control).items()})


def test_powers_by_hand() -> None:
    """Two workers, shares 3/4 and 1/4, channels 0.1 and 0.2: |h|^2/q^2 is 0.01778 and 0.64."""
    ratios, magnitude = tensors(np.array([[0.75, 0.25]]), np.array([[0.1, 0.2]]))
    two_watts = scenario("mixing.power=max", f"radio.max_power_dbm={10.0 * np.log10(2000.0)}")
    control = control_power(two_watts, 0.0, ratios, magnitude)
    beta = 2.0 * 0.01 / 0.5625
    assert control.power_scale_watts.tolist() == pytest.approx([beta])
    power = control.power_watts.numpy()
    assert power == pytest.approx(np.array([[beta * 0.5625 / 0.01, beta * 0.0625 / 0.04]]))
    assert received_amplitude(power, magnitude.numpy()) == pytest.approx([np.sqrt(beta)])


def scenario(*changes: str) -> Scenario:
    return Scenario().with_overrides("radio.scheduled=4", *changes)


def private_watts(asked: Scenario) -> float:
    """For Iris: four inputs, three classes."""
    return private_received_watts(asked, sensitivity_of(asked, 4, 3)) if asked.mixing.power == "dp" else 0.0


@given(
    seed=st.integers(0, 10**6),
    log_alpha=st.floats(-8, 12),
    power=st.sampled_from(["max", "dp", "fixed"]),
    log_epsilon=st.floats(0.8, 8),
    log_scale=st.floats(-20, 5),
)
@settings(max_examples=60, deadline=None)
def test_no_worker_ever_exceeds_the_limit(
    seed: int, log_alpha: float, power: str, log_epsilon: float, log_scale: float
) -> None:
    rng = np.random.default_rng(seed)
    ratios = rng.dirichlet(np.full(4, 10.0 ** min(log_alpha, 3)), size=50)
    magnitude = rng.rayleigh(1e-5, size=(50, 4)) + 1e-12
    asked = scenario(
        f"mixing.power={power}", f"privacy.epsilon={10.0**log_epsilon}", f"mixing.power_scale_watts={10.0**log_scale}"
    )
    control = controlled(asked, private_watts(asked), ratios, magnitude)
    assert control.power_watts.max() <= MAX_POWER_WATTS * (1 + 1e-12)
    if power == "max":
        assert control.power_watts.max(axis=1) == pytest.approx(np.full(50, MAX_POWER_WATTS))
        assert not control.limited.any()
    # The shares that arrive are the ratios, whatever the power.
    arriving = np.sqrt(control.power_watts) * magnitude
    assert arriving / arriving.sum(axis=1, keepdims=True) == pytest.approx(ratios, abs=1e-9)
    assert received_amplitude(control.power_watts, magnitude) == pytest.approx(np.sqrt(control.power_scale_watts))


def test_a_scale_that_would_exceed_the_limit_is_lowered_and_said_so() -> None:
    ratios = np.full((2, 4), 0.25)
    magnitude = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1e-6]])
    control = controlled(scenario("mixing.power=fixed", "mixing.power_scale_watts=0.01"), 0.0, ratios, magnitude)
    assert control.limited.tolist() == [False, True]
    assert control.power_scale_watts == pytest.approx([0.01, MAX_POWER_WATTS * 1e-12 / 0.0625], rel=1e-9, abs=0)


def test_privacy_power_is_proposition_2() -> None:
    """delta = 0.01, T = 1000, r = 4/2000, so the branches meet at epsilon = 4.6212; with plain formulas."""
    ratios, magnitude = np.array([[0.4, 0.3, 0.2, 0.1]]), np.ones((1, 4))
    rate = 4 / 2000

    def grown(epsilon: float) -> float:
        return math.exp((epsilon + math.log(0.01)) / 1000)

    first = math.log((grown(5.0) - 1) / (2 * rate**2))
    second = math.log((grown(4.61) - (1 - 4 * rate**2)) / (4 * rate**2))
    for epsilon, exponent in ((5.0, first), (4.61, second)):
        asked = scenario(f"privacy.epsilon={epsilon}")
        control = controlled(asked, private_watts(asked), ratios, magnitude)
        by_hand = (10 ** (-14.4) / 2) * exponent / (0.16 * 7)
        assert control.power_scale_watts == pytest.approx([by_hand], rel=1e-6, abs=0)
