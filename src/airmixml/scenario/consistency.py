"""What must hold between the tables of a scenario, and what commands refuse; each table checks its own keys."""

from typing import Final

from airmixml.errors import ScenarioError
from airmixml.registries import ADVERSARIES, DESCENTS, ENCODERS, LEARNERS
from airmixml.scenario.air import Air
from airmixml.scenario.tables import Learner, Mixing, Privacy, Radio, Workers
from airmixml.wording import shown

_SMALLEST_DELTA: Final = 1e-300
_PRODUCTS: Final = ("moments", "gradients")  # gradients are products of the input with an error
_SMALLEST_POISSON_DELTA: Final = 1e-15


def check_consistency(workers: Workers, radio: Radio, mixing: Mixing, privacy: Privacy, learner: Learner) -> None:
    """Raise a ScenarioError that names the key to change where two tables contradict each other."""
    if 0.0 < privacy.delta < _SMALLEST_DELTA:
        raise ScenarioError(
            f"privacy.delta = {privacy.delta:g}: must be at least {_SMALLEST_DELTA:g}, or 0 for a tenth of 1 / N"
        )
    if workers.count and radio.scheduled > workers.count:
        raise ScenarioError(
            f"radio.scheduled = {radio.scheduled}: must be at most workers.count = {workers.count}; "
            "schedule fewer workers per slot or deploy more"
        )
    _check_limits(workers, radio, privacy)
    _check_signal(workers, privacy, learner)
    _check_task(workers, privacy, learner)
    _check_classes(workers)
    if workers.label_code == "centred":
        _check_centred_labels(workers)
    if workers.several_rows:
        _check_several_rows(workers, learner)
    if workers.centre_on_air:
        _check_private_centre(workers, radio, mixing, privacy)
    if privacy.noise != "receiver":
        _check_workers_noise(workers, radio, mixing, privacy)
    elif privacy.adversary == "everyone":
        raise ScenarioError(
            'privacy.adversary = "everyone": needs privacy.noise = "masked" or "workers"; the noise of a receiver '
            "hides nobody from somebody who hears each worker alone"
        )
    if radio.schedule == "poisson":
        _check_poisson(radio, mixing, privacy)
    if learner.rounds and (refusal := rounds_refusal(workers, radio)):
        raise ScenarioError(refusal)
    if mixing.prior and radio.scheduled and len(mixing.prior) != radio.scheduled:
        raise ScenarioError(
            f"mixing.prior has {len(mixing.prior)} shares: must have radio.scheduled = "
            f"{radio.scheduled} of them, or be empty for equal shares"
        )


def rounds_refusal(workers: Workers, radio: Radio) -> str:
    """Return why no rounds of gradients can follow the slots, and what to do; empty where they can."""
    needs = "for learner.rounds above 0"
    if workers.sends not in _PRODUCTS:
        return f'workers.sends = "{workers.sends}": must be "moments" {needs}: the first model is solved from them'
    if radio.schedule != "fixed":
        return f'radio.schedule = "{radio.schedule}": must be "fixed" {needs}'
    if radio.max_participations:
        return f"radio.max_participations = {radio.max_participations}: must be 0 {needs}: workers send in every round"
    if radio.slot_seconds:
        return f"radio.slot_seconds = {radio.slot_seconds:g}: must be 0 {needs}: slots last as long as their symbols"
    return ""


