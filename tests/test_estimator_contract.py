"""scikit-learn's whole list of checks, for classifier and regressor, with and without an epsilon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from airmixml import AirMixClassifier, AirMixRegressor

# The checks feed standardised data: bounds of four deviations.
BOUNDS: dict[str, Any] = {"input_bounds": (-4.0, 4.0)}
TARGETS: dict[str, Any] = {**BOUNDS, "target_bounds": (-4.0, 4.0)}
STUDIES = [
    learner
    for epsilon in (None, 5.0)
    for learner in (
        AirMixClassifier(epsilon=epsilon, mode="simulation", **BOUNDS),
        AirMixRegressor(epsilon=epsilon, mode="simulation", **TARGETS),
    )
]
# In protection noise is of the operating system's entropy; at this epsilon there is next to none.
PROTECTED = [AirMixClassifier(epsilon=1e4, classes=[0, 1, 2], **BOUNDS), AirMixRegressor(epsilon=1e4, **TARGETS)]
ANEW = "compares two fits, of which each draws its noise anew"
DECLARED = "labels or columns of labels that were not declared are refused"
NOT_KEPT = {
    "check_fit_idempotent": ANEW,
    "check_classifier_data_not_an_array": ANEW,
    "check_regressor_data_not_an_array": ANEW,
    "check_supervised_y_2d": ANEW,
    "check_regressors_int": ANEW,
    "check_dtype_object": "asks for NumPy's own error, which quotes the value",
}
NOT_KEPT_WITH_CLASSES = {
    "check_classifiers_classes": DECLARED,
    "check_classifiers_regression_target": DECLARED,
    "check_classifiers_train": "has fewer classes than were declared",
    "check_classifiers_multilabel_representation_invariance": DECLARED,
    "check_classifiers_multilabel_output_format_predict": DECLARED,
    "check_classifiers_multilabel_output_format_predict_proba": DECLARED,
    "check_classifiers_multilabel_output_format_decision_function": DECLARED,
}


@parametrize_with_checks(STUDIES)
@pytest.mark.filterwarnings("ignore::airmixml.messages.BoundsWarning")  # its checks know nothing of our bounds
def test_scikit_learn_contract_in_simulation(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@parametrize_with_checks(
    PROTECTED,
    expected_failed_checks=lambda estimator: (
        NOT_KEPT | (NOT_KEPT_WITH_CLASSES if hasattr(estimator, "classes") else {})
    ),
)
@pytest.mark.filterwarnings("ignore::airmixml.messages.RepeatedFitWarning")
@pytest.mark.filterwarnings("ignore::airmixml.messages.ScaledRowsWarning")
def test_scikit_learn_contract_in_protection(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
