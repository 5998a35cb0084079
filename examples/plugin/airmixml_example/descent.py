"""A descent: signSGD, whose steps have one length along every number, whatever the noise made of the gradient."""

import torch

from airmixml.edge.descents import Stepping

STEP = 0.1


class SignDescent(Stepping):
    """Starts from zeros, so that no slot of moments is needed before (workers.sends = "gradients")."""

    about = "steps of one length by the sign of each number of the gradient"
    needs_moments = False

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        """Take the mean clipped gradient of a round, features x outputs, whose noise has this deviation."""
        self.weights = self.weights - STEP * gradient.to(self.weights).sign()
