"""How strongly a server that hears sums has one worker, where workers bring the noise and the air is not ideal.

It knows every gain. Along the phase of worker i's gain it has |g_i| of what that sends, in the noise of everybody and
in what differing gains leave of masks (``radio.residual_noise``): with x_j = Re(g_j conj(g_i)) / |g_i|

    s^2 sum_j x_j^2 + e^2 sum_(masks) (x_j - x_l)^2 + half of the receiver's noise.

The sum over masks is replaced by its mean over graphs. Masks of absent workers are known where they are recovered. The
other quadrature, timing errors and what colluders know are left aside: the claim is that against everyone, to which an
attack on sums does not come near anyway.
"""

import torch

from airmixml.audit.stated_noise import stated_noise_watts
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.masking import masking_of
from airmixml.radio.privacy_target import assumed_noise_watts


def gains_over_noise(setting: AirSetting, drawn: SlotTensors, slot: torch.Tensor, seat: torch.Tensor) -> torch.Tensor:
    """Return |g| of seats, given by slot and seat (shape seats), over the noise deviation relative to the stated one.

    Seats x pieces, or x 1 where all pieces are alike; complex128, without a phase.
    """
    masking, gains, planned = masking_of(setting.scenario), drawn.gains, drawn.planned_ratios
    assert masking is not None
    assert gains is not None
    assert planned is not None
    own = gains.at(slot, seat)
    phase = own.conj() / own.abs().clamp(min=1e-300)
    squares, total = (torch.zeros(own.shape, dtype=torch.float64) for _ in range(2))
    for some in gains.parts:
        kept = (drawn.ratios / planned)[slot, some]
        heard = kept[:, :, None] * (gains.of(some)[slot] * phase[:, None, :]).real
        squares, total = squares + heard.square().sum(dim=1), total + heard.sum(dim=1)
    variance = masking.own_watts * squares
    if masking.graph is not None:
        count, seats = (drawn.ratios[slot] > 0.0).sum(dim=1, keepdim=True).double(), masking.graph.seats
        if not masking.self_watts:  # nothing is recovered: masks shared with the absent stay
            count = torch.full_like(count, float(seats))
        apart = (count * squares - total.square()).clamp(min=0.0)
        variance = variance + masking.pair_watts * masking.graph.degree / (seats - 1) * apart
    noise_watts = 2.0 * variance + assumed_noise_watts(setting.scenario)
    return own.abs() * torch.sqrt(stated_noise_watts(setting.scenario) / noise_watts) + 0.0j
