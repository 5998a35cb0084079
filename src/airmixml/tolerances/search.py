"""The search along one ladder of sizes: try the most severe, then halve what is left."""

from dataclasses import dataclass, field

from airmixml.tolerances.sizes import Sizes


@dataclass
class Ladder:
    """Where the search along one impairment stands.

    The size before the first one is none at all, which is tolerated by definition. Every size that the answer names was
    tried: the search assumes nothing but that more is not better.
    """

    sizes: Sizes
    coarse: bool = False
    tolerated: int = -1  # place of the most severe size known to be tolerated
    refused: int = field(init=False)  # place of the mildest size known not to be

    def __post_init__(self) -> None:
        self.refused = len(self.rungs)

    @property
    def rungs(self) -> tuple[float, ...]:
        """The sizes; ``coarse`` leaves out every second, and keeps the most severe."""
        return self.sizes.ladder[::-2][::-1] if self.coarse else self.sizes.ladder

    @property
    def next_size(self) -> float | None:
        """What to try next; None when the answer is known."""
        if self.refused == len(self.rungs):
            return None if self.tolerated == len(self.rungs) - 1 else self.rungs[-1]
        return self.rungs[(self.tolerated + self.refused) // 2] if self.refused - self.tolerated > 1 else None

    def told(self, size: float, *, tolerated: bool) -> None:
        """Take into account whether a size is tolerated."""
        place = self.rungs.index(size)
        if tolerated:
            self.tolerated = max(self.tolerated, place)
        else:
            self.refused = min(self.refused, place)

    @property
    def largest_tolerated(self) -> float | None:
        """The most severe size that is tolerated; None where not even the mildest is."""
        return self.rungs[self.tolerated] if self.tolerated >= 0 else None

    @property
    def smallest_refused(self) -> float | None:
        """The mildest size that is not tolerated; None where all are."""
        return self.rungs[self.refused] if self.refused < len(self.rungs) else None
