"""The noise that workers add, as somebody hears it to whom no worker turned its phase: masks do not cancel there.

With complex gains w_i such a listener receives

    y = sum_i w_i (sqrt(beta) q_i v_i + n_i + sum_j m_ij) + thermal noise,

and of one symbol, in units of the thermal noise, real and imaginary part together have the noise covariance

    M = I / 2 + s^2 sum_i w_i w_i' + e^2 sum_(i, j) (w_i - w_j)(w_i - w_j)',

w_i a vector of two numbers, (i, j) the masks. Noise and masks are new in every symbol, so that this is all there is to
know, and no mask is formed. A listener who knows M turns y into (2 M)^(-1/2) y, whose noise is circular and of power 1.
Nothing is lost, and a loud worker's noise, which lies along its phase, no longer drowns those a quarter turn off.

The listener is granted what a server is told: self masks, and the masks of absent workers where they are recovered.
Sums over the masks of very large slots are replaced by their mean over graphs, as in ``radio.residual_noise``.
"""

from typing import Final

import torch

from airmixml.radio.masking import Masking

_MOST_DIFFERENCES: Final = 1 << 28


class OverheardNoise:
    """Adds up, seats by seats, what decides M."""

    def __init__(self, masking: Masking, seats: int) -> None:
        self._masking, self._seats = masking, seats
        self._recovers = masking.self_watts > 0.0
        self._squares = self._sum = self._sending = torch.zeros(())
        self._over_masks: torch.Tensor | None = None

    def add(self, weights: torch.Tensor, sending: torch.Tensor) -> None:
        """Take seats into account: complex gains w (slots x seats x pieces), 0 for those who do not send, and who does.

        Gains are of what is received at the server as planned, over the root of the thermal noise per complex symbol.
        """
        parts = _in_parts(weights).transpose(1, 2)  # slots x pieces x seats x 2
        self._squares = self._squares + parts.transpose(2, 3) @ parts
        self._sum = self._sum + parts.sum(dim=2)
        self._sending = self._sending + sending.sum(dim=1)
        graph = self._masking.graph
        if graph is None or graph.complete or weights.shape[1] < self._seats:
            return
        if weights.shape[0] * weights.shape[2] * len(graph.successors) * self._seats > _MOST_DIFFERENCES:
            return
        self._over_masks = torch.zeros_like(self._squares)
        for after in torch.from_numpy(graph.successors).to(weights.device):
            apart = parts - parts[:, :, after]
            if self._recovers:
                apart = apart * (sending & sending[:, after])[:, None, :, None]
            self._over_masks += apart.transpose(2, 3) @ apart

    def covariance(self) -> torch.Tensor:
        """Return M; slots x pieces x 2 x 2."""
        masking, graph = self._masking, self._masking.graph
        total = torch.eye(2).to(self._squares) / 2.0 + masking.own_watts * self._squares
        if graph is None:
            return total
        over_masks = self._over_masks
        if over_masks is None:
            sharing = self._sending[:, None, None, None] if self._recovers else self._seats
            crossed = self._sum[..., :, None] * self._sum[..., None, :]
            over_masks = graph.degree / (self._seats - 1) * (sharing * self._squares - crossed)
        return total + masking.pair_watts * over_masks

    def filters(self) -> torch.Tensor:
        """Return (2 M)^(-1/2), by which what is received becomes white; slots x pieces x 2 x 2."""
        values, vectors = torch.linalg.eigh(self.covariance())
        white: torch.Tensor = (vectors * (2.0 * values).rsqrt()[..., None, :]) @ vectors.transpose(2, 3)
        return white


def turned_by(filters: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return gains (slots x seats x pieces, or x 1) behind the filters (slots x pieces x 2 x 2); complex."""
    both = torch.einsum("tpab,tspb->tspa", filters, _in_parts(weights).expand(-1, -1, filters.shape[1], -1))
    return torch.complex(both[..., 0], both[..., 1])


def _in_parts(weights: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as pairs of real ones, on a last axis."""
    return torch.view_as_real(weights)
