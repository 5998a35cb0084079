from __future__ import annotations

from collections.abc import Callable

import pytest

from airmixml import ScenarioError

Refused = Callable[..., str]


@pytest.fixture(scope="session")
def refused() -> Refused:
    """Call something that must raise a ScenarioError; return its message, which must be one short printable line."""

    def call(function: Callable[..., object], *arguments: object, **named: object) -> str:
        with pytest.raises(ScenarioError) as caught:
            function(*arguments, **named)
        message = str(caught.value)
        assert message.isprintable(), ascii(message)
        assert len(message) < 300
        return message

    return call
