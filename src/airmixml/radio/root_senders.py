"""What workers send where the server detects energies: roots of their symbols, with a phase of their own.

With v the symbols of a worker, sqrt(v+) goes to one resource and sqrt(v-) to the other. Neither is formed for each
worker. With s = sqrt(|v|) and t = sign(v) sqrt(|v|), which are sums and differences of the two, the roots of products
are products of roots: |x_k x_l|^(1/2) = |x_k|^(1/2) |x_l|^(1/2), and the signs multiply as well. So the usual senders,
given roots for numbers, add up s and t, and (s + t) / 2 and (s - t) / 2 are what the two resources carry.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch

from airmixml.errors import ScenarioError
from airmixml.radio.private_sums import softness
from airmixml.radio.senders import MomentSender, PoolSender, Sender, mix_in_pieces


@dataclass(frozen=True, kw_only=True, eq=False)
class RootSenders:
    """Two senders with roots for numbers.

    Attributes:
        magnitudes: sends sqrt(|v|).
        signed: sends sign(v) sqrt(|v|); None where no symbol of any worker is negative.
        weight: what each symbol is multiplied with besides; symbols, or None for 1.
    """

    magnitudes: Sender
    signed: Sender | None
    weight: torch.Tensor | None

    @classmethod
    def of(cls, sender: Sender) -> Self:
        """Return what sends the roots of what this one sends."""
        if not isinstance(sender, PoolSender) or sender.signal.bits or sender.rows is not None:
            raise ScenarioError(
                'air.detection = "energy": roots can be sent of the unrounded symbols of single rows only; use '
                'air.detection = "coherent"'
            )
        numbers = [part.double() if sender.protects else part for part in (sender.inputs, sender.labels)]
        roots = [part.abs().sqrt() for part in numbers]
        signal = replace(sender.signal, label_weight=math.sqrt(sender.signal.label_weight))
        with_signs = [root.copysign(part) for root, part in zip(roots, numbers, strict=True)]
        negative = any(bool((part < 0.0).any()) for part in numbers)
        weight = None
        if isinstance(sender, MomentSender):
            # The usual sender takes a product off the diagonal sqrt(2) times; its root has the fourth root of 2.
            left, right = torch.triu_indices(signal.features, signal.features, device=sender.inputs.device)
            weight = torch.ones(signal.symbols, dtype=torch.float64, device=sender.inputs.device)
            weight[: signal.input_symbols][left != right] = 2.0**-0.25
        return cls(
            magnitudes=replace(sender, signal=signal, inputs=roots[0], labels=roots[1]),
            signed=replace(sender, signal=signal, inputs=with_signs[0], labels=with_signs[1]) if negative else None,
            weight=weight,
        )

    def mix(
        self, sample_index: torch.Tensor, weights: torch.Tensor, lengths: Sequence[int], *, in_slot: int = 0
    ) -> torch.Tensor:
        """Return what workers with these samples add up to; 2 resources x real and imaginary part x slots x symbols.

        Samples are slots x scheduled; complex weights, sqrt(q) times a gain, slots x scheduled x pieces (or x 1);
        ``lengths`` are the symbols of each piece; ``in_slot`` says how many workers send in the slot, where these are
        some. Both sums are rounded, which may move each resource: the workers send more softly by what covers that.
        """
        softened = softness(2 * (in_slot or weights.shape[1])) * torch.view_as_real(weights)

        def added(sender: Sender) -> torch.Tensor:
            parts = [
                mix_in_pieces(sender, sample_index, softened[..., part], lengths, in_slot=in_slot) for part in range(2)
            ]
            both = torch.stack(parts)
            return both if self.weight is None else both * self.weight

        magnitudes = added(self.magnitudes)
        if self.signed is None:
            return torch.stack([magnitudes, torch.zeros_like(magnitudes)])
        signed = added(self.signed)
        return torch.stack([(magnitudes + signed) / 2.0, (magnitudes - signed) / 2.0])