def _check_signal(workers: Workers, privacy: Privacy, learner: Learner) -> None:
    """What an encoder, its centre and what is sent allow."""
    encoder = ENCODERS.load(workers.encoder)
    if not encoder.bounds_norm:
        for name, value, default in (
            ("centre", workers.centre, "none"),
            ("norm", workers.norm, "clip"),
            ("constant", workers.constant, 0.0),
            ("sends", workers.sends, "samples"),
            ("bits", workers.bits, 0),
        ):
            if value != default:
                raise ScenarioError(
                    f"workers.{name} = {shown(value)}: needs an encoder that bounds the norm of what is sent; use "
                    'workers.encoder = "clip" or a feature encoder'
                )
    if not getattr(encoder, "scales_inputs", True):
        _check_unscaled(workers)
    if workers.features and not encoder.takes_features:
        raise ScenarioError(
            f'workers.features = {workers.features}: must be 0 for workers.encoder = "{workers.encoder}", whose number '
            "of features is fixed; use an encoder that lets you choose it"
        )
    beyond_inputs = not encoder.keeps_inputs or workers.centre != "none"
    grown = workers.norm == "unit" or workers.constant > 0.0
    if (beyond_inputs or grown or workers.sends != "samples" or workers.bits) and workers.clip_norm > 1.0:
        raise ScenarioError(
            f"workers.clip_norm = {workers.clip_norm:g}: must be at most 1 for centred inputs, features, inputs "
            "brought to one norm or with a constant, moments and quantised symbols, so that no symbol is sent "
            "with more than the transmit power"
        )
    if workers.sends in _PRODUCTS and not learner.closed_form:
        closed_forms = [name for name in LEARNERS.names if LEARNERS.load(name).closed_form]
        raise ScenarioError(
            f"learner.model = {shown(learner.model)}: must be one of {', '.join(closed_forms)} where "
            f'workers.sends = "{workers.sends}"; networks learn from samples'
        )
    if workers.sends == "gradients" and not learner.rounds and DESCENTS.load(learner.descent).needs_moments:
        raise ScenarioError(
            f'learner.descent = "{learner.descent}": needs moments, and workers.sends = "gradients" sends none; use '
            '"adam", or workers.sends = "moments" with learner.rounds'
        )
    if privacy.sensitivity == "paper" and (beyond_inputs or workers.sends != "samples" or workers.bits):
        raise ScenarioError(
            'privacy.sensitivity = "paper": d_X + d_Y bounds samples in [0, 1]; use privacy.sensitivity = '
            '"encoder" where inputs are centred or quantised, or features or moments are sent'
        )


def _check_unscaled(workers: Workers) -> None:
    """What inputs allow that are taken as they are."""
    if workers.centre in ("public", "refined"):
        raise ScenarioError(
            f'workers.centre = "{workers.centre}": is taken from the middle of declared bounds, and workers.encoder = '
            f'"{workers.encoder}" has none; use "none", "own" or "private"'
        )
    for name in ("input_lower", "input_upper"):
        if getattr(workers, name):
            raise ScenarioError(
                f"workers.{name} = {shown(list(getattr(workers, name)))}: must be empty for workers.encoder = "
                f'"{workers.encoder}", which takes inputs as they are and bounds their norm'
            )


def _check_task(workers: Workers, privacy: Privacy, learner: Learner) -> None:
    """What labels that are no classes allow."""
    if workers.task == "classification":
        if workers.label_columns:
            raise ScenarioError(
                f"workers.label_columns = {shown(list(workers.label_columns))}: must be empty for workers.task = "
                '"classification", whose class is in workers.label_column; or use workers.task = "multi-label"'
            )
        return
    task = f'workers.task = "{workers.task}"'
    if privacy.sensitivity == "paper":
        raise ScenarioError(
            f'privacy.sensitivity = "paper": must be "encoder" for {task}; d_X + d_Y bounds one-hot labels only'
        )
    if getattr(LEARNERS.load(learner.model), "classes_only", False):
        raise ScenarioError(
            f'learner.model = "{learner.model}": must be "ridge" or a network for {task}; it has classes'
        )
    if not learner.closed_form and learner.loss != "squared":
        raise ScenarioError(f'learner.loss = "{learner.loss}": must be "squared" for {task}')
    if workers.holding == "label-skewed":
        raise ScenarioError(
            f'workers.holding = "label-skewed": must be "size-skewed" or another for {task}; it deals classes'
        )


def _check_classes(workers: Workers) -> None:
    """What declared classes allow."""
    if workers.classes and workers.task != "classification":
        raise ScenarioError(
            f'workers.classes = {shown(list(workers.classes))}: must be empty for workers.task = "{workers.task}", '
            "whose outputs are the label columns"
        )
    if workers.unknown_labels == "absent" and not workers.classes:
        raise ScenarioError(
            'workers.unknown_labels = "absent": needs workers.classes, the classes that are known without the data'
        )
    if workers.unknown_labels == "absent" and workers.holding == "label-skewed":
        raise ScenarioError(
            'workers.holding = "label-skewed": deals rows by their class; use workers.unknown_labels = "refuse" with it'
        )


