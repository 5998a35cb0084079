"""An audit: attack what an adversary sees, bound epsilon from below, and hold that against every claim."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from airmixml.audit.accountant_claims import claims_of
from airmixml.audit.canaries import data_of, draw_pairs, sent_of, worst_samples
from airmixml.audit.evidence import bounds_of, why_far_below
from airmixml.audit.faults import SOUND, Fault
from airmixml.audit.findings import Audit
from airmixml.audit.hidden_schedule import hidden_schedule_trials
from airmixml.audit.known_schedule import known_schedule_trials, slots_of_worker
from airmixml.audit.noise_check import CHECKS, NoiseCheck, NoiseMeter, noise_of_a_run, runs_needed
from airmixml.audit.one_run import OneRun, canaries_that_fit, run_with_canaries
from airmixml.audit.trials import Keeper, MemoryKeeper, Trials
from airmixml.data import DataSet
from airmixml.devices import using_threads
from airmixml.errors import ScenarioError
from airmixml.privacy import Sensitivity
from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting
from airmixml.radio.privacy_target import slots_target
from airmixml.radio.rehearsal import placed_distances, rehearse
from airmixml.radio.scheduling import NOBODY_SENT
from airmixml.radio.senders import make_sender
from airmixml.radio.tally import Tally
from airmixml.scenario import Scenario, Speed
from airmixml.units import dbm_to_watts
from airmixml.workers import encoded_dim

# A sensitivity that the worst canaries miss by more than this is worth a word.
_NOT_REACHED: Final = 1.001
# So are canaries of the one run that move by less than this of what the worst ones do.
_WELL_REACHED: Final = 0.9
_PAIRS_LOOKED_AT: Final = 16
# Most of the failure probability that a check of the noise takes: noise is plenty, so it costs nothing.
_NOISE_FAILURE: Final = 1e-6
_NOISE_SHARE: Final = 0.01
_NOISE: Final = "noise of a run"


class Auditor:
    """Audits one scenario, for one adversary after the other.

    The schedule is rehearsed once: it decides the worst worker and what is claimed.
    """

    def __init__(
        self,
        scenario: Scenario,
        dataset: DataSet,
        *,
        adjacency: str = "",
        trials: int = 10_000,
        canaries: int = 1000,
        confidence: float = 0.95,
        adversaries: int = 1,
        fault: Fault = SOUND,
        speed: Speed | None = None,
        keeper: Keeper | None = None,
        progress: Progress = silent,
    ) -> None:
        """Prepare an audit.

        Args:
            scenario: what to audit.
            dataset: its data, encoded.
            adjacency: which neighbours; empty for the scenario's own.
            trials: of which half have the canary.
            canaries: workers that are canaries in one real run; 0 for no such run.
            confidence: with which all lower bounds on all adversaries hold together.
            adversaries: how many are audited: what the confidence leaves is split over them.
            fault: what is broken on purpose; claims are those of the sound mechanism.
            speed: threads and block size.
            keeper: keeps finished blocks of trials.
            progress: told how far each stage is.
        """
        self.scenario, self.dataset = scenario, dataset
        self.adjacency = adjacency or scenario.privacy.adjacency
        self.delta = slots_target(scenario)[1]
        self._trials, self._canaries, self._confidence = trials // 2, canaries, confidence
        left = 1.0 - confidence
        self._noise_failure = min(_NOISE_FAILURE, _NOISE_SHARE * left / CHECKS)
        self._failure = (left - CHECKS * self._noise_failure) / adversaries
        self._noise_check: NoiseCheck | None = None
        self._fault, self._speed = fault, speed or Speed()
        self._keeper, self._progress = keeper or MemoryKeeper(), progress
        # A mean that is estimated on air is subtracted later, and the constant appended after that.
        self._features = encoded_dim(scenario.workers, dataset.held_dim or dataset.input_dim)
        self._setting = AirSetting.of(scenario, self._features, dataset.label_dim, placed_distances(scenario))
        self._tally: Tally | None = None

    @property
    def tally(self) -> Tally:
        """What the schedule of the scenario's seed decides."""
        if self._tally is None:
            classes = self.dataset.label_dim
            self._tally = rehearse(self.scenario, self._features, classes, progress=self._progress)
            if not self._tally.largest_power_watts:
                raise ScenarioError(NOBODY_SENT)
        return self._tally

    def audit(self, adversary: str) -> Audit:
        """Attack as that adversary: "release" or "server"."""
        why_told = self._why_nothing_is_hidden() if adversary == "release" else "the server knows the schedule"
        if why_told and adversary == "release" and self._fault.schedule_revealed:
            raise ScenarioError(
                f"fault = {self._fault.name!r}: nothing is hidden that could be revealed, since {why_told}; choose "
                "another fault"
            )
        told = bool(why_told)
        with using_threads(self._speed.threads):
            trials = self._known() if told else self._hidden()
            one_run, left_out = self._one_run(told=told)
            noise = self._noise()
        design = self.tally.design
        claims = claims_of(self.scenario, design, adversary, self.adjacency, self.delta)
        other_claims = []
        if one_run is not None and one_run.adjacency != self.adjacency:
            other_claims = claims_of(self.scenario, design, adversary, one_run.adjacency, self.delta)
        audit = Audit(
            adversary=adversary,
            adjacency=self.adjacency,
            delta=self.delta,
            confidence=self._confidence,
            failure=self._failure,
            claims=claims,
            other_claims=other_claims,
            bounds=bounds_of(
                trials,
                one_run,
                left_out,
                noise,
                adjacency=self.adjacency,
                delta=self.delta,
                failure=self._failure,
            ),
            trials=trials,
            one_run=one_run,
            noise_check=noise,
            notes=[],
        )
        return replace(audit, notes=self._notes(audit, why_told))

    def _why_nothing_is_hidden(self) -> str:
        """Return why no credit is claimed for a hidden schedule; empty where it is."""
        scenario, design = self.scenario, self.tally.design
        if design.power_tells_schedule:
            return "received power may tell who was scheduled"
        if design.ratios_tell_ranks and scenario.privacy.colluders:
            return "the ratios of colluding workers tell of the others' channels"
        everybody = design.everybody_sends and design.sampling == "without-replacement"
        return "everybody sends in every slot" if everybody and scenario.mixing.policy == "equalmix" else ""

    def _known(self) -> Trials:
        worst = int(self.tally.ledger.received_watts.argmax())
        return known_schedule_trials(
            self._setting,
            self.dataset.label_dim,
            slots_of_worker(self._setting, worst, threads=self._speed.threads),
            adjacency=self.adjacency,
            trials=self._trials,
            fault=self._fault,
            keeper=self._keeper,
            progress=self._progress,
        )

    def _hidden(self) -> Trials:
        return hidden_schedule_trials(
            self._setting,
            self.dataset.label_dim,
            adjacency=self.adjacency,
            trials=self._trials,
            fault=self._fault,
            keeper=self._keeper,
            progress=self._progress,
            threads=self._speed.threads,
        )

    def _one_run(self, *, told: bool) -> tuple[OneRun | None, str]:
        """Return the run with many canaries, or why there is none."""
        scenario = self.scenario
        canaries, why = canaries_that_fit(self._canaries, scenario.workers.count, self._setting.signal.symbols)
        if not canaries:
            return None, why
        hidden_fixed = not told and scenario.radio.schedule == "fixed"
        # Where a removed worker's seat goes to somebody else, a coin cannot remove it from this run.
        adjacency = "replace-one" if hidden_fixed else self.adjacency
        told = told or self._fault.schedule_revealed
        name = f"one run, schedule {'known' if told else 'hidden'}, {adjacency}"
        kept = self._keeper.load(name)
        if kept:
            return OneRun(scores=kept[0][0], coins=kept[0][1] > 0.5, adjacency=adjacency), why
        meter = NoiseMeter(self._setting.signal.symbols, dbm_to_watts(scenario.radio.noise_dbm))
        run = run_with_canaries(
            scenario,
            self.dataset,
            canaries,
            adjacency=adjacency,
            told=told,
            fault=self._fault,
            speed=self._speed,
            progress=self._progress,
            meter=meter,
        )
        if self._noise_check is None and runs_needed(scenario, self._setting.signal.symbols) == 1:
            self._keep(meter.finish(self._noise_failure))
        self._keeper.save(name, [np.stack([run.scores, run.coins.astype(np.float64)])])
        return run, why

    def _noise(self) -> NoiseCheck:
        """Return what the noise of a real run is like: of that with canaries, or of as many as it takes."""
        if self._noise_check is None and (kept := self._keeper.load(_NOISE)):
            self._noise_check = NoiseCheck.from_numbers(kept[0])
        if self._noise_check is None:
            meter = noise_of_a_run(
                self.scenario,
                self.dataset,
                self._setting.signal.symbols,
                fault=self._fault,
                speed=self._speed,
                progress=self._progress,
            )
            self._keep(meter.finish(self._noise_failure))
        assert self._noise_check is not None
        return self._noise_check

    def _keep(self, check: NoiseCheck) -> None:
        self._noise_check = check
        self._keeper.save(_NOISE, [check.to_numbers()])

    def _notes(self, audit: Audit, why_told: str) -> list[str]:
        notes = []
        if audit.adversary == "release" and why_told:
            notes.append(f"{why_told}, so the release is attacked as one who knows the schedule")
        if self.scenario.workers.centre == "private":
            notes.append("the slots alone are audited, not the one that estimates the mean")
        if not why_told and len(self.tally.design.counts) > 1:
            notes.append("slots differ in power: claims are about those of this seed, trials about those of others too")
        notes += why_far_below(audit)
        sampling = "none" if why_told else self.tally.design.sampling
        claimed, moved = self.tally.design.sensitivity.squared_move(self.adjacency, sampling), self._reached(sampling)
        if claimed > _NOT_REACHED * moved and not self._fault.name:
            notes.append(f"the sensitivity {claimed:g} that is claimed with is never reached: {moved:.4g} is")
        if any(bound.epsilon is not None and bound.adjacency != self.adjacency for bound in audit.bounds):
            notes.append("the one run is held against the claim for replace-one: somebody takes a removed one's seat")
        if audit.one_run is not None and (missed := self._missed_by_pairs(audit.one_run.adjacency)):
            notes.append(missed)
        if audit.noise_check.passed is None:
            notes.append("the noise of a run was not checked: its signal is so loud that float32 rounds it away")
        return notes

    def _missed_by_pairs(self, adjacency: str) -> str:
        """Return in words how far the canaries of the one run fall short of the worst ones; empty where they do not."""
        classes, device = self.dataset.label_dim, torch.device("cpu")
        pairs = draw_pairs(self.scenario, self._features, classes, _PAIRS_LOOKED_AT)
        first, second = (
            sent_of(make_sender(self.scenario, data_of(inputs, labels, classes), device), _PAIRS_LOOKED_AT)
            for inputs, labels in ((pairs.first, pairs.first_labels), (pairs.second, pairs.second_labels))
        )
        moves = first if adjacency == "remove-one" else first - second
        moved = float(np.mean(np.sum(moves**2, axis=1)))
        canary, other, _ = sent_of(
            make_sender(self.scenario, worst_samples(self.scenario, self._features, classes), device), 3
        )
        worst = math.fsum((canary if adjacency == "remove-one" else canary - other) ** 2)
        if moved >= _WELL_REACHED * worst:
            return ""
        return f"canaries of the one run move by {moved:.3g} squared, the worst ones by {worst:.3g}"

    def _reached(self, sampling: str) -> float:
        """Return the largest squared move of canaries as they are really sent."""
        canaries = worst_samples(self.scenario, self._features, self.dataset.label_dim)
        canary, other, _ = sent_of(make_sender(self.scenario, canaries, torch.device("cpu")), 3)
        removal, replacement = (math.fsum(move**2) for move in (canary, canary - other))
        return Sensitivity(removal=removal, replacement=replacement).squared_move(self.adjacency, sampling)
