"""The slot that is shown is that of the run, and its parts fit together by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from airmixml import Scenario, simulate
from airmixml.scenario import preset_names

SMALL = {"workers.count": 200, "radio.slots": 300}


@pytest.fixture
def watch(client: TestClient) -> Callable[..., dict[str, Any]]:
    def ask(preset: str = "digits", **body: Any) -> dict[str, Any]:
        overrides = {**SMALL, **body.pop("overrides", {})}
        answer = client.post("/api/watch", json={"preset": preset, "overrides": overrides, **body})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    return ask


def test_the_slot_is_that_of_the_run(watch: Callable[..., dict[str, Any]]) -> None:
    sent = simulate(Scenario.preset("digits").with_overrides(*(f"{key}={value}" for key, value in SMALL.items())))
    for slot in (1, 7, 128):
        shown = watch(slot=slot)
        np.testing.assert_allclose(shown["received"], sent.inputs[slot - 1], atol=2e-3)
        np.testing.assert_allclose(shown["received_labels"], sent.labels[slot - 1], atol=2e-3)
    assert shown["slots"] == 128
    assert shown["all_slots"] == 300


def test_the_mixture_is_the_sum_of_what_is_sent(watch: Callable[..., dict[str, Any]]) -> None:
    shown = watch(slot=3)
    senders = shown["senders"]
    assert sum(each["ratio"] for each in senders) == pytest.approx(1.0)
    summed = sum(each["ratio"] * np.array(each["input"]) for each in senders)
    np.testing.assert_allclose(shown["clean"], summed, atol=1e-3)
    labels = np.zeros(10)
    for each in senders:
        labels[int(each["label"])] += each["ratio"]
    np.testing.assert_allclose(shown["clean_labels"], labels, atol=1e-3)


def test_powers_invert_the_channel(watch: Callable[..., dict[str, Any]]) -> None:
    """P = beta q^2 / |h|^2, and |h|^2 = 10^-3.2 / d^2 without fading."""
    shown = watch(overrides={"mixing.alpha": 5})
    for each in shown["senders"]:
        gain = 10**-3.2 / each["distance_metres"] ** 2
        assert each["channel_db"] == pytest.approx(10 * math.log10(gain), abs=1e-6)
        watts = shown["power_scale_watts"] * each["ratio"] ** 2 / gain
        assert each["power_dbm"] == pytest.approx(10 * math.log10(watts) + 30, abs=1e-3)


def test_an_eavesdropper_hears_by_distance(watch: Callable[..., dict[str, Any]]) -> None:
    """Each worker with its power less the path loss from the place, over the noise of -114 dBm."""
    place = [30.0, -60.0]
    shown = watch(place=place)
    for each in shown["senders"]:
        metres = max(math.dist(each["place"], place), 1.0)
        expected = each["power_dbm"] - 32.0 - 20.0 * math.log10(metres) + 114.0
        assert each["heard_db"] == pytest.approx(expected, abs=0.02)
    loudest = max(shown["senders"], key=lambda each: each["heard_db"])
    assert shown["eavesdropper"]["loudest"] == loudest["worker"]


def test_beside_a_worker_its_sample_is_received(watch: Callable[..., dict[str, Any]]) -> None:
    shown = watch()
    victim = shown["senders"][0]
    heard = watch(place=[victim["place"][0] + 1.0, victim["place"][1]])["eavesdropper"]
    assert heard["loudest"] == victim["worker"]
    assert np.corrcoef(heard["inputs"], victim["input"])[0, 1] > 0.99
    far = watch(place=[10_000.0, 10_000.0], overrides={"radio.max_power_dbm": -60})["eavesdropper"]
    assert abs(np.corrcoef(far["inputs"], victim["input"])[0, 1]) < 0.5


def test_moments_are_shown_as_they_are_sent(watch: Callable[..., dict[str, Any]]) -> None:
    shown = watch("private-iris", overrides={"workers.count": 100, "radio.slots": 1})
    assert shown["sends"] == "moments"
    assert len(shown["clean"]) == 15
    assert shown["sending"] == 100
    assert len(shown["senders"]) == 12


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"slot": 0}, "slot = 0: must be from 1 to 128"),
        ({"slot": 129}, "slot = 129: must be from 1 to 128"),
        ({"slot": "1"}, "slot must be a whole number"),
        ({"place": [1]}, "place two numbers"),
        ({"overrides": {"workers.dataset": "mnist"}}, "samples that come with the package"),
    ],
)
def test_what_cannot_be_shown_says_why(client: TestClient, body: dict[str, Any], line: str) -> None:
    answer = client.post("/api/watch", json={"preset": "digits", "overrides": SMALL, **body})
    assert answer.status_code == 400
    assert line in answer.json()["line"]


def test_powers_of_masked_workers_keep_the_limit(watch: Callable[..., dict[str, Any]]) -> None:
    shown = watch("trustless-iris", overrides={"radio.scheduled": 200, "radio.slots": 1})
    powers = [each["power_dbm"] for each in shown["senders"]]
    assert max(powers) < 23.0 - 9.0  # 10 dB of headroom, and what the signal adds


@pytest.mark.parametrize("place", ["[1e400, 1]", "[-1e12, 0]", "[NaN, 1]"])
def test_a_place_beyond_all_measure_is_refused(client: TestClient, place: str) -> None:
    body = f'{{"preset": "digits", "overrides": {{}}, "place": {place}}}'
    answer = client.post("/api/watch", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("preset", "overrides", "noise"),
    [
        ("digits", {}, "receiver"),
        ("trustless-iris", {"radio.scheduled": 200, "radio.slots": 1}, "masked"),
        ("trustless-iris", {"radio.scheduled": 200, "radio.slots": 1, "privacy.noise": "workers"}, "workers"),
    ],
)
def test_the_slot_says_whose_noise_is_added(
    watch: Callable[..., dict[str, Any]], preset: str, overrides: dict[str, Any], noise: str
) -> None:
    assert watch(preset, overrides=overrides)["noise"] == noise


def test_every_preset_is_shown_or_refused_in_one_line(client: TestClient) -> None:
    shown = set()
    for preset in preset_names():
        answer = client.post("/api/watch", json={"preset": preset})
        if answer.status_code == 200:
            shown.add(preset)
        else:
            assert (answer.status_code, answer.json()["line"].count("\n")) == (400, 0), preset
    assert {"paper-iris", "digits", "private-iris", "trustless-iris"} <= shown


def test_packets_have_one_power_and_no_channel_to_invert(watch: Callable[..., dict[str, Any]]) -> None:
    changes = {"workers.count": 100, "radio.scheduled": 100, "radio.slots": 1, "privacy.most_absent": 0.3}
    shown = watch("trustless-digits-digital", overrides=changes)
    assert shown["on_air"] is False
    assert {round(each["power_dbm"], 9) for each in shown["senders"]} == {20.0}
    assert watch()["on_air"] is True
