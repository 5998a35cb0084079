"""What must hold between the tables of a scenario, what follows from them, and what commands refuse.

Each table checks its own keys. A key that says "auto" gets the choice that learns best from a table, as far as the rest
of the scenario allows it; docs/tables.md has what each is worth.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from airmixml.messages import ScenarioError, as_set, shown
from airmixml.registries import LEARNERS, NOISES
from airmixml.scenario.air import SYMBOLS_PER_SECOND, Air
from airmixml.scenario.rules import AUTO
from airmixml.scenario.tables import Learner, Link, Mixing, Privacy, Radio, Workers

_FEW_INPUTS: Final = 8
_NORM_OF_FEW: Final = 0.5
_ROUNDS: Final = 20
_FEWEST_ROWS: Final = 200  # of fewer, one slot learns as much or more (wine, iris)
_SMALLEST_DELTA: Final = 1e-300
_BEYOND_PREFIX: Final = 0.01  # energy of the echoes that may arrive after the prefix
_TURN_RADIANS: Final = 0.2  # within one OFDM symbol; subcarriers then disturb each other by 0.3 % of their power
# 2 pi (width of a cluster) (delay spread): estimates at the middles then tell what lies between them within -33 dB.
_WIDEST: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of a scenario, with a choice made for every key that says "auto"."""

    workers: Workers
    radio: Radio
    link: Link
    air: Air
    mixing: Mixing
    privacy: Privacy
    learner: Learner

    def must(self, holds: object, key: str, rule: str) -> None:
        """Refuse the value of a key by a rule, unless something holds."""
        if not holds:
            self.refuse(key, rule)

    def refuse(self, key: str, rule: str) -> NoReturn:
        """Raise a ScenarioError that names the key to change, its value and the rule."""
        raise ScenarioError(f"{key} = {as_set(self._value(key))}: {rule}")

    def must_be(self, key: str, wanted: Any, why: str) -> None:
        """Raise a ScenarioError unless a key has the one value that the rest of the scenario allows."""
        needed = "empty" if wanted in ((), "") else as_set(wanted)
        self.must(self._value(key) == wanted, key, f"must be {needed} {why}")

    def _value(self, key: str) -> Any:
        table, _, name = key.partition(".")
        return getattr(getattr(self, table), name)


def check_consistency(tables: Tables) -> None:
    """Raise a ScenarioError that names the key to change where two tables contradict each other."""
    workers, radio, mixing, privacy = tables.workers, tables.radio, tables.mixing, tables.privacy
    smallest = f"must be at least {_SMALLEST_DELTA:g}, or 0 for a tenth of 1 / N"
    tables.must(privacy.delta == 0.0 or privacy.delta >= _SMALLEST_DELTA, "privacy.delta", smallest)
    _check_limits(tables)
    _check_signal(tables)
    _check_labels(tables)
    if workers.several_rows:
        _check_several_rows(tables)
    if workers.centre_on_air:
        _check_private_centre(tables)
    radio.schedule_kind.check(tables)
    if mixing.prior and radio.scheduled and len(mixing.prior) != radio.scheduled:
        wanted = f"must have radio.scheduled = {radio.scheduled} of them, or none for equal shares"
        raise ScenarioError(f"mixing.prior has {len(mixing.prior)} shares: {wanted}")
    if tables.learner.rounds and (refusal := rounds_refusal(workers, radio)):
        raise ScenarioError(refusal)
    link = radio.link_kind
    link.check(tables)
    air, radio = link.meets(tables.air, radio)
    _check_air(replace(tables, air=air, radio=radio))
    privacy.noise_kind.check(workers, radio, air, mixing, privacy)


