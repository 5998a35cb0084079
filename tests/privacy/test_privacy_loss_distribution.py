"""Losses composed by our transform, beside dp-accounting's and by hand."""

import math

import numpy as np
import pytest
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.rdp.rdp_privacy_accountant import (
    _compute_rdp_poisson_subsampled_gaussian as library_poisson,
)
from dp_accounting.rdp.rdp_privacy_accountant import (
    _compute_rdp_sample_wor_gaussian as library_drawn,
)

from airmixml.privacy.loss_distribution import LossDistribution, compose, slot_losses
from airmixml.privacy.paper_bounds import drawn_losses, poisson_losses

FRACTIONS = np.arange(1.1, 1.95, 0.1)
ORDERS = np.array([2.0, 3.0, 5.0, 12.0, 33.0])


def as_library(losses: LossDistribution) -> DensePLDPmf:
    return DensePLDPmf(losses.step, losses.lowest, losses.masses.copy(), losses.infinite_mass, True)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
@pytest.mark.parametrize(
    ("squared_shift", "rate", "count"), [(3.166, 64 / 60_000, 20_000), (0.05, 0.1, 700), (20.0, 0.3, 3), (1.0, 0.01, 1)]
)
def test_equal_slots_compose_as_in_dp_accounting(adjacency: str, squared_shift: float, rate: float, count: int) -> None:
    for losses in slot_losses(adjacency, squared_shift, rate, 2e-3):
        theirs = as_library(losses).self_compose(count)
        ours = compose([(losses, count)])
        for delta in (0.1, 1e-3, 1e-6):
            epsilon = ours.epsilon(delta)
            # The rounding of a Fourier transform to that power, which both have.
            assert theirs.get_delta_for_epsilon(epsilon) <= delta + 2.0**-50 * count
            assert epsilon == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=1e-6, abs=1e-9)


def test_different_slots_compose_as_in_dp_accounting() -> None:
    kinds = [(2.0, 30), (0.4, 200), (0.01, 1)]
    parts = [(slot_losses("replace-one", s, 0.02, 1e-3)[0], count) for s, count in kinds]
    theirs = None
    for losses, count in parts:
        one = as_library(losses).self_compose(count)
        theirs = one if theirs is None else theirs.compose(one)
    assert theirs is not None
    for delta in (0.1, 1e-3, 1e-6):
        assert compose(parts).epsilon(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=1e-8)


def test_two_coins_by_hand() -> None:
    """A loss of +1 or -1, e : 1, twice: delta(0) = P(2) (1 - e^-2), and P(2) (1 - e^(eps - 2)) = delta below 2."""
    win = math.e / (1.0 + math.e)
    coin = LossDistribution(step=1.0, lowest=-1, masses=np.array([1.0 - win, 0.0, win]), infinite_mass=0.0)
    both = compose([(coin, 2)])
    assert both.delta(0.0) == pytest.approx(win**2 * (1.0 - math.exp(-2.0)), rel=1e-12)
    assert both.epsilon(0.1) == pytest.approx(2.0 + math.log1p(-0.1 / win**2), rel=1e-12)
    assert both.epsilon(0.9) == 0.0


def test_certain_losses_add_up_and_have_no_epsilon_below_them() -> None:
    sure = LossDistribution(step=1.0, lowest=0, masses=np.array([0.9]), infinite_mass=0.1)
    both = compose([(sure, 2)])
    assert both.infinite_mass == pytest.approx(0.19, rel=1e-12)
    assert both.epsilon(0.18) == math.inf
    assert both.epsilon(0.2) == 0.0


@pytest.mark.parametrize(("squared_shift", "rate"), [(3.166, 64 / 60_000), (0.2, 0.1), (1.0, 0.5), (30.0, 0.01)])
def test_losses_at_renyi_orders_are_those_of_dp_accounting(squared_shift: float, rate: float) -> None:
    noise = squared_shift**-0.5
    for ours, theirs in ((drawn_losses, library_drawn), (poisson_losses, library_poisson)):
        assert ours(squared_shift, rate, ORDERS) == pytest.approx(theirs(rate, noise, ORDERS), rel=1e-9, abs=0)
    # Between whole orders theirs may be larger than at a higher one, which holds too.
    theirs = library_poisson(rate, noise, [*FRACTIONS, 2.0])
    theirs = np.minimum.accumulate(theirs[::-1])[::-1][:-1]
    assert poisson_losses(squared_shift, rate, FRACTIONS) == pytest.approx(theirs, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("squared_shift", [1e-12, 1e-6, 0.01, 0.6, 40.0, 1e6])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.9])
def test_losses_grow_with_the_order(squared_shift: float, rate: float) -> None:
    """So no order beyond the one at which a search stops can be better."""
    orders = np.concatenate([FRACTIONS, np.arange(2.0, 257.0)])
    for losses_of in (drawn_losses, poisson_losses):
        losses = losses_of(squared_shift, rate, orders)
        assert np.all(np.diff(losses) >= -1e-12 * losses[1:])


def test_a_tiny_loss_keeps_its_digits() -> None:
    """To first order in s both moments are 1 + order (order - 1) / 2 r^2 s, four times that if drawn (order 2)."""
    orders = np.array([2.0])
    assert poisson_losses(1e-13, 1e-3, orders) == pytest.approx([1e-19], rel=1e-6)
    assert drawn_losses(1e-13, 1e-3, orders) == pytest.approx([4e-19], rel=1e-6)
