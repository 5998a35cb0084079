"""What follows from a design: privacy, power, energy, signal and time on the air, in parts as they are ready.

Everything is computed by the functions behind ``airmix plan`` and ``airmix account``. Light parts take milliseconds and
are computed where the page asks. Slow accountants and better designs take seconds, in a process that is forked from a
server that has imported everything already; ending it is how a page cancels.
"""

import asyncio
import math
import multiprocessing
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final

from airmixml.arrays import using_threads
from airmixml.explore.asked import KEYS, Asked
from airmixml.messages import AirMixError, against, duration, epsilon_words, joules
from airmixml.planning.account import Account, account_scenario
from airmixml.planning.known_inputs import data_dimensions, input_moments, table_columns
from airmixml.planning.plan import REHEARSED_ROUNDS, make_plan
from airmixml.planning.planned import Plan
from airmixml.progress import Progress, silent
from airmixml.radio.system import System
from airmixml.registries import ACCOUNTANTS
from airmixml.scenario import Scenario
from airmixml.scenario.toml import finite
from airmixml.workers.loading import check_signal_memory

Part = dict[str, Any]

LIGHT_ACCOUNTANTS: Final = ("paper-loose", "paper-tight", "rdp", "gdp")
# What a plan draws takes about 0.1 s for so many seats, and a rehearsal of all slots is slower.
_LIGHT_SEATS: Final = 400_000
_LIGHT_REHEARSED_SEATS: Final = 25_000
_LIGHT_MASKED_SEATS: Final = 4_000
_LIGHT_WORKERS: Final = 200_000
_PLANNED_SLOTS: Final = 2048


def is_light(scenario: Scenario) -> bool:
    """Return whether plan and light accountants take less than about 0.1 s."""
    radio, workers, rounds = scenario.radio, scenario.workers, scenario.learner.rounds
    seats = (min(radio.slots, _PLANNED_SLOTS) + min(rounds, REHEARSED_ROUNDS)) * radio.scheduled
    rehearsed = not scenario.mixing.power_policy.keeps_target or workers.centre_on_air
    return (
        scenario.privacy.accountant in LIGHT_ACCOUNTANTS
        and workers.count <= _LIGHT_WORKERS
        and seats <= _LIGHT_SEATS
        and not (rehearsed and scenario.slots_on_air * radio.scheduled > _LIGHT_REHEARSED_SEATS)
        and not (scenario.privacy.noise_kind.brought and radio.scheduled > _LIGHT_MASKED_SEATS)
        and (scenario.met.air.is_ideal or seats <= _LIGHT_REHEARSED_SEATS)
    )


def scenario_part(asked: Asked, settled: Scenario) -> Part:
    """Return the values of the keys, and the scenario in its two forms."""
    plain = settled.to_json()
    values = {key: plain[key.partition(".")[0]][key.partition(".")[2]] for key in KEYS}
    privacy, slots = settled.privacy, settled.slots_in_words
    target = f"Target epsilon {privacy.epsilon:g} by {privacy.accountant} {against(privacy.adversary)}"
    return {
        "part": "scenario",
        "name": asked.scenario.name,
        "air": settled.air.preset,
        "seed": settled.seed,
        "slots": slots,
        "values": values,
        "known": f"{target}; {settled.workers.count:,} workers, {settled.radio.scheduled:,} at a time in {slots}",
        "exports": {"toml": asked.scenario.to_toml(comments=True), "command": asked.command},
    }


