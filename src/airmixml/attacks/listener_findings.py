"""What was found without a schedule: linkage, unmixing, labels, and the workers that can be named."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from airmixml.attacks.grades import EXPOSED, LEAK, Findings, beyond_guessing, can_tell
from airmixml.attacks.inference import ClassShares, Identified, LabelInference, Linkage
from airmixml.output.numbers import NONE, plural
from airmixml.shapes import ImageShape

# A single sample among all that are held may be named by chance once in as many.
_NAMED_BY_CHANCE: Final = 1e-3
_BEYOND_DOUBT: Final = 5.0
_NOTE: Final = (
    "*AUC*: samples that workers hold told from samples that nobody holds, by their likelihood ratio (0.5 is "
    "guessing); *hits*: of the held ones, at 1 % false alarms; *loudest*: of the ten and the hundred workers received "
    "most strongly, how many samples score among the first ten and hundred of all that are held; *clearest*: of the "
    "workers whose slots are clearest, how many are "
    "found among all that are held; *unmixed*: groups of slots that lead to the right sample; *beside*: slots in which "
    "the worker next to the eavesdropper was loudest, and was found; *classes*: error of the class shares of the whole "
    "population (total variation), which privacy of one worker does not hide. In the picture, received samples are "
    "shown as bright as the original, and the right way round."
)


@dataclass(frozen=True, kw_only=True)
class Unmixing:
    """Groups of slots that share a sample (``estimates``), and how many lead to that sample among all held."""

    estimates: int = 0
    identified: int = 0
    p_value: float = 1.0


def _beyond_chance(found: Identified | Unmixing | None) -> int:
    """Return how many were identified; 0 where that may be chance, or nobody was looked for."""
    return found.identified if found is not None and found.p_value < _NAMED_BY_CHANCE else 0


def _out_of(found: Identified | None) -> str:
    return NONE if found is None or not found.looked_at else f"{found.identified} of {found.looked_at}"


@dataclass(frozen=True, kw_only=True)
class ListenerFindings(Findings):
    """What was found without a schedule, in figures."""

    kind: ClassVar[str] = "listener"
    titles: ClassVar[dict[str, str]] = {
        "release": "The release: mixtures without a schedule",
        "eavesdropper": "An eavesdropper near a worker",
        "everyone": "Everyone: each worker heard without noise, all other samples known",
    }
    explanation: ClassVar[str] = _NOTE
    legend: ClassVar[dict[str, str]] = {
        "AUC": "held samples told from others; 0.50 is guessing",
        "hits": "samples detected at 1 % false alarms",
        "loudest": "of the 10 (100) workers received most strongly, those among the first 10 (100) scores",
        "clearest": "workers in the clearest slots whose sample is named",
        "unmixed": "groups of slots that lead to a sample",
        "beside": "slots in which the worker next to the eavesdropper is named",
        "classes": "error of the class shares of all workers",
    }

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

    @property
    def level(self) -> str:
        """How much was found, of all workers or of one nearby."""
        looked_for = (self.clearest_slots, self.beside, self.loudest, self.loudest_hundred)
        if self._hits >= EXPOSED or any(
            each and _beyond_chance(each) >= EXPOSED * max(each.looked_at, 1) for each in looked_for
        ):
            return "exposed"
        linkage, anybody = self.linkage, any(map(_beyond_chance, (*looked_for, self.unmixing)))
        by_luck = linkage.reidentified_p_value >= _NAMED_BY_CHANCE
        renamed = 0.0 if by_luck else linkage.reidentified - linkage.reidentified_chance
        return "leaks" if anybody or self._hits >= LEAK or renamed >= LEAK else ""

    @property
    def strength(self) -> tuple[float, ...]:
        """How many of the clearest workers are named; of equal ones how many samples are told from others."""
        return _beyond_chance(self.clearest_slots), self._hits

    @property
    def _hits(self) -> float:
        """Share of held samples that are told from others, beyond chance; 0 where that may be chance."""
        linkage, alarms = self.linkage, self.linkage.false_positive_rate
        sure = abs(linkage.auc - 0.5) > _BEYOND_DOUBT * linkage.auc_chance_deviation
        return beyond_guessing(linkage.hit_rate, alarms) if sure else 0.0

    def cells(self) -> dict[str, str]:
        """Return membership, workers named, and the error of the class shares."""
        clearest, unmixing, beside = self.clearest_slots, self.unmixing, self.beside
        return {
            "AUC": f"{self.linkage.auc:.2f}",
            "hits": f"{100 * self.linkage.hit_rate:.1f} %",
            "clearest": _out_of(clearest),
            "unmixed": f"{unmixing.identified:,} of {unmixing.estimates:,}",
            "beside": _out_of(beside),
            "loudest": _out_of(self.loudest),
            "loudest 100": _out_of(self.loudest_hundred),
            "classes": NONE if self.shares is None else f"{100 * self.shares.distance:.1f} %",
        }

    def caption(self, grade: str) -> str:
        """Return how many workers are named, and how many samples are told from others."""
        clearest, beside = self.clearest_slots, self.beside
        nearby = f", neighbour {beside.identified} of {beside.looked_at}" if beside and beside.looked_at else ""
        detected = f", detects {100 * self.linkage.hit_rate:.0f} %" if self._hits >= LEAK else ""
        luck = " by luck" if grade == "hidden" and clearest.identified else ""
        return f"names {clearest.identified} of {plural(clearest.looked_at, 'worker')}{nearby}{detected}{luck}"

    def learned(self) -> list[str]:
        """Return what the listener knows, names, unmixes or detects."""
        clearest, told = self.clearest_slots, []
        if self.beside and (nearby := _beyond_chance(self.beside)):
            told.append(f"identifies its sample in {nearby} of {plural(self.beside.looked_at, 'slot')}")
        if _beyond_chance(clearest):
            told.append(
                f"names the sample of {clearest.identified} of the {plural(clearest.looked_at, 'clearest worker')}"
            )
        loudest = max(
            (each for each in (self.loudest, self.loudest_hundred) if each and _beyond_chance(each)),
            key=lambda each: each.identified / each.looked_at,
            default=None,
        )
        if loudest:
            told.append(f"ranks {loudest.identified} of the {loudest.looked_at} loudest workers' samples that high")
        if unmixed := _beyond_chance(self.unmixing):
            told.append(f"unmixes {plural(unmixed, 'sample')}")
        if self._hits >= LEAK:
            told.append(f"detects that {100 * self.linkage.hit_rate:.0f} % of the samples took part")
        return told or [f"names the sample in {100 * self.linkage.reidentified:.0f} % of the slots"]

    def nothing(self) -> str:
        """Return that nobody is identified; some are named by luck."""
        clearest = self.clearest_slots
        if not clearest.identified:
            return super().nothing()
        lucky = f"names {clearest.identified} of {plural(clearest.looked_at, 'sample')}"
        return f"{lucky}, which guessing does too (p-value {clearest.p_value:.2g})"

    def too_few(self) -> str:
        """Return how few slots there were to name a sample in, where even half of them would prove nothing."""
        chance, clearest, nearby = 1.0 / self.linkage.private_candidates, self.clearest_slots, self.beside
        trials = (clearest.looked_at, self.unmixing.estimates, nearby.looked_at if nearby else 0)
        if any(can_tell(each, EXPOSED, chance, _NAMED_BY_CHANCE) for each in trials):
            return ""
        return (
            f"too few mixtures to tell: {clearest.identified} of {plural(clearest.looked_at, 'sample')} named, and "
            f"guessing among {self.linkage.private_candidates:,} may do so too (p-value {clearest.p_value:.2g})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        figures = super().to_dict()
        if self.beside_worker is None:
            del figures["beside_worker"]
        return figures