def _check_centred_labels(workers: Workers) -> None:
    """What labels less their mean allow: the server must know what was left out."""
    for name, value, needed in (
        ("sends", "moments" if workers.sends in _PRODUCTS else workers.sends, "moments"),
        ("task", workers.task, "classification"),
        ("bits", workers.bits, 0),
        ("several_rows", workers.several_rows, False),
    ):
        if value != needed:
            key = ("worker_column" if workers.worker_column else "holding") if name == "several_rows" else name
            raise ScenarioError(
                f'workers.{key} = {shown(getattr(workers, key))}: does not go with workers.label_code = "centred", '
                'which is for unrounded moments of one row with one class; use workers.label_code = "one-hot"'
            )
    if not workers.constant:
        raise ScenarioError(
            'workers.constant = 0: must be above 0 for workers.label_code = "centred", whose mean is taken from the '
            "moments with the constant"
        )


def _check_several_rows(workers: Workers, learner: Learner) -> None:
    """What several rows per worker allow."""
    key = "worker_column" if workers.worker_column else "holding"
    name = f"workers.{key} = {shown(getattr(workers, key))}"
    if workers.worker_column and workers.holding.endswith("-skewed"):
        raise ScenarioError(f'{name}: must be empty for workers.holding = "{workers.holding}", which deals rows itself')
    if workers.holding.endswith("-skewed") and not workers.count:
        raise ScenarioError(f"workers.count = 0: must be a number for {name}, which deals the pool to so many workers")
    if workers.sends not in _PRODUCTS:
        raise ScenarioError(
            f'workers.sends = "{workers.sends}": must be "moments" for {name}: rows are sent as one sum'
        )
    if workers.centre_on_air:
        raise ScenarioError(f'workers.centre = "{workers.centre}": must be "none", "own" or "public" for {name}')
    if getattr(LEARNERS.load(learner.model), "classes_only", False) and not workers.constant:
        raise ScenarioError(
            f'workers.constant = 0: must be above 0 for {name} and learner.model = "{learner.model}", which learns '
            "from it how large the workers' sums are"
        )


def _check_poisson(radio: Radio, mixing: Mixing, privacy: Privacy) -> None:
    """What a schedule by coins allows."""
    if mixing.policy != "equalmix" or mixing.prior:
        raise ScenarioError(
            'radio.schedule = "poisson": needs mixing.policy = "equalmix" without a prior; with a number of '
            "workers that chance decides, each sends with the share 1 / radio.scheduled"
        )
    if mixing.power == "max":
        raise ScenarioError(
            'mixing.power = "max": must be "dp" or "fixed" for radio.schedule = "poisson"; the power must not '
            "depend on who sends"
        )
    if 0.0 < privacy.delta < _SMALLEST_POISSON_DELTA:
        raise ScenarioError(
            f"privacy.delta = {privacy.delta:g}: must be at least {_SMALLEST_POISSON_DELTA:g} for "
            'radio.schedule = "poisson", whose slots have seats for all but the rarest tosses'
        )
    if radio.max_participations:
        raise ScenarioError(
            f"radio.max_participations = {radio.max_participations}: must be 0 for radio.schedule = "
            '"poisson", which keeps no limit'
        )


def _check_workers_noise(workers: Workers, radio: Radio, mixing: Mixing, privacy: Privacy) -> None:
    """What noise that the workers bring allows."""
    noise = f'privacy.noise = "{privacy.noise}"'
    if radio.schedule != "fixed":
        raise ScenarioError(
            f'radio.schedule = "{radio.schedule}": must be "fixed" for {noise}: all must know who sends'
        )
    if workers.centre_on_air:
        raise ScenarioError(f'workers.centre = "{workers.centre}": must be "none", "own" or "public" for {noise}')
    if mixing.power == "max":
        raise ScenarioError(f'mixing.power = "max": must be "dp" or "fixed" for {noise}, which needs power too')
    if mixing.policy == "nonmix" or 0.0 in mixing.prior:
        told = 'mixing.policy = "nonmix"' if mixing.policy == "nonmix" else "mixing.prior with a share of 0"
        raise ScenarioError(f'{told}: workers without a share would hide nobody; use mixing.policy = "equalmix"')
    if privacy.mask_degree % 2:
        raise ScenarioError(f"privacy.mask_degree = {privacy.mask_degree}: must be an even number")
    if privacy.mask_degree > radio.scheduled > 0:
        raise ScenarioError(
            f"privacy.mask_degree = {privacy.mask_degree}: must be at most radio.scheduled = {radio.scheduled}, who "
            "share masks, or 0"
        )
    if privacy.most_absent and privacy.noise != "masked":
        raise ScenarioError(f"privacy.most_absent = {privacy.most_absent:g}: must be 0 for {noise}, which has no masks")


