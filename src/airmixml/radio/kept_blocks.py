"""What was received in some slots, kept on the disk, so that an interrupted simulation does not add them up again.

Who sent what with which power is not kept: it follows from the seed, and is drawn again.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

import torch

from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.mixtures import MixtureBlock
from airmixml.storage.results import ResultStore
from airmixml.sums import Sums, as_tensor
from airmixml.workers.broadcasts import Broadcast

_DRAWN: Final = ("first_slot", "drawn", "joules_per_watt")
_RECEIVED: Final = [each.name for each in fields(MixtureBlock) if each.name not in _DRAWN]


@dataclass(frozen=True, eq=False)
class KeptBlocks:
    """Keeps blocks of slots in a store, by their first slot."""

    store: ResultStore

    def receive(
        self,
        setting: AirSetting,
        slots: range,
        device: torch.device,
        receive: Callable[[], MixtureBlock],
        told: Broadcast | None = None,
    ) -> MixtureBlock:
        """Return the kept block of these slots, if the same was broadcast before; else receive and keep it."""
        name, values = f"block-{slots.start:06d}.npz", [slots.start, slots.stop, _digest(told)]
        kept = self.store.load(name, lambda found, arrays: arrays if found == values else {})
        if kept:
            return MixtureBlock(
                first_slot=slots.start,
                drawn=draw_slots(setting, slots, device),
                joules_per_watt=setting.joules_per_watt,
                **_restored(kept, device),
            )
        block = receive()
        found = {name: getattr(block, name) for name in _RECEIVED}
        self.store.save(name, values, {key: each.cpu().numpy() for key, each in found.items() if each is not None})
        return block


def _restored(kept: Sums, device: torch.device) -> dict[str, Any]:
    return {name: as_tensor(kept[name]).to(device) for name in _RECEIVED if name in kept}


def _digest(told: Broadcast | None) -> str:
    if told is None:
        return ""
    numbers = told.weights.tobytes() + told.biases.tobytes()
    return hashlib.sha256(f"{told.clip} {told.link.name} ".encode() + numbers).hexdigest()
