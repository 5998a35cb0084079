"""What a server that detects energies makes of workers whose phases nobody aligns.

A worker sends the amplitude sqrt(beta q |v|) on the resource of its symbol's sign, turned by a phase of its own. With
w_i = sqrt(q_i) g_i the server receives sum_i w_i sqrt(v_i+) on one resource and sum_i w_i sqrt(v_i-) on the other, each
with noise of variance s^2 = sigma^2 / beta, and takes the difference of their energies. The noise has the same power on
both, so the mean of that is sum_i q_i |g_i|^2 v_i.

Products of two workers' signals do not vanish. They make *speckle*. Let S = sum_i q_i |g_i|^2 |v_i| over those who send
on a resource, and Q = sum_i (q_i |g_i|^2 v_i)^2 over all. For independent uniform phases E[w_i w_j* w_k w_l*] is not
zero only for i = j, k = l and for i = l, j = k, so the energy of a resource has the variance (S + s^2)^2 less its part
of Q; the two are uncorrelated, since no worker sends a symbol on both. Altogether a symbol has the variance

    (S+ + s^2)^2 + (S- + s^2)^2 - Q.

Its deviation is about what all workers' absolute values add up to, however many they are: more of them average nothing
out. A single worker has no speckle at all.
"""

import torch

from airmixml.impairments.frame import frame_of
from airmixml.impairments.noise_floor import true_noise_watts
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.impaired_reception import ImpairedReception
from airmixml.radio.power import amplitude_shares
from airmixml.radio.root_senders import RootSenders


def receive_energy(
    setting: AirSetting, senders: RootSenders, sample_index: torch.Tensor, drawn: SlotTensors, noise: torch.Tensor
) -> ImpairedReception:
    """Return what is detected of workers with these samples (slots x scheduled).

    ``noise`` holds independent standard normal values, slots x 4 symbols: real and imaginary parts on both resources.
    """
    gains = drawn.gains
    assert gains is not None
    scenario, signal, in_slot = setting.scenario, setting.signal, sample_index.shape[1]
    frame, shares = frame_of(scenario.air, signal.symbols), amplitude_shares(scenario, drawn.ratios)
    arriving = torch.zeros(())
    for seats in gains.parts:
        weights = shares[:, seats, None] * gains.of(seats)
        some = senders.mix(sample_index[:, seats], weights, frame.lengths, in_slot=in_slot)
        arriving = some if seats.start == 0 else arriving + some
    deviation = torch.sqrt(true_noise_watts(scenario) / 2.0 / drawn.power_scale_watts)
    noise_square = 2.0 * deviation.square()
    parts = noise.reshape(len(noise), 2, 2, signal.symbols).permute(1, 2, 0, 3)
    clean = arriving.square().sum(dim=1)
    energies = torch.addcmul(arriving, parts.to(arriving.dtype), deviation[:, None].to(arriving.dtype)).square().sum(1)
    return ImpairedReception(
        clean=clean[0] - clean[1],
        received=energies[0] - energies[1],
        noise_variance=(
            speckle_variance(energies[:, :, : signal.input_symbols])
            if signal.moments
            else receiver_variance(energies[:, :, : signal.input_symbols], noise_square)
        ),
        snr=_signal_to_noise(clean, noise_square, signal.input_symbols),
    )


def receiver_variance(energies: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return what noise of variance s^2 (slots) adds to a symbol's, given the energies of 2 x slots x symbols; slots.

    That is 2 s^4 + 2 s^2 (S+ + S-), and both energies together have the mean S+ + S- + 2 s^2; the server hears s^2
    while nobody sends. A learner from mixtures takes it off their covariance, where speckle stays: it is no white
    noise, since a pair of workers makes all symbols larger or smaller at once, those of its inputs and of its labels.
    """
    return (2.0 * noise * (energies.double().sum(dim=0).mean(dim=1) - noise)).clamp(min=0.0)


def speckle_variance(energies: torch.Tensor) -> torch.Tensor:
    """Return what speckle and noise together are taken for, given the energies of 2 x slots x symbols; slots.

    An energy with mean m has the variance m^2 - Q and the mean square 2 m^2 - Q, Q being what single workers make up of
    m^2. Half its square is right for many workers, and too much by Q / 2 for few.
    """
    return energies.double().square().sum(dim=0).mean(dim=1) / 2.0


def _signal_to_noise(clean: torch.Tensor, noise: torch.Tensor, input_symbols: int) -> torch.Tensor:
    """Return the squares of what arrives over those of what receiver noise adds, of inputs and labels; 2 x slots.

    ``clean`` are energies without noise, 2 x slots x symbols. Noise of variance s^2 (slots) adds to an energy S the
    variance s^4 + 2 s^2 S.
    """
    ratios = []
    for part in (clean[:, :, :input_symbols].double(), clean[:, :, input_symbols:].double()):
        added = 2.0 * noise.square() + 2.0 * noise * part.sum(dim=0).mean(dim=1)
        ratios.append((part[0] - part[1]).square().mean(dim=1) / added)
    return torch.stack(ratios)
