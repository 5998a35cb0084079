"""What was found without a schedule: linkage, unmixing, labels, and the workers that can be named."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from airmixml.arrays import ImageShape
from airmixml.attacks.inference import ClassShares, Identified, LabelInference, Linkage
from airmixml.attacks.measured import LEAK, Findings, Measured, counted, detected, told_apart
from airmixml.wording import plural

_METHODS: Final = 2  # likelihood ratios and nearest neighbours, of which the better one is judged


@dataclass(frozen=True, kw_only=True)
class Unmixing:
    """Groups of slots that share a sample (``estimates``), and how many lead to that sample among all held."""

    estimates: int = 0
    identified: int = 0
    p_value: float = 1.0


def _named(what: str, found: Identified, guessing: float) -> Measured:
    shown = f"{found.identified:,} of {found.looked_at:,}"
    how: dict[str, Any] = {"shown": shown, "p_value": found.p_value, "of": "", "identifies": True}
    return counted(what, found.identified / found.looked_at, found.looked_at, guessing, **how)


@dataclass(frozen=True, kw_only=True)
class ListenerFindings(Findings):
    """What was found without a schedule, in figures."""

    kind: ClassVar[str] = "listener"

    linkage: Linkage  # known samples told from samples that nobody holds
    unmixing: Unmixing
    slot_labels: LabelInference | None = None  # of the worker that dominates a slot, where a label is sent by itself
    shares: ClassShares | None = None  # classes of the population; None where too little was received
    clearest_slots: Identified
    beside: Identified | None = None  # slots in which the worker nearby was loudest; None where no worker is nearby
    loudest: Identified | None = None  # of the ten received most strongly those that score among the first ten
    loudest_hundred: Identified | None = None  # none are looked at where all are received alike
    image_shape: ImageShape = None
    beside_worker: int | None = None  # the worker nearby, of an eavesdropper; None for the release
    decoys_alike: bool = True  # whether samples that nobody holds are drawn like those that are held

    @property
    def _detected(self) -> Measured:
        linkage = self.linkage
        known = linkage.private_candidates, linkage.public_candidates, linkage.false_positive_rate, _METHODS
        return detected(linkage.hit_rate, *known, alike=self.decoys_alike)

    def measured(self) -> list[Measured]:
        """Return how well those who took part are told from others, and how many of them are named."""
        linkage, held = self.linkage, self.linkage.private_candidates
        auc = told_apart(linkage.auc, linkage.auc_chance_deviation, _METHODS, alike=self.decoys_alike)
        named = {"names the sample in a slot": self.clearest_slots, "names its neighbour": self.beside}
        found = [_named(what, each, 1.0 / held) for what, each in named.items() if each and each.looked_at]
        for each in (self.loudest, self.loudest_hundred):
            if each and each.looked_at:
                found.append(_named("picks strongest workers", each, each.looked_at / held))
        if groups := self.unmixing.estimates:
            unmixed = Identified(looked_at=groups, identified=self.unmixing.identified, p_value=self.unmixing.p_value)
            found.append(_named("unmixes similar slots", unmixed, 1.0 / held))
        main = Measured(
            what="names a slot's main worker",
            rate=linkage.reidentified,
            guessing=linkage.reidentified_chance,
            p_value=linkage.reidentified_p_value,
            p_if_half=1.0,
            of="",
        )
        return [auc, self._detected, *found, main]

    def also(self) -> dict[str, str]:
        """Return the error of the class shares of all workers (total variation), which no epsilon of one hides."""
        return {} if self.shares is None else {"class share error": f"{100 * self.shares.distance:.1f} %"}

    def caption(self, grade: str) -> str:
        """Return how many workers are named, and how many samples are told from others."""
        clearest, beside = self.clearest_slots, self.beside
        nearby = f", neighbour {beside.identified} of {beside.looked_at}" if beside and beside.looked_at else ""
        detected = f", detects {100 * self.linkage.hit_rate:.0f} %" if self._detected.share >= LEAK else ""
        luck = " by luck" if grade == "hidden" and clearest.identified else ""
        return f"names {clearest.identified} of {plural(clearest.looked_at, 'worker')}{nearby}{detected}{luck}"
