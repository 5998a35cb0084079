import pytest

from airmixml.privacy import Design, Release, Sensitivity, calibrate_power, state_privacy


@pytest.mark.long
@pytest.mark.parametrize(
    ("sampling", "epsilon", "delta"), [("without-replacement", 2.0, 1e-4), ("poisson", 20.0, 1e-3)]
)
def test_pld_meets_targets_of_removal_and_no_more(sampling: str, epsilon: float, delta: float) -> None:
    design = Design(
        workers=100,
        scheduled=2,
        received_watts=(3e-15,),
        counts=(200,),
        sensitivity=Sensitivity(removal=7.0, replacement=9.0),
        noise_watts=4e-15,
        sampling=sampling,
    )
    factor = calibrate_power(design, Release(), "pld", adjacency="remove-one", epsilon=epsilon, delta=delta)

    def spent(scale: float) -> float:
        return state_privacy(design.scaled(scale), Release(), "pld", adjacency="remove-one", delta=delta).epsilon

    assert spent(factor) <= epsilon
    assert spent(1.01 * factor) > epsilon
