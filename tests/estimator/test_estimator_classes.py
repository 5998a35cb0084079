"""Declared classes: a label that one row has is nowhere in what is kept, and rows of others are refused or absent."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

from airmixml import AirMixClassifier, DataError, ScenarioError, streams
from airmixml.radio.transmission import make_sender

RNG = np.random.default_rng(2)
WORDS = np.array(["no", "yes"])
CLASSES = WORDS[np.arange(300) % 2]
ROWS = np.clip(0.5 + 0.3 * (2 * (np.arange(300) % 2) - 1)[:, None] + 0.1 * RNG.standard_normal((300, 3)), 0, 1)
GIVEN: dict[str, Any] = {"epsilon": 5.0, "input_bounds": (0.0, 1.0), "random_state": 0}
RARE = "HIV-positive"


def with_rare() -> np.ndarray:
    labels = CLASSES.astype("<U20")
    labels[5] = RARE
    return labels


def test_classes_must_be_declared_in_protection() -> None:
    with pytest.raises(ScenarioError, match=r"^classes = None: must be declared in protection; add classes=\["):
        AirMixClassifier(**GIVEN).fit(ROWS, CLASSES)
    found = AirMixClassifier(mode="simulation", **GIVEN).fit(ROWS, with_rare())
    assert found.classes_.tolist() == [RARE, "no", "yes"]


def test_a_label_that_one_row_has_is_refused_and_not_named() -> None:
    with pytest.raises(DataError) as refused:
        AirMixClassifier(classes=WORDS, **GIVEN).fit(ROWS, with_rare())
    assert str(refused.value).startswith("y: a label is not among classes; correct it, declare its class, or count its")
    assert RARE not in str(refused.value)
    with pytest.raises(DataError, match=f"the label '{RARE}' is not among classes"):
        AirMixClassifier(classes=WORDS, mode="simulation", **GIVEN).fit(ROWS, with_rare())


def test_a_label_that_one_row_has_counts_as_absent_and_is_kept_nowhere() -> None:
    model = AirMixClassifier(classes=WORDS, unknown_labels="absent", **GIVEN).fit(ROWS, with_rare())
    assert model.classes_.tolist() == ["no", "yes"]
    assert RARE.encode() not in pickle.dumps(model)
    assert RARE not in repr(model)
    assert model.encoder_.count == 300  # the number of rows stays
    assert (model.predict(ROWS) == CLASSES).mean() > 0.8


def test_a_declared_class_that_no_row_has() -> None:
    model = AirMixClassifier(classes=["yes", "maybe", "no"], **GIVEN).fit(ROWS, CLASSES)
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    assert model.predict_proba(ROWS).shape == (300, 3)
    assert model.mixtures_.labels.shape[1] % 3 == 0
    assert model.score(ROWS, CLASSES) > 0.8


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ([0, 1], np.arange(300) % 2),
        ([0.0, 1.0], np.arange(300) % 2),
        ((True, False), np.arange(300) % 2 == 1),
        (["no", "yes"], CLASSES.astype(object)),
        (np.array(["yes", "no"], dtype=object), CLASSES),
    ],
)
def test_labels_of_any_type(classes: Any, labels: np.ndarray) -> None:
    model = clone(AirMixClassifier(classes=classes, **GIVEN)).fit(ROWS, labels)
    assert (model.predict(ROWS) == labels).mean() > 0.8


def test_cross_validation_with_declared_classes() -> None:
    model = AirMixClassifier(classes=WORDS, mode="simulation", **GIVEN)
    assert (cross_val_predict(model, ROWS, CLASSES, cv=3) == CLASSES).mean() > 0.8


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"classes": ["yes"]}, r"classes = \['yes'\]: must name at least 2 classes"),
        ({"classes": WORDS, "unknown_labels": "drop"}, "unknown_labels = 'drop': must be one of refuse, absent"),
        ({"mode": "simulation", "unknown_labels": "absent"}, "classes = None: must be declared"),
    ],
)
def test_mistakes(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        AirMixClassifier(**GIVEN, **given).fit(ROWS, CLASSES)


def test_several_labels_have_their_columns_as_classes() -> None:
    several = np.column_stack([CLASSES == "yes", CLASSES == "no"]).astype(int)
    assert AirMixClassifier(**GIVEN).fit(ROWS, several).classes_.tolist() == [0, 1]
    with pytest.raises(ScenarioError, match="must be None where y has a column for each label"):
        AirMixClassifier(classes=(0, 1), **GIVEN).fit(ROWS, several)


@pytest.mark.parametrize(
    "changes",
    [{}, {"centre": "private"}, {"centre": "refined"}, {"recipe": "paper", "slots": 30, "epochs": 1}],
)
@pytest.mark.parametrize("adjacency", ["remove-one", "replace-one"])
def test_an_absent_worker_sends_zeros(changes: dict[str, Any], adjacency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove-one: the neighbour itself. Replace-one: zeros are no farther from a sample than another sample may be."""
    sent: list[Any] = []

    def watched(*given: Any, **how: Any) -> Any:
        sent.append(make_sender(*given, **how))
        return sent[-1]

    monkeypatch.setattr("airmixml.radio.transmission.make_sender", watched)
    monkeypatch.setattr(streams, "secrets", SimpleNamespace(token_bytes=bytes))
    given = {**GIVEN, "adjacency": adjacency, "epsilon": 30.0, **changes}
    AirMixClassifier(classes=WORDS, unknown_labels="absent", **given).fit(ROWS, with_rare())
    used = [each for each in sent if getattr(each, "told", True)]  # the last rounds are those of before, not sent again
    for each in used:
        vectors = each.vectors(np.arange(300))
        assert not vectors[5].any()
        assert int(vectors.any(axis=1).sum()) == 299
