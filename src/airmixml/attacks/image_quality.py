"""How like the original a recovered sample is: PSNR, SSIM of images, and PSNR at the best scale and offset.

The last is for estimates of unknown scale, and stands beside what samples that nobody holds would get.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.whitening import blocks_of, unit_length
from airmixml.shapes import Shape, planes

# A perfect copy has no error; what float32 cannot tell apart counts as one.
_SMALLEST_ERROR: Final = 1e-12
_WINDOW: Final = 7
_LARGEST_PSNR_DB: Final = 150.0


def peak_signal_to_noise_db(originals: NDArray[np.float32], recovered: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return -10 log10 of each sample's mean squared error, for values in [0, 1]; shape samples."""
    errors = np.square(originals - recovered).mean(axis=1, dtype=np.float64)
    return np.asarray(-10.0 * np.log10(np.maximum(errors, _SMALLEST_ERROR)))


def structural_similarity(
    originals: NDArray[np.float32],
    recovered: NDArray[np.float32],
    image_shape: Shape,
    images_at_once: int = 4096,
) -> NDArray[np.float64]:
    """Return the SSIM of each pair of images (Wang et al. 2004, as scikit-image has it); shape samples.

    The images are laid one below the other, so that scikit-image is called once for thousands of them. Windows that
    reach into a neighbour lie in the margin, which does not count for a single image either. Of an image with channels
    it is the mean over them.
    """
    from skimage.metrics import structural_similarity as similarity

    _, height, width = planes(image_shape)
    window = min(_WINDOW, *(side - 1 + side % 2 for side in (height, width)))
    if window < 3:
        raise ValueError(f"images of {height} x {width}: too small for SSIM, whose windows are 3 x 3 or larger")
    margin = (window - 1) // 2
    found = np.empty(len(originals))
    for some in blocks_of(len(originals), 1, images_at_once):
        strips = [np.asarray(part[some], dtype=np.float64).reshape(-1, width) for part in (originals, recovered)]
        _, by_pixel = similarity(*strips, win_size=window, data_range=1.0, full=True)
        inner = by_pixel.reshape(-1, height, width)[:, margin : height - margin, margin : width - margin]
        found[some] = inner.reshape(len(originals[some]), -1).mean(axis=1)
    return found


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How good estimates are, each beside the private sample that it fits best.

    Attributes:
        estimates: how many there are.
        median_psnr_db: of the fits to private samples.
        median_public_psnr_db: of the fits of the same estimates to decoys that nobody holds: what likeness alone gives.
        recovered_samples: different private samples that an estimate fits so much better than a constant does.
        gain_db: how much that is.
        identified: estimates most like the very sample that they should be of, where that was looked up.
        p_value: of so many, or more, by guessing.
    """

    estimates: int = 0
    median_psnr_db: float = 0.0
    median_public_psnr_db: float = 0.0
    recovered_samples: int = 0
    gain_db: float
    identified: int = 0
    p_value: float = 1.0


def fitted_psnr_db(estimates: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Return -10 log10 of the mean squared error of a e + b beside x in [0, 1], best a >= 0 and b; rows.

    The least error is var(x) (1 - rho^2). A constant, which knows nothing, gets -10 log10 var(x). Two numbers are
    fitted, so samples of a handful of numbers fit well by themselves: compare with samples that nobody holds.
    Estimates e and samples x are rows x d.
    """
    ours, theirs = (each - each.mean(dim=1, keepdim=True) for each in (estimates.double(), samples.double()))
    factor = ((ours * theirs).sum(dim=1) / ours.square().sum(dim=1).clamp_min(1e-300)).clamp_min(0.0)
    return _decibels((theirs - factor[:, None] * ours).square().mean(dim=1))


def _decibels(squared_error: torch.Tensor) -> torch.Tensor:
    return -10.0 * torch.log10(squared_error.clamp_min(10.0 ** (-_LARGEST_PSNR_DB / 10.0)))


def closest_samples(estimates: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Return the row of ``samples`` that each estimate fits with the least error; estimates."""
    ours = unit_length(estimates - estimates.mean(dim=1, keepdim=True))
    theirs = samples - samples.mean(dim=1, keepdim=True)
    energy = theirs.square().sum(dim=1)
    errors = (energy - (ours[some] @ theirs.T).clamp_min(0.0).square() for some in blocks_of(len(ours), len(samples)))
    return torch.cat([each.argmin(dim=1) for each in errors])


def judge_recovery(
    estimates: torch.Tensor, private: torch.Tensor, public: torch.Tensor, *, gain_db: float = 10.0
) -> Recovery:
    """Compare estimates (rows x d, real) with the samples that workers hold, and with samples that nobody holds.

    Samples are rows x d, in [0, 1]; as many public as private ones make the two medians comparable. ``gain_db`` is how
    much smaller than the spread of its own numbers the error of a recovered sample is.
    """
    if not len(estimates):
        return Recovery(gain_db=gain_db)
    closest = closest_samples(estimates, private)
    psnr_db = fitted_psnr_db(estimates, private[closest])
    public_psnr_db = fitted_psnr_db(estimates, public[closest_samples(estimates, public)])
    constant_db = _decibels(private[closest].double().var(dim=1, unbiased=False))
    return Recovery(
        estimates=len(estimates),
        median_psnr_db=float(psnr_db.median()),
        median_public_psnr_db=float(public_psnr_db.median()),
        recovered_samples=len(torch.unique(closest[psnr_db >= gain_db + constant_db])),
        gain_db=gain_db,
    )
