"""What is written as TOML reads back as the same scenario, whatever its keys hold."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario
from airmixml.scenario import Learner, Mixing, Privacy, Radio, Workers


def real(low: float, high: float, **limits: bool) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, **limits) | st.sampled_from([low, high, (low + high) / 2]).filter(
        lambda value: (
            not (limits.get("exclude_min") and value == low) and not (limits.get("exclude_max") and value == high)
        )
    )


FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(min_size=1).filter(str.isprintable)
ODD_TEXT = TEXT | st.sampled_from(
    ['"', "'''", "#", "\\", "\\u0041", "a = 1", "[x]", "é\u0301", "日本", "😀", " ", "\u00ad"]
).filter(str.isprintable)
NAME = ODD_TEXT.filter(lambda text: not set(text) & set('/\\:*?"<>|') and text.strip(" .") == text)

# What bounds a norm may have all the rest with it; sending moments needs a learner of its own.
ENCODING = st.just({}) | st.fixed_dictionaries(
    {
        "encoder": st.sampled_from(["clip", "dct", "projection", "convolution", "gradients"]),
        "features": st.integers(0, 10**6),
        "centre": st.sampled_from(["none", "own", "public"]),
        "norm": st.sampled_from(["clip", "unit"]),
        "clip_norm": real(1e-9, 1),
        "constant": real(0, 1, exclude_max=True),
        "bits": st.integers(0, 16),
    }
).filter(lambda encoding: encoding["encoder"] != "clip" or encoding["features"] == 0)
WORKERS = st.builds(
    lambda encoding, **others: Workers(**encoding, **others),
    encoding=ENCODING,
    holding=st.sampled_from(["drawn", "dealt"]),
    centre_share=real(0, 1, exclude_min=True, exclude_max=True),
    sends=st.just("samples"),
    label_weight=real(1e-6, 1),
    bits_range=real(0, 1e3),
    dataset=ODD_TEXT,
    count=st.integers(8, 10**9),
    train_samples=st.integers(0, 2**63 - 1),
    side_metres=real(0, 1e6, exclude_min=True),
    min_distance_metres=real(1e-3, 1e6),
    input_lower=st.lists(FINITE, max_size=4),
    input_upper=st.lists(FINITE, max_size=4),
    feature_columns=st.lists(ODD_TEXT, max_size=4),
    label_column=ODD_TEXT,
)
RADIO = st.builds(
    Radio,
    slots=st.integers(1, 10**12),
    scheduled=st.just(4),
    slot_seconds=real(0, 1e6),
    path_loss_exponent=real(0, 10),
    unit_path_loss_db=real(-300, 100),
    fading=st.sampled_from(["none", "rayleigh", "rician"]),
    rician_k=st.floats(0, allow_nan=False) | st.just(math.inf),
    noise_dbm=real(-300, 100),
    max_power_dbm=real(-300, 100),
)
MIXING = st.builds(
    Mixing,
    policy=st.sampled_from(["dirmix", "nonmix", "equalmix"]),
    alpha=real(1e-12, 1e15),
    prior=st.sampled_from([(), (0.25,) * 4, (1, 0, 0, 0), (0.1, 0.2, 0.3, 0.4), (1 / 3, 1 / 3, 1 / 3, 0)]),
    assignment=st.sampled_from(["random", "max-min"]),
    power=st.sampled_from(["max", "dp", "fixed"]),
    power_scale_watts=real(1e-60, 1e10),
)
PRIVACY = st.builds(
    Privacy,
    epsilon=real(0, 1e15, exclude_min=True),
    delta=real(1e-300, 1, exclude_max=True),
    sensitivity=st.just("encoder"),
)
LEARNER = st.builds(
    Learner,
    model=st.sampled_from(["mlp", "cnn", "ridge", "lda"]),
    loss=st.sampled_from(["cross-entropy", "squared", "brier"]),
    shrinkage=real(0, 1e6),
    hidden_units=st.lists(st.integers(1, 10**6), max_size=4),
    filters=st.lists(st.integers(1, 10**5), min_size=1, max_size=4),
    kernel_size=st.integers(1, 1000),
    pool_size=st.integers(1, 1000),
    epochs=st.integers(1, 10**7),
    batch_size=st.integers(1, 10**8),
    learning_rate=real(0, 1e3, exclude_min=True),
    adam_beta1=real(0, 1, exclude_max=True),
    adam_beta2=real(0, 1, exclude_max=True),
)
SCENARIOS = st.builds(
    Scenario,
    name=NAME,
    seed=st.integers(0, 2**63 - 1),
    workers=WORKERS,
    radio=RADIO,
    mixing=MIXING,
    privacy=PRIVACY,
    learner=LEARNER,
)


@settings(deadline=None, max_examples=20)
@given(scenario=SCENARIOS, comments=st.booleans())
def test_every_scenario_survives_toml(scenario: Scenario, comments: bool) -> None:
    text = scenario.to_toml(comments=comments)
    again = Scenario.from_toml(text)
    assert again == scenario
    assert repr(again) == repr(scenario)  # also the sign of zero
    plain = tomllib.loads(text)
    assert plain == scenario.to_dict()
    check_plain(scenario.to_dict())
    assert list(plain) == ["name", "seed", "workers", "radio", "link", "air", "mixing", "privacy", "learner"]
    assert again.to_toml(comments=comments) == text


def check_plain(value: Any) -> None:
    assert type(value) in (dict, list, str, int, float)
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_plain(entry)


@settings(deadline=None, max_examples=10)
@given(scenario=SCENARIOS)
def test_every_key_can_be_set_by_what_the_file_would_say(scenario: Scenario) -> None:
    assignments, table = [], ""
    for line in scenario.to_toml().splitlines():
        if line.startswith("["):
            table = line.strip("[]") + "."
        elif line:
            name, _, value = line.partition(" = ")
            assignments.append(f"{table}{name}={value}")
    assert Scenario().with_overrides(*assignments) == scenario


def test_comments_say_what_each_key_means() -> None:
    lines = [line for line in Scenario().to_toml(comments=True).splitlines() if " = " in line.partition("#")[0]]
    assert len(lines) == 2 + 38 + 13 + 10 + 49 + 6 + 18 + 18
    assert all(len(line.partition(" # ")[2]) > 0 for line in lines)


def test_a_key_left_out_takes_its_default() -> None:
    assert Scenario.from_toml("") == Scenario()
    assert Scenario.from_toml("[radio]\nslots = 5\n") == Scenario(radio=Radio(slots=5))


@pytest.mark.parametrize("written", ["5", "5.0", "5e0", "0x5", "0b101", "+5"])
def test_whole_numbers_may_be_written_in_any_way(written: str) -> None:
    slots = Scenario.from_toml(f"radio.slots = {written}").radio.slots
    assert slots == 5
    assert type(slots) is int