def plan_part(
    scenario: Scenario, *, account: Account | None = None, alternatives: bool = False, progress: Progress = silent
) -> Part:
    """Return the plan, with a verdict and cards about the design on the page; ``account`` where one is known."""
    dimensions = data_dimensions(scenario, None, None)
    check_signal_memory(scenario.workers, *dimensions)
    moments = input_moments(scenario, None, None, named=True)
    plan = make_plan(
        scenario,
        *dimensions,
        moments,
        held_dim=table_columns(scenario, None),
        alternatives=alternatives,
        progress=progress,
    )
    if scenario.mixing.power_policy.keeps_target:
        word, kind = ("feasible", "good") if plan.feasible else ("not feasible", "bad")
        verdict = {"kind": kind, "word": word, "text": plan.verdict, "runs": plan.feasible}
    else:  # the plan meets the target by a power that the scenario does not have: its own is shown
        if account is None or scenario.privacy.accountant not in account.asked:
            account = account_part(scenario, (scenario.privacy.accountant,))[1]
        assert account.tally is not None
        sent = account.tally
        verdict = _verdict(scenario, account)
        plan = replace(
            plan,
            verdict=str(verdict["text"]),
            power_dbm=sent.transmit_power,
            energy_joules=sent.energy_joules,
            worker_energy_joules=sent.energy_joules / scenario.workers.count,
            noise_multipliers=account.noise_multipliers,
            limited_share=sent.limited_slots / scenario.slots_on_air,
            snr_inputs_db=math.nan,  # a run has them
            snr_labels_db=math.nan,
        )
    found = plan.recommended
    rehearsal = found.rehearsal if found is not None and found.own_is_tried else None
    seconds = plan.air_seconds if plan.feasible else System.of(scenario, *dimensions).air_seconds
    return {
        "part": "options" if alternatives else "plan",
        "plan": finite(plan.to_dict()),
        "verdict": verdict,
        "cards": _cards(plan, seconds, scenario),
        "air_seconds": seconds,
        "accuracy": rehearsal
        and {"accuracy": rehearsal.own.accuracy, "error": rehearsal.own.error, "how": f"on {rehearsal.basis}"},
    }


def _verdict(scenario: Scenario, account: Account) -> dict[str, Any]:
    """Return what is certified for a scenario whose power keeps no target, beside the target."""
    privacy, own = scenario.privacy, (scenario.privacy.adversary, scenario.privacy.accountant)
    stated = {(each.adversary, each.accountant): each.epsilon for each in account.statements}
    set_by = f'Power is set by mixing.power = "{scenario.mixing.power}", not by the target.'
    if own not in stated:
        why = account.refusals.get(own, "")
        text = f"{why}. {set_by}" if why else set_by
        return {"kind": "", "word": "nothing certified", "text": text, "runs": True}
    above = stated[own] > privacy.epsilon
    told = f"epsilon {epsilon_words(stated[own])} (by {own[1]} against {own[0]}, target {privacy.epsilon:g}). {set_by}"
    word = "above the target" if above else "below the target"
    return {"kind": "bad" if above else "", "word": word, "text": told, "runs": True}


def _cards(plan: Plan, air_seconds: float, scenario: Scenario) -> list[dict[str, str]]:
    """Return numbers of the design with their units, as ``airmix plan`` prints them, and what each means."""
    cards: list[tuple[str, str, str, str]] = []
    if plan.power_dbm is None:
        return []
    power = plan.power_dbm
    largest = f"largest {power.largest:.1f} dBm, limit {power.limit:g} dBm"
    cards.append(("Transmit power", f"{power.median:.1f} dBm", largest, "Median over all workers that send."))
    each = f"{joules(plan.worker_energy_joules)} per worker"
    about = f"Radiated by all workers in all slots: {scenario.radio.link_kind.energy_in_words(scenario)}."
    cards.append(("Energy", joules(plan.energy_joules), each, about))
    if not math.isnan(plan.snr_inputs_db):
        labels = "" if math.isnan(plan.snr_labels_db) else f"; labels {plan.snr_labels_db:.1f} dB"
        about = "Signal-to-noise ratio of the inputs in a mixture, in the median slot."
        cards.append(("SNR", f"{plan.snr_inputs_db:.1f} dB", f"inputs{labels}", about))
    cards.append(("Air time", duration(air_seconds), scenario.slots_in_words, "How long all slots and rounds last."))
    limited = plan.limited_share > 0.0
    alike = "strongest slot" if plan.rounds or not scenario.mixing.power_policy.keeps_target else "every slot"
    where = f"power limited in {100.0 * plan.limited_share:.1f} % of the slots" if limited else alike
    about = "Standard deviation of the noise divided by the sensitivity of one worker: larger is more private."
    cards.append(("Noise multiplier", f"{plan.noise_multiplier:.3g}", where, about))
    return [dict(zip(("name", "value", "note", "about"), card, strict=True)) for card in cards]


def account_part(scenario: Scenario, accountants: tuple[str, ...]) -> tuple[Part, Account]:
    """Return what some accountants certify against every adversary."""
    account = account_scenario(scenario, *data_dimensions(scenario, None, None), accountants=accountants)
    plain = account.to_dict()
    return {
        "part": "account",
        "adversaries": [{"name": each.name, "knows": each.knows} for each in account.adversaries],
        "accountants": list(accountants),
        "all_accountants": list(ACCOUNTANTS.names),
        "about": {name: ACCOUNTANTS.load(name).about for name in ACCOUNTANTS.names},
        "statements": finite(plain["statements"]),
        "refusals": plain["refusals"],
        "row": account.row
        and {
            "name": account.row.name,
            "held": f"{account.row.held}{account.row.when}",
            "epsilons": finite(account.row.epsilons),
        },
        "what_if": plain.get("what_if", []),
        "receivers": account.receivers,
        "draw": re.sub(r" \(--[^)]*\)", "", account.draw_in_words),  # options are the command line's
        "delta": account.delta,
        "adjacency": account.adjacency,
    }, account


