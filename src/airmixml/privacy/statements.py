"""Statements: an epsilon is never a bare number, but says whose noise, which adversary, neighbours and bound.

What an adversary learns of a row of data that several workers hold is more than it learns of any one of them.
A changed row changes what all c workers send. Where the schedule is known, or taken for known, slot t then moves by
(sum over the copies that send in it of their shares) times one sample's move, at most: shifts add up, and mu^2 is the
sum over slots of the squares of those sums. That is c^2 times the mu^2 of one worker where all copies send in the same
slots, which is exact, and less where they do not. An adversary who receives every worker separately sees the copies in
noise of some covariance S, and the triangle inequality of the norm x' S^-1 x gives the same bound. (Without masks
copies have independent noise, and the bound is not reached.) Where the schedule is hidden, group privacy takes c steps
from one worker to the next. A ``Ledger`` has what each worker spent in a run.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.messages import PrivacyError, epsilon_text, plural
from airmixml.notebook import html_facts
from airmixml.privacy.adversaries import DRAWN, Adversary
from airmixml.privacy.design import SCHEDULE_FAILURE, Design
from airmixml.privacy.evaluation import ROUNDING, Question, air_in_words, certified_epsilon
from airmixml.privacy.facts import ImperfectAir, WorkersNoise
from airmixml.privacy.gaussian import GaussianSlots, gaussian_epsilon, gaussian_epsilons, gaussian_mu, require
from airmixml.privacy.paper_bounds import log_binomial, log_sum

UNCHANGED: Final = "none is assumed: antennas, noise floor and amplitudes change nothing"
"""What is said of the receiver against everyone, from whom only noise hides that workers bring."""
FAILURES: Final = ("schedule_failure", "gain_failure", "hidden_failure")
"""Probabilities with which an assumption fails, as statements name them; that of gains is in delta."""


_EQUAL: Final = 1e-9


def exceeds(epsilon: float, target: float) -> bool:
    """Return whether an epsilon misses a target by more than rounding."""
    return epsilon > target * (1.0 + _EQUAL)


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """An (epsilon, delta) guarantee together with all that it assumes."""

    epsilon: float  #: privacy loss of one worker over all slots
    delta: float  #: probability with which that may fail
    adversary: str  #: who is protected against
    accountant: str  #: the bound that gives epsilon
    adjacency: str  #: what neighbouring sets of workers are: "replace-one" or "remove-one"
    sensitivity: float  #: the bound on the squared move of what one worker sends that was used
    sampling: str  #: how the hidden schedule was drawn; "none" where no credit is taken for it
    sampling_rate: float  #: the share of workers per slot that the bound takes credit for; 1 where it takes none
    compositions: int  #: slots (or rounds) that compose
    #: Noise power per complex symbol that the adversary's receiver is assumed to have; half of it falls on the real
    #: part that carries the signal.
    noise_watts_per_symbol: float
    #: Whose privacy it is: one worker's. A person on several workers is protected less.
    unit: str = "worker"
    #: Which schedule it holds for: a random one, any within the limit, or the one that was drawn.
    given: str = "a random schedule"
    schedule_failure: float = 0.0  #: probability, not in delta, with which a worker is drawn more often than assumed
    #: How many times the planned power a worker may be received with; after a run, what was drawn.
    gain_bound: float = 1.0
    gain_failure: float = 0.0  #: probability, a part of delta, with which the worker is received more strongly
    #: Probability, not in delta, with which less noise hides a worker than assumed, since more of its neighbours
    #: collude.
    hidden_failure: float = 0.0
    colluders: int = 0  #: workers that help the adversary
    #: Colluders, chosen without knowing the graph of masks, who expose no worker, at most; None without masks.
    withstands: int | None = None
    #: Of the target's statement and exact ones: epsilon if so many collude, whose noise and masks hide nobody.
    if_withstood: float | None = None
    knows: str = ""  #: what the adversary knows, in words
    why: str = ""  #: why this epsilon follows, in words
    target_epsilon: float | None = None  #: the epsilon that was asked for, if the power was set to meet one
    antennas: int = 0  #: that the adversary's receiver is assumed to have; 0 where they do not matter
    #: Of the target's statement and the exact one against the server: epsilon if the receiver is better than assumed;
    #: None where there is none.
    if_better: dict[str, float | None] = field(default_factory=dict)
    #: Of a statement for the schedule that was drawn: epsilon before the draw, for any one; None where it is the same.
    before_the_draw: float | None = None

    @property
    def failure(self) -> float:
        """Probability with which an assumption fails that does not depend on data; it may be added to delta."""
        return self.schedule_failure + self.hidden_failure

    @property
    def receiver_in_words(self) -> str:
        """What is assumed of the adversary's receiver, and epsilon if it is better; empty where that is not known."""
        if self.adversary == "everyone":
            return UNCHANGED
        assumed = f"{plural(self.antennas, 'antenna')}, " if self.antennas else ""
        told = ", ".join(
            f"{epsilon_text(epsilon)} {'with' if name.endswith('antennas') else 'at'} {name}"
            for name, epsilon in self.if_better.items()
        )
        return told and f"assumes {assumed}the stated noise floor and amplitudes; epsilon by {self.accountant} {told}"

    @property
    def delta_in_words(self) -> str:
        """Delta, and the failure beside it if there is one."""
        return f"{self.delta:g}" + (f" + {self.failure:g}" if self.failure else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain values for JSON."""
        return asdict(self)

    def _repr_html_(self) -> str:
        asked = "" if self.target_epsilon is None else f" (target {self.target_epsilon:g})"
        receiver = {"receiver": self.receiver_in_words} if self.receiver_in_words else {}
        return html_facts(
            f"epsilon {epsilon_text(self.epsilon)}, delta {self.delta_in_words} for a {self.unit}{asked}",
            {
                "against": f"{self.adversary}: knows {self.knows}" if self.knows else self.adversary,
                "accountant": f"{self.accountant}, sensitivity {self.sensitivity:g}, {self.adjacency} neighbours",
                "holds for": self.given,
                "because": self.why,
                "noise": f"{self.noise_watts_per_symbol:.3g} W per symbol at that adversary's receiver",
                **receiver,
            },
        )

    def __str__(self) -> str:
        return (
            f"(epsilon {epsilon_text(self.epsilon)}, delta {self.delta_in_words}) by {self.accountant}, "
            f"adversary {self.adversary}, {self.adjacency} neighbours, sensitivity {self.sensitivity:g}, "
            f"noise {self.noise_watts_per_symbol:.3g} W per symbol"
        )


_WORKERS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class Ledger:
    """What each worker spent in the slots of a run."""

    participations: Integers  #: slots that each worker took part in; shape workers
    #: sum over those slots of beta q^2, the worker's signal at the server; shape workers
    received_watts: Doubles

    def losses(self, *, noise_watts: float, sensitivity: float, most: Doubles | float = math.inf) -> Doubles:
        """Return mu^2 of each worker, which is at most ``most``; shape workers."""
        losses = self.received_watts * sensitivity
        losses /= noise_watts / 2.0
        return np.minimum(losses, most, out=losses)

    def epsilons(self, *, delta: float, spent_mu: float = 0.0, **known: Any) -> Doubles:
        """Return the exact epsilon of each worker at ``delta``, who spent ``spent_mu`` besides; shape workers.

        What is ``known`` is as ``losses`` takes it.
        """
        found = self.losses(**known)
        for some in np.split(found, range(_WORKERS_AT_ONCE, len(found), _WORKERS_AT_ONCE)):  # views: memory stays small
            some[:] = gaussian_epsilons(np.sqrt(some + spent_mu**2), delta)
        return found

    def summary(self, epsilons: Doubles) -> dict[str, Any]:
        """Return worst, median and mean over the workers as plain values."""
        worst = int(np.argmax(epsilons))
        return {
            "worst_epsilon": float(epsilons[worst]),
            "worst_worker": worst,
            "worst_worker_slots": int(self.participations[worst]),
            "median_epsilon": float(np.median(epsilons)),
            "mean_epsilon": float(epsilons.mean()),
            "slots_per_worker": {
                "least": int(self.participations.min()),
                "median": float(np.median(self.participations)),
                "most": int(self.participations.max()),
                "silent": int((self.participations == 0).sum()),
            },
        }


def state_privacy(
    design: Design,
    adversary: Adversary,
    accountant: str,
    *,
    adjacency: str,
    delta: float,
    target_epsilon: float | None = None,
    better: bool = False,
) -> PrivacyStatement:
    """Return what the accountant certifies for the design against the adversary, or raise a PrivacyError.

    Exact statements and the target's, or any where ``better`` asks for it, say what a better receiver makes of them.
    """
    asked = Question(adversary=adversary, accountant=accountant, adjacency=adjacency, delta=delta)
    stated = _statement(asked, design, *asked.epsilon(design))
    better = better or target_epsilon is not None or accountant == "gdp"
    if better:
        stated = replace(stated, if_better=asked.if_better(design), if_withstood=asked.if_withstood(design))
    return replace(stated, target_epsilon=target_epsilon)


def with_any_schedule(stated: PrivacyStatement, design: Design, adversary: Adversary) -> PrivacyStatement:
    """Return a statement for a drawn schedule with the epsilon before the draw, and why they differ."""
    before = design.before_the_draw()
    fewer = stated.compositions < before.participations
    # What a receiver of its own hears follows from where workers are, too.
    placed = adversary.own_receiver and stated.given == DRAWN
    if not (drawn_alike(design) and (fewer or placed)):
        return stated
    asked = {name: getattr(stated, name) for name in ("accountant", "adjacency", "delta")}
    epsilon, _ = Question(adversary=adversary, **asked).epsilon(before)
    if epsilon <= stated.epsilon * (1.0 + 1e-9):
        return stated
    limits = [f"up to {before.participations:,} slots"] * fewer + ["any places of the workers"] * placed
    told = f"before the draw epsilon {epsilon_text(epsilon)}, for {' and '.join(limits)}"
    return replace(stated, before_the_draw=epsilon, why=f"{stated.why}; {told}")


def drawn_alike(design: Design) -> bool:
    """Whether a schedule was drawn, and only that schedule makes a difference between the plan and the run."""
    return design.drawn is not None and len(design.received_watts) == 1 and not design.says(ImperfectAir)


def _statement(asked: Question, design: Design, epsilon: float, mechanism: GaussianSlots) -> PrivacyStatement:
    """Return the epsilon of a mechanism with all that it assumes."""
    adversary = asked.adversary
    return PrivacyStatement(
        epsilon=epsilon,
        delta=asked.delta,
        adversary=adversary.name,
        accountant=asked.accountant,
        adjacency=asked.adjacency,
        sensitivity=mechanism.squared_move,
        **{name: getattr(mechanism, name) for name in ("sampling", "sampling_rate", "given", *FAILURES)},
        compositions=mechanism.composed,
        noise_watts_per_symbol=adversary.noise_watts(design),
        gain_bound=design.fact(ImperfectAir).gain_bound,
        colluders=adversary.colluders,
        withstands=design.fact(WorkersNoise).withstands,
        antennas=adversary.antennas(design) if adversary.hears(design) else 0,
        knows=adversary.knows,
        why="; ".join(filter(None, (mechanism.why, air_in_words(design, adversary, mechanism)))),
    )


def state_jointly(statements: Sequence[PrivacyStatement], *, gaussian: bool) -> PrivacyStatement:
    """Return what several releases of the same data reveal together, to an adversary who gets them all.

    Epsilons and deltas add up (basic composition). Where all slots of each release form one Gaussian mechanism, which
    ``gaussian`` says, exact statements compose exactly: their mu^2 add up, at the delta of the first. Each release is
    stated of its own worst worker, so that the sum holds for every worker.
    """
    first, count = statements[0], len(statements)
    if count == 1:
        return first
    exact = gaussian and {each.accountant for each in statements} == {"gdp"}
    delta = first.delta if exact else sum(each.delta for each in statements)
    left = delta - sum(each.gain_failure for each in statements)
    require(left > 0.0, f"{count} releases: gains exceed their bounds with more probability than delta = {delta:g}")

    def composed(epsilons: list[float | None]) -> float | None:
        known = [each for each in epsilons if each is not None and math.isfinite(each)]
        if len(known) < count or not exact:
            return sum(known) if len(known) == count else None
        each_left = (each.delta - each.gain_failure for each in statements)
        squares = (gaussian_mu(*each) ** 2 for each in zip(known, each_left, strict=True))
        return gaussian_epsilon(math.sqrt(sum(squares)) * (1.0 + ROUNDING), left)

    epsilon = composed([each.epsilon for each in statements])
    better = {name: composed([each.if_better.get(name) for each in statements]) for name in first.if_better}
    why = f"{count} releases of the same data together: {'their mu^2 add up' if exact else 'basic composition'}"
    failures = {name: sum(getattr(each, name) for each in statements) for name in FAILURES}
    epsilon = math.inf if epsilon is None else epsilon
    before = composed([each.before_the_draw for each in statements])
    changes: dict[str, Any] = {"if_better": better, "before_the_draw": before, **failures}
    if first.withstands is not None:
        changes["withstands"] = min(each.withstands or 0 for each in statements)
        changes["if_withstood"] = composed([each.if_withstood for each in statements])
    return replace(first, epsilon=epsilon, delta=delta, why=why, **changes)


def together(design: Design, copies: int) -> Design:
    """Return the design in which one worker sends all that so many do who hold the same row.

    A row has the squared shifts of a worker times c^2, or less where not all its copies can meet. With K_t copies in
    slot t it has sum_t K_t^2 of them. K_t is at most |N_t|, so that this is at most c |N_t| times those of a worker,
    and |N_t|^2 times in a single slot. Before a schedule is drawn the sum also has a Chernoff bound, ln P(sum > B) <=
    T ln E exp(x K^2) - x B for any x > 0, with a union bound over the rows: it fails with the probability that is
    stated for the schedule of a worker, whose number of slots it takes the place of.
    """
    # Coins may schedule any number of them.
    at_once = copies if design.sampling == "poisson" else min(copies, design.scheduled)
    factor = float(at_once * (at_once if design.slots == 1 else copies))
    alike = len(set(design.received_watts)) == 1
    if alike and design.drawn is None and not design.max_participations and design.schedule_failure:
        present = np.arange(at_once + 1)
        log_chances = _log_chances(present, copies, design)
        failure = math.log(design.workers / SCHEDULE_FAILURE)
        bounds = [
            (design.slots * max(float(log_sum(log_chances + x * present**2.0)), 0.0) + failure) / x
            for x in np.geomspace(1e-4, 50.0, 400).tolist()
        ]
        factor = float(min(factor, min(bounds) / design.participations))
    louder = design.scaled(factor)
    return replace(louder, facts=tuple(each.of_copies(copies, factor) for each in louder.facts))


def _log_chances(present: Integers, copies: int, design: Design) -> Doubles:
    """Return ln of the chances that so many of the copies send in a slot."""
    workers, scheduled = design.workers, design.scheduled
    if design.sampling == "poisson":
        rate = scheduled / workers
        return np.asarray(
            log_binomial(copies, present) + present * math.log(rate) + (copies - present) * math.log1p(-rate)
        )
    ways = log_binomial(copies, present) + log_binomial(workers - copies, scheduled - present)
    return np.asarray(ways - log_sum(ways))


def state_row(
    design: Design,
    adversary: Adversary,
    copies: int,
    *,
    adjacency: str,
    delta: float,
    joined: Design | None = None,
    whole: Design | None = None,
    unit: str = "row",
) -> PrivacyStatement:
    """Return what holds for a row on so many workers, by the smallest bound there is, or raise a PrivacyError.

    One worker's part of ``design`` is that of one copy. Neighbours have another row in its place, or none on all of
    these workers. ``joined`` has all copies as one worker, where that is known better than ``together`` knows it.
    ``whole`` is the worker with its other rows, where ``design`` has a row's part of it: those rows tell whether the
    worker sent, so that a hidden schedule hides a row no better than it hides any change of the worker.
    """
    views = [("gdp", view) for view in adversary.views(joined or together(design, copies), adjacency) if _known(view)]
    hidden = adversary.views(design, adjacency) if whole is None else adversary.views(whole, "replace-one")
    views += [("rdp", in_steps(view, copies)) for view in hidden if not _known(view)]
    found: list[tuple[float, str, GaussianSlots]] = []
    for accountant, view in views:
        try:
            epsilon = certified_epsilon(accountant, view, delta)
        except PrivacyError:
            continue
        if math.isfinite(epsilon):
            found.append((epsilon, accountant, view))
    if not found:
        raise PrivacyError(f"a row on {copies:,} workers: nothing is certified against {adversary.name}")
    epsilon, accountant, view = min(found, key=lambda each: each[0])
    if copies > 1:
        how = "one by one (group privacy)" if view.steps > 1 else "whose shifts add up"
        view = replace(view, why=f"{view.why}; {copies:,} workers hold the row, {how}")
        unit = f"{unit} on {copies:,} workers"
    asked = Question(adversary=adversary, accountant=accountant, adjacency=adjacency, delta=delta)
    return replace(_statement(asked, design, epsilon, view), unit=unit)


def in_steps(view: GaussianSlots, copies: int) -> GaussianSlots:
    """Return a hidden schedule with so many steps between neighbours; each removal leaves fewer workers to draw."""
    population = view.population
    if view.adjacency == "remove-one" and view.sampling == "without-replacement":
        population = max(population - copies + 1, view.sampled)
    return replace(view, steps=view.steps * copies, population=population)


def _known(view: GaussianSlots) -> bool:
    return view.sampling == "none" and view.steps == 1
