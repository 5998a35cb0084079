"""How like the original a recovered sample is: PSNR, and SSIM where it is an image."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

# A perfect copy has no error; what float32 cannot tell apart counts as one.
_SMALLEST_ERROR: Final = 1e-12
_IMAGES_AT_ONCE: Final = 4096
_WINDOW: Final = 7


def peak_signal_to_noise_db(originals: NDArray[np.float32], recovered: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return -10 log10 of each sample's mean squared error, for values in [0, 1]; shape samples."""
    errors = np.square(originals - recovered).mean(axis=1, dtype=np.float64)
    return np.asarray(-10.0 * np.log10(np.maximum(errors, _SMALLEST_ERROR)))


def structural_similarity(
    originals: NDArray[np.float32], recovered: NDArray[np.float32], image_shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Return the SSIM of each pair of images (Wang et al. 2004, as scikit-image has it); shape samples.

    The images are laid one below the other, so that scikit-image is called once for thousands of them. Windows that
    reach into a neighbour lie in the margin, which does not count for a single image either.
    """
    from skimage.metrics import structural_similarity as similarity

    height, width = image_shape
    window = min(_WINDOW, *(side - 1 + side % 2 for side in image_shape))
    if window < 3:
        raise ValueError(f"images of {height} x {width}: too small for SSIM, whose windows are 3 x 3 or larger")
    margin = (window - 1) // 2
    found = np.empty(len(originals))
    for first in range(0, len(originals), _IMAGES_AT_ONCE):
        some = slice(first, first + _IMAGES_AT_ONCE)
        strips = [
            np.asarray(part[some], dtype=np.float64).reshape(-1, height, width).reshape(-1, width)
            for part in (originals, recovered)
        ]
        _, by_pixel = similarity(*strips, win_size=window, data_range=1.0, full=True)
        inner = by_pixel.reshape(-1, height, width)[:, margin : height - margin, margin : width - margin]
        found[some] = inner.mean(axis=(1, 2))
    return found
