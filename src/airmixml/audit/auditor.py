"""An audit: attack what an adversary sees, bound epsilon from below, and hold that against every claim.

``airmix audit`` writes a folder with verdict, tables, scores and picture; an interrupted one is resumed.
"""

import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from airmixml.arrays import Doubles, using_threads
from airmixml.audit.audit_page import audit_page, draw_audit
from airmixml.audit.claims_and_bounds import Audit, AuditResult, claims_of
from airmixml.audit.isolating_listener import check_added_noise
from airmixml.audit.noise_check import CHECKS, NoiseCheck, check_noise, check_rounds_noise
from airmixml.audit.settings import AUDITED, AuditSettings
from airmixml.audit.trials import KEPT_FILES, Bench, Keeper
from airmixml.data import DataSet
from airmixml.engines import Engine
from airmixml.files import write_arrays, write_text, writing_to
from airmixml.messages import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.air import air_of
from airmixml.radio.draws import AirSetting
from airmixml.radio.privacy_target import target_question
from airmixml.radio.system import adversary_named
from airmixml.radio.tally import Tally, placed_distances, rehearse
from airmixml.registries import ACCOUNTANTS
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.scenario import identity_of
from airmixml.scenario.toml import folder_stem
from airmixml.storage.folders import RUNS_FOLDER, Finish, claim, write_result
from airmixml.streams import Streams
from airmixml.workers import encoded_dim, load_dataset, settle

# Most of the failure probability that a check of the noise takes: noise is plenty, so it costs nothing.
_NOISE_FAILURE: Final = 1e-6
_NOISE_SHARE: Final = 0.01


