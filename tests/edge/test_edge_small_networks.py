"""Small dense networks trained in NumPy end where torch's automatic gradients and Adam end."""

import pytest
import torch

from airmixml.edge.adam import LOSSES, Adam, SmallNetworks, is_small
from airmixml.edge.fitting import make_epoch
from airmixml.edge.learners import build_model
from airmixml.edge.stack import NetworkStack
from airmixml.scenario import Learner


def prepared(learner: Learner, networks: int, scale: float) -> tuple[NetworkStack, Adam]:
    generator = torch.Generator().manual_seed(2)
    members = [build_model(learner, 4, 3, None) for _ in range(networks)]
    for member in members:
        for parameter in member.parameters():
            torch.nn.init.normal_(parameter, std=scale, generator=generator)
    stack = NetworkStack(members)
    return stack, Adam(stack, learner)


# 8: scores so far apart that the smallest probability counts.
@pytest.mark.parametrize(("loss", "scale"), [*((name, 0.5) for name in LOSSES), ("cross-entropy", 8.0)])
@pytest.mark.parametrize(("networks", "hidden"), [(1, ()), (1, (7, 5)), (3, (6,))])
def test_the_steps_are_those_of_automatic_gradients_and_of_torchs_adam(
    loss: str, scale: float, networks: int, hidden: tuple[int, ...]
) -> None:
    """23 slots in batches of 10: the last batch of an epoch is short. Labels are noisy and partly negative."""
    learner = Learner(hidden_units=hidden, loss=loss, batch_size=10, learning_rate=0.01)
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(networks, 23, 4, generator=generator)
    labels = torch.rand(networks, 23, 3, generator=generator) + 0.5 * torch.randn(networks, 23, 3, generator=generator)
    orders = torch.stack([torch.randperm(23, generator=generator) for _ in range(2)])
    stack, optimiser = prepared(learner, networks, scale)
    assert is_small(stack, optimiser)
    loss_sum = torch.zeros(networks)
    order = torch.zeros(23, dtype=torch.int64)
    train_epoch = make_epoch(stack, optimiser, loss_sum, (inputs, labels), order)
    assert isinstance(train_epoch, SmallNetworks)
    for each in orders:
        order.copy_(each)
        train_epoch()

    expected, _ = prepared(learner, networks, scale)
    plain = torch.optim.Adam(expected.parameters(), lr=0.01, betas=(0.9, 0.999), foreach=False)
    expected_sum = torch.zeros(networks)
    for each in orders:
        for numbers in torch.split(each, 10):
            plain.zero_grad()
            losses = LOSSES[loss](expected(inputs[:, numbers]), labels[:, numbers])
            losses.sum().backward()
            plain.step()
            expected_sum += losses.detach() * len(numbers)
    torch.testing.assert_close(loss_sum, expected_sum, rtol=1e-4, atol=1e-4)
    states = (plain.state[parameter] for parameter in expected.parameters())
    for ours, moments, theirs, state in zip(
        stack.parameters(), optimiser.moments, expected.parameters(), states, strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(moments["exp_avg"], state["exp_avg"], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(moments["exp_avg_sq"], state["exp_avg_sq"], rtol=1e-3, atol=1e-7)
        assert float(moments["step"]) == float(state["step"]) == 6.0


def test_what_is_not_small_or_not_dense_is_left_to_torch() -> None:
    large = Learner(hidden_units=(300, 300), batch_size=64)
    assert not is_small(*prepared(large, 1, 1.0))
    learner = Learner(model="cnn", filters=(2,), kernel_size=2, hidden_units=())
    images = NetworkStack([build_model(learner, 16, 3, (4, 4))])
    assert not is_small(images, Adam(images, learner))
    frozen = build_model(Learner(hidden_units=(5,)), 4, 3, None)
    frozen[0].requires_grad_(False)
    stack = NetworkStack([frozen])
    assert not is_small(stack, Adam(stack, large))
