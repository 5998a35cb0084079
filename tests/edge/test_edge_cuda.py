"""On a machine with a GPU: the recorded step is the plain step, and runs repeat."""

from dataclasses import replace

import pytest
import torch

from airmixml import Scenario, Speed, simulate, train
from airmixml.edge.adam import Adam
from airmixml.edge.fitting import make_epoch
from airmixml.edge.learners import build_model, initialise

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().ravel().cpu() for parameter in model.parameters()])


def test_recorded_and_plain_steps_agree_with_a_short_last_batch() -> None:
    learner = replace(Scenario.preset("digits").learner, batch_size=16)
    generator = torch.Generator().manual_seed(1)
    mixtures = [torch.rand(37, width, generator=generator) for width in (64, 10)]
    orders = [torch.randperm(37, generator=generator) for _ in range(3)]
    ends = []
    for device in ("cpu", "cuda"):
        model = build_model(learner, 64, 10, (8, 8))
        initialise(model, torch.Generator().manual_seed(2))
        model.to(device)
        inputs, labels = (part.to(device) for part in mixtures)
        loss_sum, order = torch.zeros((), device=device), torch.arange(37, device=device)
        train_epoch = make_epoch(model, Adam(model, learner), loss_sum, (inputs, labels), order)
        for each in orders:
            order.copy_(each)
            train_epoch()
        ends.append((weights(model), float(loss_sum)))
    assert torch.allclose(ends[0][0], ends[1][0], atol=1e-4)
    assert ends[0][1] == pytest.approx(ends[1][1], rel=1e-4)


@pytest.mark.parametrize("alpha", [1e5, 4.0])  # a small one draws some ratios more than twice
def test_a_seed_repeats_on_the_gpu_for_any_block_size_and_nearly_equals_the_cpu(alpha: float) -> None:
    changes = ("radio.slots=5000", "learner.epochs=2", f"mixing.alpha={alpha}")
    scenario = Scenario.preset("digits").with_overrides(*changes)
    first, second = (
        simulate(scenario, speed=Speed(device="cuda", block_slots=block_slots)) for block_slots in (2048, 300)
    )
    on_cpu = simulate(scenario)
    assert torch.equal(first.inputs, second.inputs)
    assert torch.allclose(first.inputs.cpu(), on_cpu.inputs, atol=1e-5)
    once, twice = (train(mixtures, speed=Speed(device="cuda")) for mixtures in (first, second))
    assert torch.equal(weights(once.model), weights(twice.model))
    assert once.history == twice.history
    assert once.history.loss == pytest.approx(train(on_cpu).history.loss, rel=1e-3)
