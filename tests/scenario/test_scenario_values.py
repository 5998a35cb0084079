"""Every key refuses what it must not hold, in one line with the key, the value and what it must be."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import re
from typing import Any

import pytest

from airmixml import Scenario, Speed
from airmixml.scenario import Learner, Link, Mixing, Privacy, Radio, Workers
from airmixml.scenario.air import Air

TABLES = {"workers": Workers, "radio": Radio, "link": Link, "mixing": Mixing, "privacy": Privacy, "learner": Learner}

# Just outside the range of each number, typed from the guide's limits.
WHOLE_NUMBERS: dict[str, tuple[Any, ...]] = {
    "seed": (-1, 2**63),
    "workers.count": (-1, 10**9 + 1),
    "workers.train_samples": (-1, 2**63),
    "workers.features": (-1, 10**6 + 1),
    "workers.bits": (-1, 17),
    "workers.rows_per_worker": (-1, 10**9 + 1),
    "workers.max_rows": (-1, 10**9 + 1),
    "radio.slots": (0, -5, 10**12 + 1),
    "radio.scheduled": (-1, 10**9 + 1),
    "radio.max_participations": (-1, 10**12 + 1),
    "link.access_points": (0, 10**9 + 1),
    "link.packet_bytes": (0, 10**9 + 1),
    "link.header_bytes": (-1, 10**9 + 1),
    "link.tries": (0, 10**4 + 1),
    "privacy.colluders": (-1, 10**9 + 1),
    "privacy.eavesdropper_antennas": (0, 10**6 + 1),
    "privacy.mask_degree": (-1, 10**6 + 1),
    "privacy.modulus_bits": (-1, 63),
    "learner.rounds": (-1, 10**5 + 1),
    "learner.kernel_size": (0, 1001),
    "learner.pool_size": (0, 1001),
    "learner.epochs": (0, 10**7 + 1),
    "learner.batch_size": (0, 10**8 + 1),
}
REAL_NUMBERS: dict[str, tuple[Any, ...]] = {
    "workers.side_metres": (0, 0.0, -1, 1.1e6),
    "workers.min_distance_metres": (0, 9.9e-4, 1.1e6),
    "workers.clip_norm": (0, -1.0, 1.1e6),
    "workers.centre_share": (0, 1, -0.1, 1.1),
    "workers.constant": (-0.1, 1, 1.0, 1.5),
    "workers.label_weight": (0, -0.5, 9e-7, 1.1),
    "workers.bits_range": (-1.0, 1000.1),
    "workers.skew": (0, 9e-4, 1.1e6),
    "workers.rows_bound": (0, 0.9, 1.1e9),
    "radio.slot_seconds": (-1e-3, 1.1e6),
    "radio.path_loss_exponent": (-0.1, 10.1),
    "radio.unit_path_loss_db": (-300.1, 100.1),
    "radio.rician_k": (-1e-9, -math.inf),
    "radio.noise_dbm": (-300.1, 100.1),
    "radio.max_power_dbm": (-300.1, 100.1),
    "link.rate_mbps": (0, -1.0, 1.1e9),
    "link.packet_error": (-0.1, 1, 1.0),
    "link.power_dbm": (-300.1, 100.1),
    "link.duty": (0, 0.0, 1.1),
    "link.backhaul_mbps": (0, -1.0, 1.1e9),
    "link.bandwidth_hz": (0, -1.0, 1.1e12),
    "mixing.alpha": (0, 9e-13, 1.1e15),
    "mixing.power_scale_watts": (0, 9e-61, 1.1e10),
    "privacy.epsilon": (0, -5, 1.1e15),
    "privacy.delta": (1, 1.5, -0.01),
    "privacy.above_thermal_db": (-100.1, 200.1),
    "privacy.mask_share": (-0.1, 5e-324, 9e-10, 1.0),
    "privacy.most_absent": (-0.1, 1.0),
    "privacy.sum_range": (-0.1, 1.1e6),
    "privacy.eavesdropper_noise_dbm": (-300.1, 100.1),
    "privacy.eavesdropper_distance_metres": (0, 9.9e-4, 1.1e6),
    "learner.shrinkage": (-0.1, 1.1e6),
    "learner.learning_rate": (0, -1e-3, 1000.1),
    "learner.rounds_share": (1, -0.1, 1.1),
    "learner.gradient_clip": (0, 9e-7, 1000.1),
    "learner.temperature": (-0.1, 1.1e6),
    "learner.rounds_step": (-0.1, 1.1e9),
    "learner.adam_beta1": (-0.1, 1),
    "learner.adam_beta2": (-0.1, 1.0),
}
WORDS = {
    "workers.holding": ("drawn", "dealt", "label-skewed", "size-skewed"),
    "workers.task": ("classification", "regression", "multi-label"),
    "workers.encoder": (
        *("scale", "clip", "dct", "projection", "convolution", "gradients"),
        *("cells", "windows", "mixed"),
    ),
    "workers.label_code": ("one-hot", "centred"),
    "workers.unknown_labels": ("refuse", "absent"),
    "workers.centre": ("none", "own", "public", "private", "refined"),
    "workers.norm": ("clip", "unit"),
    "workers.sends": ("samples", "moments", "gradients"),
    "radio.schedule": ("fixed", "poisson"),
    "radio.link": ("analog", "digital"),
    "radio.path_loss": ("power-law",),
    "radio.fading": ("none", "rayleigh", "rician"),
    "workers.missing": ("refuse", "fill", "indicator"),
    "workers.decimal": ("point", "comma"),
    "mixing.policy": ("dirmix", "nonmix", "equalmix"),
    "mixing.assignment": ("random", "max-min"),
    "mixing.power": ("max", "dp", "fixed"),
    "privacy.adversary": ("release", "server", "eavesdropper", "everyone"),
    "privacy.noise": ("receiver", "workers", "masked"),
    "privacy.arithmetic": ("real", "integers"),
    "privacy.accountant": ("paper-loose", "paper-tight", "rdp", "pld", "gdp"),
    "privacy.adjacency": ("replace-one", "remove-one"),
    "privacy.sensitivity": ("paper", "encoder"),
    "learner.model": ("mlp", "cnn", "ridge", "lda"),
    "learner.descent": ("preconditioned", "adam"),
    "learner.loss": ("cross-entropy", "squared", "brier"),
}
TEXTS = ("name", "workers.dataset", "workers.label_column")
TEXTS_OR_NONE = ("workers.worker_column",)
LISTS = {
    "workers.input_lower": ([math.nan], [math.inf], ["a"], [True], [10**400]),
    "workers.input_upper": ([math.nan], [-math.inf], [None], [[1.0]]),
    "workers.feature_columns": ([""], ["a\nb"], [1]),
    "workers.shape": ([0], [1.5], [-1], [10**9 + 1], [True]),
    "workers.label_columns": ([""], ["a\nb"], [1]),
    "workers.classes": ([""], [" "], ["a\nb"], [1.5], [True]),
    "workers.target_lower": ([math.nan], [math.inf], ["a"], [True]),
    "workers.target_upper": ([math.nan], [-math.inf], [None], [[1.0]]),
    "mixing.prior": ([-0.1, 1.1], [math.nan], ["1"]),
    "learner.hidden_units": ([0], [1.5], [-1], [10**6 + 1], [True]),
    "learner.filters": ([], [0], [10**5 + 1], ["32"]),
}
MAPPINGS = {
    "workers.categories": ({"a": "b"}, {"a": []}, {"a": [1.5]}, {"": ["b"]}, [["a", ["b"]], ["a", ["c"]]], [["a"]]),
    "workers.fill": ({"a": "1"}, {"a": math.nan}, {"": 1.0}, {"a": [1.0]}, [["a", 1.0, 2.0]], [1.0]),
}
NOT_A_NUMBER = (True, False, "5", "", None, [1], (), {}, {"a": 1}, math.nan, 10**400, -(10**400), 1 + 2j, object())
NOT_A_TEXT = ("", "a\nb", "\x1b[31m", "tab\t", "\u2028", "\ud800", 5, True, None, ["a"], b"bytes")


def made_with(key: str, value: object) -> object:
    table, _, entry = key.rpartition(".")
    return TABLES[table](**{entry: value}) if table else Scenario(**{key: value})


def cases() -> list[tuple[str, object]]:
    numbers = {**WHOLE_NUMBERS, **REAL_NUMBERS}
    found = [(key, bad) for key, outside in numbers.items() for bad in (*outside, *NOT_A_NUMBER)]
    found += [(key, bad) for key in WHOLE_NUMBERS for bad in (1.5, math.inf, 1e300)]
    found += [(key, math.inf) for key in REAL_NUMBERS if key != "radio.rician_k"]
    found += [
        (key, bad) for key, words in WORDS.items() for bad in ("", "x", words[0].upper(), words[0] + " ", 1, True)
    ]
    found += [(key, bad) for key in TEXTS for bad in NOT_A_TEXT]
    found += [(key, bad) for key in TEXTS_OR_NONE for bad in NOT_A_TEXT if bad != ""]
    found += [(key, bad) for key, tables in MAPPINGS.items() for bad in (*tables, 1, "1", True, None, {1.0})]
    found += [(key, bad) for key, lists in LISTS.items() for bad in (*lists, 1, "1", True, None, {}, {1.0})]
    return found


def test_the_tables_of_this_file_name_every_key() -> None:
    declared = {f"{table}.{entry.name}" for table, kind in TABLES.items() for entry in dataclasses.fields(kind)}
    assert declared | {"name", "seed"} == {
        *WHOLE_NUMBERS,
        *REAL_NUMBERS,
        *WORDS,
        *TEXTS,
        *TEXTS_OR_NONE,
        *LISTS,
        *MAPPINGS,
    }


def test_every_key_refuses_wrong_types_and_ranges(refused: Any) -> None:
    for key, bad in cases():
        message = refused(made_with, key, bad)
        assert re.match(rf"{re.escape(key)}(\[\d\]|\.'a'(\[\d\])?)? = .+: must be .+", message), (key, bad, message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("radio.slots", 0, "radio.slots = 0: must be a whole number of at least 1 and at most 1000000000000"),
        ("privacy.epsilon", -5, "privacy.epsilon = -5: must be a number above 0 and of at most 1e+15"),
        ("privacy.delta", 1, "privacy.delta = 1: must be a number of at least 0 and below 1"),
        ("radio.rician_k", -1, "radio.rician_k = -1: must be a number of at least 0, or inf"),
        ("mixing.power", "fix", 'mixing.power = \'fix\': must be one of "max", "dp", "fixed"; did you mean "fixed"?'),
        ("name", "a/b", "name = 'a/b': must be non-empty printable text on one line without / \\ : * ? \" < > |"),
        ("learner.filters", [32, 0], "learner.filters[1] = 0: must be a whole number of at least 1 and at most 100000"),
    ],
)
def test_messages_read_as_written_here(refused: Any, key: str, value: object, message: str) -> None:
    assert refused(made_with, key, value) == message


def test_a_number_above_the_unwritten_limit_is_told_the_limit(refused: Any) -> None:
    assert "9223372036854775807" in refused(Scenario, seed=2**63)


@pytest.mark.parametrize("bad", [10**5000, [10**5000], {"a": 10**5000}], ids=["number", "list", "table"])
def test_values_that_python_cannot_print_are_refused_like_others(refused: Any, bad: object) -> None:
    for key in ("radio.slots", "radio.noise_dbm", "mixing.power", "workers.dataset", "mixing.prior"):
        assert refused(made_with, key, bad).startswith(key)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("seed", (0, 2**63 - 1, 7.0)),
        ("workers.count", (1, 10**9, 2e3)),
        ("radio.rician_k", (0, math.inf, 1e308)),
        ("radio.noise_dbm", (-300, 100, -114)),
        ("workers.bits", (0, 1, 16)),
        ("workers.features", (0, 10**6)),
        ("privacy.mask_share", (0, 1e-9)),
        ("workers.constant", (0, 0.0, math.nextafter(1.0, 0.0))),
        ("workers.label_weight", (1, 1e-6)),
        ("workers.centre_share", (1e-300, math.nextafter(1.0, 0.0))),
        ("radio.slot_seconds", (0, 0.0, 1e6)),
        ("learner.shrinkage", (0, 1e6)),
        ("privacy.delta", (1e-300, math.nextafter(1.0, 0.0))),
        ("learner.adam_beta1", (0, math.nextafter(1.0, 0.0))),
        ("learner.hidden_units", ([], (1,), [10**6, 2.0])),
        ("mixing.alpha", (1e-12, 1e15)),
        ("workers.dataset", ("ß", "日本 語.csv", "~/a b.npz", "a/b\\c")),
    ],
)
def test_the_ends_of_each_range_are_taken(key: str, values: tuple[object, ...]) -> None:
    for value in values:
        table = made_with(key, value)
        stored = getattr(table, key.rpartition(".")[2])
        assert stored == (tuple(value) if isinstance(value, list) else value)


def test_every_word_of_every_choice_is_taken() -> None:
    for key, words in WORDS.items():
        assert [getattr(made_with(key, word), key.rpartition(".")[2]) for word in words] == list(words)


@pytest.mark.parametrize("name", [".", "..", " a", "a ", "a.", ".a", "a/b", "a:b", 'a"b', "a*b"])
def test_names_that_no_folder_can_have_are_refused(refused: Any, name: str) -> None:
    assert refused(Scenario, name=name).startswith("name = ")


def test_keys_that_contradict_each_other_are_refused(refused: Any) -> None:
    message = refused(Scenario, workers=Workers(count=3), radio=Radio(scheduled=4))
    assert message.startswith("radio.scheduled = 4: must be at most workers.count = 3")
    assert "mixing.prior has 2 shares" in refused(Scenario, mixing=Mixing(prior=(0.5, 0.5)))
    assert refused(Mixing, prior=(0.5, 0.4)).startswith("mixing.prior sums to 0.9: must sum to 1")
    assert "must sum to 1" in refused(Mixing, prior=(1e308, 1e308))


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        (("workers.features=3",), 'workers.features = 3: must be 0 for workers.encoder = "scale"'),
        (("workers.centre=own",), 'workers.centre = "own": needs an encoder'),
        (("workers.norm=unit",), 'workers.norm = "unit": needs an encoder'),
        (("workers.constant=0.5",), "workers.constant = 0.5: needs an encoder"),
        (("workers.sends=moments", "learner.model=lda"), 'workers.sends = "moments": needs an encoder'),
        (("workers.bits=4",), "workers.bits = 4: needs an encoder"),
        (
            ("workers.encoder=clip", "workers.clip_norm=2", "workers.norm=unit"),
            "workers.clip_norm = 2: must be at most",
        ),
        (
            ("workers.encoder=clip", "workers.clip_norm=2", "workers.constant=0.1"),
            "workers.clip_norm = 2: must be at most",
        ),
        (("workers.encoder=clip", "workers.clip_norm=1.01", "workers.bits=1"), "workers.clip_norm = 1.01: must be at"),
        (
            ("workers.encoder=clip", "workers.clip_norm=1.01", "workers.centre=own"),
            "workers.clip_norm = 1.01: must be at",
        ),
        (("workers.encoder=dct", "workers.clip_norm=1.01"), "workers.clip_norm = 1.01: must be at most 1"),
        (("workers.encoder=clip", "workers.bits=1"), 'privacy.sensitivity = "paper": d_X + d_Y bounds samples'),
        (("workers.encoder=clip", "workers.centre=own"), 'privacy.sensitivity = "paper": d_X + d_Y bounds samples'),
        (("workers.encoder=projection",), 'privacy.sensitivity = "paper": d_X + d_Y bounds samples'),
        (("workers.encoder=clip", "workers.sends=moments"), 'learner.model = "mlp": must be one of ridge, lda'),
    ],
)
def test_what_is_sent_must_fit_together(refused: Any, changes: tuple[str, ...], start: str) -> None:
    assert refused(Scenario().with_overrides, *changes).startswith(start)


def test_a_plain_clip_may_still_have_any_norm_and_the_paper_s_sensitivity() -> None:
    scenario = Scenario().with_overrides("workers.encoder=clip", "workers.clip_norm=2", "workers.label_weight=0.5")
    assert (scenario.workers.clip_norm, scenario.privacy.sensitivity) == (2.0, "paper")


def test_a_table_must_be_a_table(refused: Any) -> None:
    for name, kind in TABLES.items():
        for bad in (None, {}, "x", kind):
            assert refused(Scenario, **{name: bad}).startswith(f"{name} = ")


def test_scenarios_are_frozen_keyword_only_values() -> None:
    scenario = Scenario(radio=Radio(slots=5))
    for table in (scenario, *(getattr(scenario, name) for name in TABLES), Speed()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(table, dataclasses.fields(table)[0].name, 1)
        with pytest.raises(TypeError):
            type(table)("positional")
    assert len({scenario, Scenario(radio=Radio(slots=5)), Scenario()}) == 2
    assert pickle.loads(pickle.dumps(scenario)) == copy.deepcopy(scenario) == scenario
    assert scenario.with_seed(9) == Scenario(seed=9, radio=Radio(slots=5))
    assert scenario.seed == 0


def test_speed_is_checked_too(refused: Any) -> None:
    assert refused(Speed, block_slots=-1).startswith("block_slots = -1: must be a whole number of at least 0")
    assert refused(Speed, threads=-1).startswith("threads = -1: ")
    assert refused(Speed, device="").startswith("device = ''")


@pytest.mark.parametrize(
    ("key", "taken", "not_taken"),
    [
        ("pilot_share", (1e-12, 1), (0, 5e-324, 9e-13, 1.1)),
        ("peak_power_dbm", (-300, 100, math.inf), (-300.1, 100.1, 5000, 1e308, -math.inf)),
        ("min_power_dbm", (-1e308, 100, -math.inf), (100.1, math.inf)),
        ("truncation_db", (20, -math.inf), (20.1, math.inf, math.nan)),
    ],
)
def test_an_air_is_off_by_infinity_alone(
    key: str, taken: tuple[float, ...], not_taken: tuple[float, ...], refused: Any
) -> None:
    for value in taken:
        assert getattr(Air(**{key: value}), key) == value
    for value in not_taken:
        assert refused(Air, **{key: value}).startswith(f"air.{key} = ")
    assert refused(Air, peak_power_dbm=5000).endswith("a number of at least -300 and of at most 100, or inf")
