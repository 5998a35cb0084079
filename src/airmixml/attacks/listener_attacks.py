"""The attacks without a schedule: on the released mixtures, and by an eavesdropper with its own receiver."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from airmixml.attacks.listener import Heard, attack_as_eavesdropper, attack_released
from airmixml.attacks.listener_findings import ListenerFindings
from airmixml.attacks.target import Outcome, Target
from airmixml.scenario import Scenario


@dataclass(frozen=True)
class ListenerAttack:
    """An attack without a schedule, on what one adversary receives."""

    adversary: str
    about: str
    listen: Callable[[Target], Heard]
    findings: ClassVar[type[ListenerFindings]] = ListenerFindings

    def refusal(self, _scenario: Scenario) -> str:
        """Return nothing: it fits every scenario."""
        return ""

    def run(self, target: Target) -> Outcome:
        """Attack what the adversary received; examples are the clearest slots."""
        target.context.progress(self.adversary, 0, 1)
        heard = self.listen(target)
        target.context.progress(self.adversary, 1, 1)
        return Outcome(
            findings=replace(heard.findings, image_shape=target.held.image_shape),
            arrays={"originals": target.held.train_inputs[heard.example_index], "examples": heard.examples},
        )


RELEASE: Final = ListenerAttack(
    "release",
    "match known samples with the mixtures, and unmix those that share one",
    lambda target: attack_released(target.view, target.decoder),
)
EAVESDROPPER: Final = ListenerAttack(
    "eavesdropper",
    "the same with what a receiver beside the farthest worker overhears",
    lambda target: attack_as_eavesdropper(target.view, target.decoder, speed=target.context.speed),
)