def rounds_refusal(workers: Workers, radio: Radio) -> str:
    """Return why no rounds of gradients can follow the slots, and what to do; empty where they can."""
    needs = "for learner.rounds above 0"
    if not workers.payload_kind.products:
        return f'workers.sends = "{workers.sends}": must be "moments" {needs}: the first model is solved from them'
    if not radio.schedule_kind.uniform:
        return f'radio.schedule = {shown(radio.schedule)}: must be "fixed" {needs}'
    if radio.max_participations:
        return f"radio.max_participations = {radio.max_participations}: must be 0 {needs}: workers send in every round"
    if radio.slot_seconds:
        return f"radio.slot_seconds = {radio.slot_seconds:g}: must be 0 {needs}: slots last as long as their symbols"
    return ""


def _check_limits(tables: Tables) -> None:
    count, radio = tables.workers.count, tables.radio
    if not (count and radio.scheduled):
        return  # not known before the data are
    fewer = f"must be at most workers.count = {count}; schedule fewer workers per slot or deploy more"
    tables.must(radio.scheduled <= count, "radio.scheduled", fewer)
    limit, longest_round = radio.max_participations, count // radio.scheduled
    least = f"{-(-radio.slots // longest_round)} for {radio.slots} slots of {radio.scheduled} among {count} workers"
    fits = not limit or -(-radio.slots // limit) <= longest_round
    tables.must(fits, "radio.max_participations", f"must be at least {least}; raise it or deploy more")
    tables.must(tables.privacy.colluders < count, "privacy.colluders", f"must be fewer than workers.count = {count}")


def _check_signal(tables: Tables) -> None:
    workers, learner, encoder = tables.workers, tables.learner, tables.workers.encoder_kind
    if not encoder.bounds_norm:
        for name, default in {"centre": "none", "norm": "clip", "constant": 0.0, "sends": "samples", "bits": 0}.items():
            bounded = 'needs an encoder that bounds the norm of what is sent, such as workers.encoder = "clip"'
            tables.must(getattr(workers, name) == default, f"workers.{name}", bounded)
    named = f'for workers.encoder = "{workers.encoder}"'
    if not encoder.scales_inputs:
        without = f'must be "none", "own" or "private" {named}, whose inputs have no declared bounds'
        tables.must(workers.centre not in ("public", "refined"), "workers.centre", without)
        for name in ("input_lower", "input_upper"):
            tables.must_be(f"workers.{name}", (), f"{named}, which takes inputs as they are and bounds their norm")
    if not encoder.takes_features:
        tables.must_be("workers.features", 0, f"{named}, whose number of features is fixed; use another encoder")
    beyond_inputs = not encoder.keeps_inputs or workers.centre != "none"
    changed = beyond_inputs or workers.sends != "samples" or bool(workers.bits)
    if changed or workers.norm == "unit" or workers.constant > 0.0:
        largest = "must be at most 1 unless inputs are sent as they are, so that no symbol takes more than its power"
        tables.must(workers.clip_norm <= 1.0, "workers.clip_norm", largest)
    if workers.payload_kind.products and not learner.closed_form:
        closed_forms = ", ".join(name for name in LEARNERS.names if LEARNERS.load(name).closed_form)
        needed = f'must be one of {closed_forms} where workers.sends = "{workers.sends}"; networks learn from samples'
        tables.refuse("learner.model", needed)
    if workers.sends == "gradients" and not learner.rounds:
        without = 'needs moments first; use "adam", or workers.sends = "moments" with learner.rounds'
        tables.must(not learner.descent_kind.needs_moments, "learner.descent", without)
    if tables.privacy.sensitivity == "paper" and changed:
        bounds = 'd_X + d_Y bounds samples in [0, 1], and other symbols are sent; use privacy.sensitivity = "encoder"'
        tables.refuse("privacy.sensitivity", bounds)


def _check_labels(tables: Tables) -> None:
    workers, learner = tables.workers, tables.learner
    task, classes = f'workers.task = "{workers.task}"', workers.task == "classification"
    if classes:
        column = 'whose class is in workers.label_column; or use workers.task = "multi-label"'
        tables.must_be("workers.label_columns", (), f"for {task}, {column}")
    else:
        tables.must_be("privacy.sensitivity", "encoder", f"for {task}; d_X + d_Y bounds one-hot labels only")
        has_classes = getattr(learner.model_kind, "classes_only", False)
        tables.must(not has_classes, "learner.model", f'must be "ridge" or a network for {task}; it has classes')
        if not learner.closed_form:
            tables.must_be("learner.loss", "squared", f"for {task}")
        tables.must_be("workers.classes", (), f"for {task}, whose outputs are the label columns")
    if not classes or workers.unknown_labels == "absent":
        absent = 'workers.unknown_labels = "absent"'
        dealt = f'must be "size-skewed" or another for {absent if classes else task}; it deals rows by their class'
        tables.must(workers.holding != "label-skewed", "workers.holding", dealt)
    if workers.unknown_labels == "absent":
        needed = "needs workers.classes, the classes that are known without the data"
        tables.must(workers.classes, "workers.unknown_labels", needed)
    if workers.label_code == "centred":
        _check_centred_labels(tables)


def _check_centred_labels(tables: Tables) -> None:
    """Refuse what hides from the server what was left out of labels."""
    workers = tables.workers
    one_row = 'which is for unrounded moments of one row with one class; use workers.label_code = "one-hot"'
    for key, fits in (
        ("workers.sends", workers.payload_kind.products),
        ("workers.task", workers.task == "classification"),
        ("workers.bits", not workers.bits),
        (_key_of_rows(workers), not workers.several_rows),
    ):
        tables.must(fits, key, f'does not go with workers.label_code = "centred", {one_row}')
    mean = "whose mean is taken from the moments with the constant"
    tables.must(workers.constant, "workers.constant", f'must be above 0 for workers.label_code = "centred", {mean}')


def _key_of_rows(workers: Workers) -> str:
    return "workers.worker_column" if workers.worker_column else "workers.holding"


def _check_several_rows(tables: Tables) -> None:
    workers, skewed = tables.workers, tables.workers.holding.endswith("-skewed")
    if skewed:
        holding = f'workers.holding = "{workers.holding}"'
        tables.must_be("workers.worker_column", "", f"for {holding}, which deals rows itself")
        tables.must(workers.count, "workers.count", f"must be a number for {holding}, which deals the pool")
    key = _key_of_rows(workers)
    told = f"{key} = {as_set(workers.worker_column or workers.holding)}"
    one_sum = f'must be "moments" for {told}: rows are sent as one sum'
    tables.must(workers.payload_kind.products, "workers.sends", one_sum)
    tables.must(not workers.centre_on_air, "workers.centre", f'must be "none", "own" or "public" for {told}')
    learner = tables.learner
    if getattr(learner.model_kind, "classes_only", False):
        told += f' and learner.model = "{learner.model}", which learns from it how large the workers\' sums are'
        tables.must(workers.constant, "workers.constant", f"must be above 0 for {told}")


def _check_private_centre(tables: Tables) -> None:
    centre = f'for workers.centre = "{tables.workers.centre}"'
    for key, wanted in (("mixing.power", "dp"), ("radio.fading", "none")):
        tables.must_be(key, wanted, f'{centre}; use workers.centre = "own" or "public"')
    tables.must(tables.air.is_ideal, "workers.centre", 'needs the ideal air; use "own", "public" or "auto"')
    others = f'must be "server" or "release" {centre}, whose slot is accounted for against those; use another centre'
    tables.must(not tables.privacy.adversary_kind.own_receiver, "privacy.adversary", others)


def _check_air(tables: Tables) -> None:
    air, fading = tables.air, tables.radio.fading
    _check_ofdm(tables)
    overhead, block_symbols = air.block_overhead_symbols, air.block_seconds * SYMBOLS_PER_SECOND
    key = "air.resync_seconds" if air.resync_seconds == air.block_seconds else "air.speed_metres_per_second"
    full = f"leaves blocks of {block_symbols:.3g} symbols, and pilots and guard take {overhead}: no symbol is left"
    tables.must(block_symbols >= overhead + 1, key, f"{full} for data; make blocks longer, or pilots shorter")
    everybody = 'must be at most 0 for radio.fading = "none", where every channel has its mean: nobody would send'
    tables.must(fading != "none" or air.truncation_db <= 0.0, "air.truncation_db", everybody)
    loudest = tables.radio.max_power_dbm + air.attenuator_db
    limit = f"must be at most {loudest:g}, radio.max_power_dbm plus air.attenuator_db: above it no worker can send"
    tables.must(air.min_power_dbm <= loudest, "air.min_power_dbm", limit)
    if fading == "none" or air.truncation_db > -math.inf or not tables.mixing.power_policy.keeps_target:
        return
    for name, off in (("estimation_nmse_db", -math.inf), ("estimation_pilots", 0), ("speed_metres_per_second", 0.0)):
        needs = f'needs air.truncation_db for radio.fading = "{fading}" and mixing.power = "dp": who inverts a channel'
        weak = "of any weakness may be received with any power; set air.truncation_db = -10, say"
        tables.must(getattr(air, name) == off, f"air.{name}", f"{needs} {weak}")


def _check_ofdm(tables: Tables) -> None:
    air = tables.air
    if air.waveform != "ofdm":
        need = "on a single carrier, which would need an equaliser against echoes; set air.waveform = 'ofdm'"
        tables.must_be("air.delay_spread_seconds", 0.0, need)
        return
    grid, fewer = air.grid, "take fewer subcarriers"
    room = f"a block of {air.block_seconds:.3g} s has no room for {grid.pilots} of pilots and one of data"
    symbol = f"an OFDM symbol takes {grid.seconds:.3g} s"
    tables.must(grid.fitting(air.block_seconds) >= 1, "air.subcarriers", f"{symbol}, and {room}; {fewer}")
    prefix_seconds = (grid.prefix - 2.0 * air.timing_offset_symbols) / SYMBOLS_PER_SECOND
    half = f"must be at most half the cyclic prefix of {grid.prefix} symbols; lengthen air.cyclic_prefix"
    tables.must(prefix_seconds >= 0.0, "air.timing_offset_symbols", half)
    turn = math.sqrt(air.squared_drift(grid.seconds))
    turns = f"phases turn by {turn:.2g} rad within an OFDM symbol: must be at most {_TURN_RADIANS} rad"
    tables.must(turn <= _TURN_RADIANS, "air.subcarriers", f"{turns}; {fewer}, or better clocks")
    if air.delay_spread_seconds:
        _check_echoes(tables, prefix_seconds)


def _check_echoes(tables: Tables, prefix_seconds: float) -> None:
    air, grid, fading = tables.air, tables.air.grid, tables.radio.fading
    spread = air.delay_spread_seconds
    needed = "echoes are fading, and radio.fading is 'none'; set radio.fading = 'rayleigh' or 'rician'"
    tables.must(fading != "none", "air.delay_spread_seconds", needed)
    itself = "says itself how strong the direct path is, and radio.fading is 'rician'; set radio.fading = 'rayleigh'"
    tables.must(tables.radio.direct_path == 0.0 or air.profile == "exponential", "air.profile", itself)
    for key, allowed in (("air.speed_metres_per_second", 0.0), ("air.antennas", 1)):
        lasting = "since echoes are drawn for one antenna and for channels that last as long as a slot"
        tables.must_be(key, allowed, f"with air.delay_spread_seconds, {lasting}; set one of them alone")
    longest = prefix_seconds / -math.log(_BEYOND_PREFIX)
    outlast = f"echoes outlast the cyclic prefix: must be at most {longest:.3g} s; lengthen air.cyclic_prefix"
    tables.must(spread <= longest, "air.delay_spread_seconds", outlast)
    width_hz = grid.widths[0] * SYMBOLS_PER_SECOND / grid.subcarriers
    fitting = int(_WIDEST / (2.0 * math.pi * spread) / SYMBOLS_PER_SECOND * grid.subcarriers)
    fits = 2.0 * math.pi * width_hz * spread <= _WIDEST or grid.widths[0] == 1
    changes = f"the channel changes within {width_hz / 1e3:.3g} kHz: must be at most {max(1, fitting)}"
    tables.must(fits, "air.cluster_subcarriers", changes)


def is_chosen(workers: Workers, learner: Learner) -> bool:
    """Whether no key is left to be chosen."""
    return AUTO not in (workers.centre, workers.norm, workers.label_code, learner.model, learner.rounds)


def why_no_rounds(workers: Workers, radio: Radio, learner: Learner, *, rows: int) -> str:
    """Return why no rounds follow unless the scenario asks for them; empty where some do. 0 rows: not known."""
    if not workers.payload_kind.moments:
        return f'workers.sends = "{workers.sends}"'
    unless = "(learner.rounds above 0 would add some)"
    if 0 < rows < _FEWEST_ROWS:
        return f"of fewer than {_FEWEST_ROWS} workers one slot learns as much or more {unless}"
    if refusal := rounds_refusal(workers, radio):
        return refusal
    return f'learner.model = "lda" is solved from one slot {unless}' if learner.model == "lda" else ""


def clipped_share(inputs: int) -> float:
    """Return what rows of so many inputs (0: not known) are clipped at, in units of the norm that others have."""
    return _NORM_OF_FEW if 0 < inputs < _FEW_INPUTS else 1.0


def choose(tables: Tables, *, inputs: int = 0, rows: int = 0) -> Tables:
    """Return the tables with a choice for every key that says "auto", for that many inputs and rows (0: not known).

    The centre is refined over the air where that can be, else the middle of the bounds. Rows of many inputs are brought
    to one norm; of few inputs too much would be lost by that. Classes are sent centred where the server can restore
    them; they are learnt by discriminants, and all else, and what rounds start from, by least squares.
    """
    workers, radio, learner = tables.workers, tables.radio, tables.learner
    if workers.norm == AUTO:
        share = clipped_share(inputs)
        workers = replace(workers, norm="unit" if share == 1.0 else "clip", clip_norm=workers.clip_norm * share)
    classes = workers.task == "classification"
    if workers.centre == AUTO:
        encoder, brought = workers.encoder_kind, NOISES.load(tables.privacy.noise).brought
        centre = "public" if encoder.bounds_norm and encoder.scales_inputs else "none"
        if centre == "public" and not brought and not workers.several_rows:
            with suppress(ScenarioError):
                _check_private_centre(tables)
                centre = "refined"
        workers = replace(workers, centre=centre)
    if workers.label_code == AUTO:
        label_code = "one-hot"
        with suppress(ScenarioError):
            _check_centred_labels(tables)
            label_code = "centred" if workers.payload_kind.moments else label_code
        workers = replace(workers, label_code=label_code)
    if str(learner.rounds) == AUTO:
        learner = replace(learner, rounds=0 if why_no_rounds(workers, radio, learner, rows=rows) else _ROUNDS)
    if learner.model == AUTO:
        learner = replace(learner, model="lda" if classes and not learner.rounds else "ridge")
    return replace(tables, workers=workers, learner=learner)


def require_single_rows(workers: Workers, command: str) -> None:
    """Refuse workers with several rows each."""
    if workers.several_rows:
        allowed = "empty" if workers.worker_column else '"drawn" or "dealt"'
        raise ScenarioError(
            f"{_key_of_rows(workers)} = {shown(workers.worker_column or workers.holding)}: must be {allowed} for "
            f"{command}, which treats workers with one row each; airmix run and account take several"
        )


def require_classes(workers: Workers, command: str, *, single_rows: bool = True) -> None:
    """Refuse labels that are no classes, rows that count as absent and, unless treated, workers with several rows."""
    if workers.task != "classification":
        raise ScenarioError(
            f'workers.task = "{workers.task}": must be "classification" for {command}; airmix run, plan, account and '
            "audit take other tasks"
        )
    if workers.unknown_labels == "absent":
        raise ScenarioError(
            f'workers.unknown_labels = "absent": must be "refuse" for {command}, which looks at classes'
        )
    if single_rows:
        require_single_rows(workers, command)