class Auditor:
    """Audits one scenario with its encoded data, for one adversary after the other.

    The schedule is rehearsed once: it decides the worst worker and what is claimed. What the confidence leaves is split
    over the adversaries. The keeper keeps finished blocks of trials.
    """

    def __init__(
        self,
        scenario: Scenario,
        dataset: DataSet,
        settings: AuditSettings,
        *,
        context: RunContext | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.scenario, self.dataset, self._settings = scenario, dataset, settings
        self._context, self._keeper = context or RunContext(), keeper or Keeper()
        self.adjacency = settings.neighbours(scenario)
        left, audited, rounds = 1.0 - settings.confidence, settings.audited(scenario), bool(scenario.learner.rounds)
        heard = {AUDITED[name].hears_sums for name in audited}
        checks = CHECKS * (len(heard) + (rounds and True in heard))  # of sums, and of what workers add
        self._noise_failure = min(_NOISE_FAILURE, _NOISE_SHARE * left / checks)
        self._failure = (left - checks * self._noise_failure) / len(audited)
        self._features = encoded_dim(scenario.workers, dataset.held_dim or dataset.input_dim)
        where = scenario, self._features, dataset.label_dim, placed_distances(scenario)
        self._bench = Bench(
            air=AirSetting.of(*where),
            rounds=AirSetting.of(*where, in_rounds=True) if rounds else None,
            classes=dataset.label_dim,
            adjacency=self.adjacency,
            trials=settings.trials // 2,
            fault=settings.fault,
            keeper=self._keeper,
            context=self._context,
        )

    @cached_property
    def tally(self) -> Tally:
        """What the schedule of the scenario's seed decides."""
        tally = rehearse(self.scenario, self._features, self.dataset.label_dim, progress=self._context.progress)
        if not tally.largest_power_watts:
            raise ScenarioError(air_of(self.scenario).nobody_sent)
        return tally

    def audit(self, adversary: str) -> Audit:
        """Attack as that adversary: "release", "server" or "everyone"."""
        whom, design = AUDITED[adversary], self.tally.design
        why_told = whom.why_told(self.scenario, design, self._settings.fault)
        with using_threads(self._context.speed.threads):
            worst = int(self.tally.ledger.received_watts.argmax())
            trials = whom.trials(self._bench, worst, told=bool(why_told))
            if whom.hears_sums:
                noise = self._noise_of_runs
            else:
                noise = [check_added_noise(self._bench, worst, self._noise_failure)]

        asked = target_question(self.scenario)
        asked = replace(asked, adversary=adversary_named(adversary, self.scenario), adjacency=self.adjacency)
        notes = []
        if adversary == "release" and why_told:
            notes.append(f"{why_told}, so the release is attacked as one who knows the schedule")
        if not why_told and len(design.counts) > len(self._bench.kinds):
            notes.append("slots differ in power: claims are about those of this seed, trials about those of others too")
        if noise[0].passed is None:
            notes.append("the noise of a run was not checked: its signal is so loud that float32 rounds it away")
        return Audit(
            adversary=adversary,
            adjacency=self.adjacency,
            delta=asked.delta,
            confidence=self._settings.confidence,
            failure=self._failure,
            claims=claims_of(whom.claimed(design), asked, ACCOUNTANTS.names_with(self.scenario.privacy.accountant)),
            trials=trials,
            noise_checks=noise,
            centred=self.tally.centring is not None,
            notes=notes,
        )

    @cached_property
    def _noise_of_runs(self) -> list[NoiseCheck]:
        """What the noise is like that claims against those who hear sums rest on."""
        bench, about = self._bench, (self._bench, self.dataset, self._noise_failure)
        found = [check_rounds_noise(*about) if self.scenario.workers.sends == "gradients" else check_noise(*about)]
        return found if bench.rounds is None else [*found, check_rounds_noise(*about)]


def audit(
    scenario: Scenario,
    settings: AuditSettings | None = None,
    *,
    out: Path | str | None = None,
    force: bool = False,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
    engine: str = "local",
    jobs: int | None = None,
    finish: Finish | None = None,
    again: bool = True,
) -> AuditResult:
    """Audit a scenario, write its folder, and return what was found (the folder's ``metrics.json``).

    Settings say as whom, which neighbours, how many trials, with which confidence and which fault. The other
    arguments are those of ``airmixml.attacks.attack``; blocks of trials and the schedule run on the engine.
    """
    chosen = Engine.of(engine, jobs)
    settings, scenario = settings or AuditSettings(), settle(scenario, data_dir=data_dir, progress=progress)
    settings.check(scenario)
    fault = settings.fault
    asked = [settings.trials, settings.confidence, fault.name]
    identity = {
        **identity_of(scenario),
        "audit": [list(settings.audited(scenario)), settings.neighbours(scenario), *asked],
    }
    name = f"audit-{folder_stem(scenario.name, scenario.air)}{'-' * bool(fault.name)}{fault.name}-seed{scenario.seed}"
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress, engine=chosen)
    with writing_to(out or RUNS_FOLDER), claim(out, name, identity, force=force, again=again) as folder:
        result = audit_scenario(scenario, settings, context=context, keeper=Keeper(folder.work), run_dir=folder.final)
        scores: dict[str, Doubles] = {}
        for each in result.audits:
            scores[f"{each.adversary}_with_canary"] = each.trials.scores_in
            scores[f"{each.adversary}_without"] = each.trials.scores_out
        write_arrays(folder.work / "scores.npz", scores)
        plain = result.to_dict()
        write_text(folder.work / "audit.md", audit_page(plain, scenario).to_markdown())
        draw_audit(result, folder.work / "audit.png")
        write_result(folder.work, scenario, plain)
        folder.publish(replace=force, leave_out=KEPT_FILES, finish=finish)
    return result


def audit_scenario(
    scenario: Scenario, settings: AuditSettings, *, context: RunContext, keeper: Keeper, run_dir: Path
) -> AuditResult:
    """Audit a scenario and return what was found; nothing is written but what the keeper keeps."""
    started, progress = time.perf_counter(), context.progress
    dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=context.data_dir, progress=progress)
    auditor = Auditor(scenario, dataset, settings, context=context, keeper=keeper)
    audits = [auditor.audit(adversary) for adversary in settings.audited(scenario)]
    own = AUDITED.get(scenario.privacy.adversary)
    if own and not settings.adversaries and (refusal := own.refusal(scenario)):
        audits[0].notes.append(f"the target is against the {own.name}, which was left out: {refusal}")
    return AuditResult(
        scenario=scenario,
        fault=settings.fault,
        audits=audits,
        resumed_blocks=keeper.resumed_blocks,
        seconds=time.perf_counter() - started,
        run_dir=run_dir,
    )