def light_parts(scenario: Scenario) -> Iterator[Part]:
    """Yield the plan and what light accountants certify; what fails says why, in one line."""
    with using_threads(1):  # so little work is done sooner than other threads are woken
        account: Account | None = None
        try:
            said, account = account_part(scenario, LIGHT_ACCOUNTANTS)
        except AirMixError as problem:
            said = problem_part(problem)
        yield told(lambda: plan_part(scenario, account=account))
        yield said


def told(make: Callable[[], Part]) -> Part:
    """Return a part, or the line that says why there is none."""
    try:
        return make()
    except AirMixError as problem:
        return problem_part(problem)


def problem_part(problem: AirMixError, *, invalid: bool = False) -> Part:
    """Return the line that the command line would print; ``invalid``: of values that make no scenario."""
    return {"part": "problem", "line": " ".join(str(problem).split()), "invalid": invalid}


_AT_A_TIME: Final = max(1, (os.cpu_count() or 2) - 1)
_LOOK_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 90.0
_PREPARED: Final = "airmixml.explore.design"

# Forked from a server that has imported everything, a process starts in milliseconds; elsewhere it takes seconds.
_METHOD: Final = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_context: Final[Any] = multiprocessing.get_context(_METHOD)


def prepare() -> None:
    """Start what processes are forked from; it imports in the background."""
    if _METHOD == "forkserver":
        from multiprocessing import forkserver, resource_tracker

        resource_tracker.ensure_running()  # lifts a block of signals, so it must come before
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for the explorer
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)


class Jobs:
    """Runs functions in processes, a few at a time; others wait."""

    def __init__(self) -> None:
        if _METHOD == "forkserver":
            _context.set_forkserver_preload([_PREPARED])
        self._places = asyncio.Semaphore(_AT_A_TIME)

    async def answers(
        self, work: Callable[..., None], argument: str, is_gone: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[Any]:
        """Yield what ``work(argument, pipe)`` sends, until it ends, or ``is_gone()``: then it is ended."""
        async with self._places:
            reader, writer = _context.Pipe(duplex=False)
            process = _context.Process(target=work, args=(argument, writer), daemon=True)
            loop, deadline = asyncio.get_running_loop(), time.monotonic() + LONGEST_SECONDS
            starting = loop.run_in_executor(None, process.start)
            # However this ends, even while the process is being started, it is killed.
            try:
                await asyncio.shield(starting)
                writer.close()
                while not await is_gone():
                    if time.monotonic() > deadline:
                        yield {"part": "late", "seconds": LONGEST_SECONDS}
                        return
                    if await loop.run_in_executor(None, reader.poll, _LOOK_SECONDS):
                        yield await loop.run_in_executor(None, reader.recv)
            except EOFError:  # it is done, or was killed
                return
            finally:
                starting.add_done_callback(lambda _: _end(process, reader, writer))


def _end(process: Any, *pipes: Any) -> None:
    if process.pid is not None:
        process.kill()
    for pipe in pipes:
        pipe.close()


_NICENESS: Final = 10
_SECONDS_BETWEEN_REPORTS: Final = 0.3


def compute(text: str, answers: Connection) -> None:
    """Send through the pipe what the light parts of a scenario (TOML) left out, and how far a long one is.

    Then close it; the process does nothing else.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # what answers at once comes first
    scenario, said = Scenario.from_toml(text), 0.0

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said < _SECONDS_BETWEEN_REPORTS:
            return
        said = time.monotonic()
        answers.send({"part": "progress", "stage": stage, "done": done, "total": total})

    slow = tuple(name for name in ACCOUNTANTS.names if name not in LIGHT_ACCOUNTANTS)
    with answers, suppress(BrokenPipeError):  # nobody waits any more
        for part in () if is_light(scenario) else light_parts(scenario):
            answers.send(part)
        answers.send(told(lambda: account_part(scenario, slow)[0]))
        answers.send(told(lambda: plan_part(scenario, alternatives=True, progress=progress)))
