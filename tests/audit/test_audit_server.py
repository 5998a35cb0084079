"""Audits of the server: below every claim, and near the exact one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from verdicts_for_tests import verdict_of

from airmixml.audit import Audit, fault_named

Audited = Callable[..., Audit]
EXACT = "privacy.sensitivity=encoder"
POISSON = ("radio.schedule=poisson", "mixing.policy=equalmix", "privacy.accountant=pld", "privacy.adjacency=remove-one")
SMALL = (EXACT, "workers.count=200", "radio.slots=100")


def found_by(audit: Audit, method: str) -> float:
    epsilon = next(bound.epsilon for bound in audit.bounds if bound.method == method)
    assert epsilon is not None
    return epsilon


def check_below_every_claim(audit: Audit) -> None:
    claims = [claim.epsilon for claim in audit.claims if claim.epsilon is not None]
    assert len(claims) >= 4
    assert all(bound.epsilon is None or bound.epsilon <= min(claims) for bound in audit.bounds)
    assert not audit.caught


NEAR: list[tuple[str, tuple[str, ...]]] = [
    ("paper-iris", (EXACT,)),
    ("paper-iris", (*SMALL, "mixing.alpha=1", "radio.schedule=fixed")),
    ("paper-iris", (*SMALL, *POISSON)),
    ("paper-iris", (*SMALL, "mixing.policy=nonmix", "radio.max_participations=10", "privacy.epsilon=50")),
    ("paper-iris", (*SMALL, "workers.encoder=clip", "privacy.adversary=server", "privacy.accountant=gdp")),
    ("paper-iris", (*SMALL, "mixing.power=max", "radio.fading=rician", "mixing.alpha=1")),
    ("private-iris", ()),
    ("private-iris", ("workers.count=1", "radio.scheduled=1")),
]
# Kinds of neighbours in turn; the other kind is for the long tests.
NEAR_THE_CLAIM = [
    pytest.param(*setting, adjacency, marks=[pytest.mark.long] if (place + kind) % 2 else [])
    for place, setting in enumerate(NEAR)
    for kind, adjacency in enumerate(("replace-one", "remove-one"))
]


@pytest.mark.parametrize(("preset", "overrides", "adjacency"), NEAR_THE_CLAIM)
def test_near_the_exact_claim(preset: str, overrides: tuple[str, ...], adjacency: str, audited: Audited) -> None:
    audit = audited(preset, *overrides, adversary="server", adjacency=adjacency, trials=40_000)
    check_below_every_claim(audit)
    exact = next(claim.epsilon for claim in audit.claims if claim.accountant == "gdp")
    assert exact is not None
    assert found_by(audit, "normal scores") > 0.94 * exact


def test_a_private_mean_is_left_out(audited: Audited) -> None:
    audit = audited("private-iris", "workers.centre=private", adversary="server")
    check_below_every_claim(audit)
    assert audit.delta == pytest.approx(0.9 * 0.01)
    # Nine tenths of epsilon 5 and of delta 0.01 are the slots'.
    assert audit.scope == "against the server, without the slot that estimates the mean, which spends more"
    assert verdict_of([audit], fault_named("")).startswith(f"NOT REFUTED: {audit.scope}: the best attack")
    assert audit.to_dict()["scope"] == audit.scope


def test_an_audit_of_everything_names_no_part(audited: Audited) -> None:
    audit = audited("private-iris", adversary="server")
    assert audit.scope == ""
    assert "scope" not in audit.to_dict()


def test_scores_that_are_not_normal_are_not_taken_for_it(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from airmixml.audit import sums

    real = sums.receive_mixtures
    monkeypatch.setattr(
        sums, "receive_mixtures", lambda clean, noise, *rest: real(clean, torch.sinh(1.5 * noise), *rest)
    )
    bounds = {bound.method: bound for bound in audited("private-iris", adversary="server").bounds}
    assert bounds["normal scores"].epsilon is None
    assert "the scores are not normal" in bounds["normal scores"].detail