def _check_private_centre(workers: Workers, radio: Radio, mixing: Mixing, privacy: Privacy) -> None:
    """What a mean estimated over the air allows."""
    for name, value, wanted in (("mixing.power", mixing.power, "dp"), ("radio.fading", radio.fading, "none")):
        if value != wanted:
            raise ScenarioError(
                f'{name} = {shown(value)}: must be "{wanted}" for workers.centre = "{workers.centre}"; use '
                'workers.centre = "own" or "public"'
            )
    if ADVERSARIES.load(privacy.adversary).own_receiver:
        raise ScenarioError(
            f'privacy.adversary = "{privacy.adversary}": must be "server" or "release" for workers.centre = '
            f'"{workers.centre}", whose slot is accounted for against those; use another centre'
        )


def _check_limits(workers: Workers, radio: Radio, privacy: Privacy) -> None:
    """What the number of workers allows."""
    if not (workers.count and radio.scheduled):
        return  # not known before the data are
    limit = radio.max_participations
    most_slots_per_round = workers.count // radio.scheduled
    if limit and -(-radio.slots // limit) > most_slots_per_round:
        raise ScenarioError(
            f"radio.max_participations = {limit}: must be at least {-(-radio.slots // most_slots_per_round)} for "
            f"{radio.slots} slots of {radio.scheduled} among {workers.count} workers; raise it or deploy more"
        )
    if privacy.colluders >= workers.count:
        raise ScenarioError(
            f"privacy.colluders = {privacy.colluders}: must be fewer than workers.count = {workers.count}"
        )


def check_integers(air: Air, workers: Workers, radio: Radio, mixing: Mixing, privacy: Privacy) -> None:
    """Raise a ScenarioError that names the key to change."""
    if privacy.arithmetic == "real":
        for name in ("modulus_bits", "sum_range"):
            if getattr(privacy, name):
                raise ScenarioError(
                    f'privacy.{name} = {getattr(privacy, name):g}: must be 0 for privacy.arithmetic = "real"; it is '
                    'for "integers"'
                )
        return
    integers = 'privacy.arithmetic = "integers"'
    if privacy.noise == "receiver":
        raise ScenarioError(
            f'privacy.noise = "receiver": must be "masked" or "workers" for {integers}: workers bring integer noise'
        )
    if not air.is_ideal:
        raise ScenarioError(
            f"{integers}: needs the ideal air: residues must arrive exactly, and one wrong bit spoils a number; use "
            'privacy.arithmetic = "real", or air.preset = "ideal"'
        )
    wanted = (
        ("mixing", mixing, "policy", "equalmix"),
        ("mixing", mixing, "prior", ()),
        ("mixing", mixing, "power", "dp"),
        ("radio", radio, "fading", "none"),
        ("workers", workers, "bits", 0),
        ("privacy", privacy, "accountant", "gdp"),
        ("privacy", privacy, "sensitivity", "encoder"),
        ("privacy", privacy, "mask_share", 0.0),
        ("privacy", privacy, "above_thermal_db", 0.0),
    )
    for table, keys, name, value in wanted:
        if getattr(keys, name) != value:
            told, must = (
                shown(list(each) if isinstance(each, tuple) else each) for each in (getattr(keys, name), value)
            )
            raise ScenarioError(f"{table}.{name} = {told}: must be {must} for {integers}")
    if privacy.modulus_bits == 1:
        raise ScenarioError("privacy.modulus_bits = 1: must be 2 to 62, or 0 for as many as it takes")


def require_single_rows(workers: Workers, command: str) -> None:
    """Refuse workers with several rows each."""
    if workers.several_rows:
        key = "worker_column" if workers.worker_column else "holding"
        allowed = "empty" if workers.worker_column else '"drawn" or "dealt"'
        raise ScenarioError(
            f"workers.{key} = {shown(getattr(workers, key))}: must be {allowed} for {command}, which treats workers "
            "with one row each; airmix run and account take several"
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
            f'workers.unknown_labels = "absent": must be "refuse" for {command}, which looks at the class of every row'
        )
    if single_rows:
        require_single_rows(workers, command)


def require_real_numbers(privacy: Privacy, what: str) -> None:
    """Refuse what treats Gaussian noise and analog signals where workers send integers."""
    if privacy.arithmetic != "real":
        raise ScenarioError(
            f'privacy.arithmetic = "{privacy.arithmetic}": {what} is made for real numbers in Gaussian noise; use '
            'privacy.arithmetic = "real", and airmix run, account and plan for integers'
        )
