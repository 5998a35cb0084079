"""Rounds: slots whose payload follows from what the server has broadcast, one after the other.

A round is a slot like any other: the same workers, channel, power control, noise, masks, ledger. Only what is sent
depends on the model that all workers were told, which is public.
"""

import torch

from airmixml.devices import find_device, using_threads
from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting, slots_of_rounds
from airmixml.radio.masking import noise_in_sum_watts
from airmixml.radio.mixtures import MixtureBlock, check_finite, receive_slots
from airmixml.radio.senders import make_sender
from airmixml.radio.transmission import Transmission
from airmixml.scenario import Speed
from airmixml.streams import Secret
from airmixml.workers.gradients import Broadcast, Gradients


class RoundsOnAir:
    """The rounds that follow the slots of a transmission; its report counts them too."""

    def __init__(self, sent: Transmission, *, speed: Speed, secret: Secret | None, progress: Progress = silent) -> None:
        scenario, dataset, population = sent.scenario, sent.dataset, sent.population
        device = find_device(speed.device)
        self._sent, self._speed, self._progress = sent, speed, progress
        self.setting = AirSetting.of_rounds(
            scenario, dataset.input_dim, dataset.label_dim, population.distance_metres, secret=secret
        )
        self._payload = make_sender(self.setting.scenario, dataset, device, secret=secret, holdings=population.holdings)
        self._holder = torch.from_numpy(population.sample_index).to(device)
        self._slots = iter(slots_of_rounds(scenario))
        self.count, self.done = scenario.learner.rounds, 0

    def send(self, told: Broadcast) -> tuple[torch.Tensor, float]:
        """Broadcast the model and run one slot; return the mean gradient, features x outputs, and the noise on it."""
        self._progress("rounds", self.done, self.count)
        gradients: Gradients = self._payload  # type: ignore[assignment]
        gradients.broadcast(told)
        slot = next(self._slots)
        with using_threads(self._speed.threads):
            (block,) = receive_slots([self.setting], self._payload, self._holder, range(slot, slot + 1))
        check_finite(self._sent.scenario, block)
        self._sent.report.add_draws(block.drawn, of_rounds=True)
        self.done += 1
        self._progress("rounds", self.done, self.count)
        signal = self.setting.signal
        gradient = block.inputs[0].double().reshape(signal.features, signal.classes) / gradients.unit
        return gradient, self._deviation(block) / gradients.unit

    def _deviation(self, block: MixtureBlock) -> float:
        """Return that of the noise on a symbol: as measured, or as known from the powers."""
        if block.measured_noise is not None:
            return float(block.measured_noise[0].sqrt())
        watts = noise_in_sum_watts(self.setting.scenario) / 2.0
        return float((watts / block.drawn.power_scale_watts[0]).sqrt())
