import pytest
from slots_for_tests import assert_calibrated

from airmixml.privacy import Adversary, Design, Eavesdropper, Release, Sensitivity, facts

NEAR = Eavesdropper(gain=1e-8, own_noise_watts=4e-15)


def design_of(watts: tuple[float, ...], counts: tuple[int, ...], workers: int, scheduled: int) -> Design:
    return Design(
        workers=workers,
        scheduled=scheduled,
        received_watts=watts,
        counts=counts,
        sensitivity=Sensitivity(removal=7.0, replacement=9.0),
        noise_watts=4e-15,
        facts=(facts.Transmitters(weakest_gain=1e-7),),
    )


ONE_KIND = design_of((3e-15,), (200,), 100, 2)
TWO_KINDS = design_of((1e-15, 2e-14), (60, 10), 100, 2)


@pytest.mark.parametrize(
    ("adversary", "design", "adjacency", "epsilon", "delta"),
    [
        (Release(), ONE_KIND, "replace-one", 0.05, 1e-3),
        (Release(colluders=30), ONE_KIND, "remove-one", 1e4, 1e-7),
        pytest.param(Release(), TWO_KINDS, "replace-one", 3.0, 1e-5, marks=pytest.mark.long),
    ],
)
def test_paper_tight_meets_targets_of_a_hidden_schedule_and_no_more(
    adversary: Adversary, design: Design, adjacency: str, epsilon: float, delta: float
) -> None:
    assert_calibrated(design, adversary, "paper-tight", adjacency, epsilon, delta)


@pytest.mark.parametrize(
    ("adversary", "design", "epsilon", "delta"),
    [
        (Release(), ONE_KIND, 0.2, 1e-5),
        (NEAR, ONE_KIND, 1e8, 1e-5),
        pytest.param(Release(colluders=30), TWO_KINDS, 8.0, 1e-4, marks=pytest.mark.long),
    ],
)
def test_rdp_meets_targets_of_a_hidden_schedule_and_no_more(
    adversary: Adversary, design: Design, epsilon: float, delta: float
) -> None:
    assert_calibrated(design, adversary, "rdp", "replace-one", epsilon, delta)
