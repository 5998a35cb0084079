"""How strongly a row of data is received and sent where several workers hold it: in every slot their shifts add up."""

from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers
from airmixml.sums import Sums, as_tensor

_ROW: Final = "row_of_meeting"
_WATTS: Final = "watts_of_meeting"


class RowShifts:
    """Adds up, block by block, what the workers with a row have beyond the sum of what each has alone.

    With amplitudes a_i in a slot they have (sum a_i)^2, which is more than sum a_i^2 only where two of them meet in the
    slot; most slots need no more than a look. That of a ``part`` of the slots keeps each meeting, so that merging the
    parts adds up in the order of the slots.

    Attributes:
        holding: the row that each worker holds; shape workers.
        copies: on how many workers each row lies; shape rows.
    """

    def __init__(self, holding: Integers, *, part: bool = False) -> None:
        self.holding, self.copies = holding, np.bincount(holding)
        self._row_of = torch.from_numpy(holding)
        self._watts = torch.zeros(3, len(self.copies), dtype=torch.float64)  # received, sent, at all antennas; x rows
        self._meetings: list[tuple[torch.Tensor, torch.Tensor]] | None = [] if part else None

    def add(self, who: torch.Tensor, *watts: torch.Tensor) -> None:
        """Take slots into account: who sends, with how much of each kind of watts; each is slots x scheduled."""
        if self._row_of.device != who.device:
            self._row_of, self._watts = self._row_of.to(who.device), self._watts.to(who.device)
        rows, count = self._row_of[who], len(self.copies)
        # NumPy sorts short rows twenty times faster than torch.
        ordered = rows.sort(dim=1).values if rows.is_cuda else torch.from_numpy(np.sort(rows.int().numpy(), axis=1))
        meet = (ordered[:, 1:] == ordered[:, :-1]).any(dim=1)
        if not meet.any():
            return
        rows = rows[meet]
        slots = torch.arange(len(rows), device=who.device)[:, None]
        pairs, place = torch.unique((slots * count + rows).flatten(), return_inverse=True)
        alone = torch.stack([each[meet].flatten() for each in watts])
        shifts, squares = (torch.zeros(len(watts), len(pairs), dtype=torch.float64, device=who.device) for _ in "ab")
        shifts.index_add_(1, place, alone.sqrt())
        squares.index_add_(1, place, alone)
        self._meet(pairs % count, shifts.square() - squares)

    def _meet(self, row: torch.Tensor, watts: torch.Tensor) -> None:
        if self._meetings is not None:
            self._meetings.append((row, watts))
        else:
            self._watts[: len(watts)].index_add_(1, row, watts)

    def sums(self) -> Sums:
        """Return what adds up over the parts of a run, for ``merge``: of a part alone."""
        if not self._meetings:
            return {}
        rows, watts = zip(*self._meetings, strict=True)
        return {_ROW: torch.cat(rows).cpu().numpy(), _WATTS: torch.cat(watts, dim=1).cpu().numpy()}

    def merge(self, sums: Sums) -> None:
        """Take the next part of the slots into account."""
        if _ROW in sums:
            self._meet(as_tensor(sums[_ROW]), as_tensor(sums[_WATTS]))

    def watts(self, kind: int, of_workers: Doubles) -> Doubles:
        """Return sum over slots of (sum a_i)^2 of each row; shape rows.

        ``of_workers`` is the sum over slots of a_i^2 of each worker, and ``kind`` the place of these watts in ``add``.
        """
        return np.asarray(np.bincount(self.holding, of_workers) + self._watts[kind].cpu().numpy())


def shifts_of_rows(holding: Integers | None, *, part: bool = False) -> RowShifts | None:
    """Return what adds them up where a row lies on several of the workers; ``holding`` is the row of each."""
    if holding is None or np.bincount(holding).max() < 2:
        return None
    return RowShifts(holding, part=part)
