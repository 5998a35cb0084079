"""A learner: one layer from inputs to class scores, trained on the mixtures like the networks of the package."""

from torch import nn

from airmixml.edge import LearnerModel
from airmixml.scenario import Learner


class Linear(LearnerModel):
    """Softmax regression; learner.epochs, learner.loss and the other keys of training hold for it too."""

    about = "one layer, trained on the mixtures"

    def build(
        self, learner: Learner, input_dim: int, label_dim: int, image_shape: tuple[int, ...] | None
    ) -> nn.Sequential:
        """Return the layer: batch x input_dim to batch x label_dim."""
        return nn.Sequential(nn.Linear(input_dim, label_dim))
