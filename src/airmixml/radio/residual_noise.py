"""Residual noise: what the noise and the masks of workers leave in a sum, drawn from its exact law given their gains.

Worker i arrives with x_i of what it should: on the ideal air 1, so that masks cancel and its noise stays. In general

    variance = s^2 sum_i x_i^2 + e^2 sum_(i, j) (x_i - x_j)^2 + b^2 sum_i (x_i - 1)^2,

over workers, masks, and self masks, which the server subtracts. No mask is ever formed. An absent worker has x_i = 0;
where its masks are recovered the server subtracts them as well, and x_i = 1. The server divides by the mean gain that
pilots tell, sum_i q_i g_i. It knows who is absent, so it expects 1 / sum_i q_i of a worker, over those who are there,
and subtracts that much: it stands for 1 in the last sum and for the recovered. Workers that are off time smear what
they send: then x_i is a vector with a number for every term of the expansion in ``impairments.timing``, the variance a
matrix, and every term is filtered like the signal.

Sums over the masks of very large slots are replaced by their mean over graphs, k / (N - 1) times the sum over all
pairs; a drawn graph differs from that by about one part in sqrt(N k / 2).
"""

from functools import cached_property
from typing import Final

import torch

from airmixml.impairments.frame import Frame
from airmixml.impairments.timing import filter_blocks, mean_factors, pulse_expansion, smears, timing_factors
from airmixml.radio.masking import Masking
from airmixml.scenario import Scenario

_MOST_DIFFERENCES: Final = 1 << 28


class ResidualNoise:
    """Adds up, workers by workers, what decides the law of what is left."""

    def __init__(self, scenario: Scenario, masking: Masking) -> None:
        self.masking, self.air, self._seats = masking, scenario.air, scenario.radio.scheduled
        self._recovers = masking.self_watts > 0.0
        self._filters = (
            pulse_expansion(self.air.roll_off, self.air.timing_offset_symbols).filters
            if smears(self.air)
            else torch.ones((1, 1), dtype=torch.float64).numpy()
        )
        self._kept: torch.Tensor | None = None  # x of every seat, where a sum over the drawn masks is taken
        self._sums: dict[str, torch.Tensor] = {}

    @property
    def terms(self) -> int:
        """Numbers that say how a worker arrives: 1 unless workers are off time."""
        return len(self._filters)

    def add(
        self, arriving: torch.Tensor, shares: torch.Tensor, sending: torch.Tensor, offsets: torch.Tensor | None
    ) -> None:
        """Take seats into account: gains over the mean gain (slots x seats x pieces); all others are slots x seats."""
        gains = arriving.real * sending[:, :, None]
        terms = torch.ones((*gains.shape[:2], 1), dtype=gains.dtype, device=gains.device)
        if offsets is not None:
            terms = timing_factors(self.air, offsets)
        products = (terms[..., :, None] * terms[..., None, :]).flatten(2)
        by_piece = gains.transpose(1, 2)
        self._add("squares", (by_piece.square() @ products).reshape(*by_piece.shape[:2], self.terms, self.terms))
        self._add("sum", by_piece @ terms)
        self._add("sending", sending.sum(dim=1))
        self._add("present", (shares * sending).sum(dim=1))
        if self._exact(gains):
            recovered = (~sending)[:, None, :, None] & self._recovers
            arrives = by_piece[..., None] * terms[:, None]
            self._kept = torch.where(recovered, self._expected_terms()[:, :, None], arrives)

    @cached_property
    def covariance(self) -> torch.Tensor:
        """Covariance of the terms on a symbol once all seats are added, in watts; slots x pieces x terms x terms."""
        masking, squares = self.masking, self._sums["squares"]
        total = masking.own_watts * squares
        if masking.graph is not None:
            sending = self._sums["sending"][:, None, None, None]
            mean, arrived = self._expected_terms(), self._sums["sum"]
            expected = mean[..., :, None] * mean[..., None, :]
            crossed = arrived[..., :, None] * mean[..., None, :]
            differences = self._over_masks(sending, squares, arrived, expected, mean)
            from_expected = squares - crossed - crossed.transpose(2, 3) + sending * expected
            total = total + masking.pair_watts * differences + masking.self_watts * from_expected
        if self.air.dac_bits:
            total = total + masking.rounded_watts(self.air.dac_bits) * squares
        return total

    def receive(self, normals: torch.Tensor, power_scale_watts: torch.Tensor, frame: Frame) -> torch.Tensor:
        """Return what is left on every symbol, over sqrt(beta), slots x symbols; normals slots x terms x symbols."""
        covariance = self.covariance / power_scale_watts[:, None, None, None]
        lengths = torch.tensor(frame.lengths, device=normals.device)
        if self.terms == 1:
            deviation = covariance[:, :, 0, 0].clamp(min=0.0).sqrt().expand(-1, frame.pieces)
            return normals[:, 0] * deviation.repeat_interleave(lengths, dim=1)
        values, vectors = torch.linalg.eigh(covariance)
        roots = (vectors * values.clamp(min=0.0).sqrt()[..., None, :]).expand(-1, frame.pieces, -1, -1)
        total = torch.zeros_like(normals[:, 0])
        for term, taps in enumerate(torch.from_numpy(self._filters).to(normals.device)):
            correlated = torch.zeros_like(total)
            for part in range(self.terms):
                correlated += roots[:, :, term, part].repeat_interleave(lengths, dim=1) * normals[:, part]
            total += filter_blocks(correlated, taps, frame)
        return total

    def _expected_terms(self) -> torch.Tensor:
        """Return what a server takes a worker to arrive with; slots x 1 x terms.

        The mean pulse relative to its middle, times what dividing by the mean gain of those who are there makes of it.
        """
        means = torch.from_numpy(mean_factors(self.air)) if smears(self.air) else torch.ones(1, dtype=torch.float64)
        middle = torch.from_numpy(self._filters[:, self._filters.shape[1] // 2])
        present = self._sums["present"]
        there = torch.where(present > 0.0, present, 1.0)
        return (means / (means @ middle)).to(there) / there[:, None, None]

    def _exact(self, gains: torch.Tensor) -> bool:
        """Whether the sum over the masks of the drawn graph is small enough to be taken."""
        if self.masking.graph is None or gains.shape[1] < self._seats:
            return False
        work = gains.shape[0] * gains.shape[2] * self.terms**2 * len(self.masking.graph.edges)
        return work <= _MOST_DIFFERENCES

    def _over_masks(
        self,
        sending: torch.Tensor,
        squares: torch.Tensor,
        arrived: torch.Tensor,
        expected: torch.Tensor,
        mean: torch.Tensor,
    ) -> torch.Tensor:
        """Return sum over masks (x_i - x_j)(x_i - x_j)'; slots x pieces x terms x terms."""
        graph, seats = self.masking.graph, self._seats
        assert graph is not None
        if self._kept is None or graph.complete:
            recovered = (seats - sending) * self._recovers
            every, total = squares + recovered * expected, arrived + recovered[..., 0] * mean
            return graph.degree / (seats - 1) * (seats * every - total[..., :, None] * total[..., None, :])
        summed = torch.zeros_like(squares)
        for after in torch.from_numpy(graph.successors).to(squares.device):
            apart = self._kept - self._kept[:, :, after]
            summed += apart.transpose(2, 3) @ apart
        return summed

    def _add(self, name: str, values: torch.Tensor) -> None:
        self._sums[name] = self._sums[name] + values if name in self._sums else values
