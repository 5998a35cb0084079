"""How much of the workers is in what was recovered: likeness worker by worker, and who can be recognised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from airmixml.attacks.image_quality import peak_signal_to_noise_db, structural_similarity
from airmixml.attacks.label_inference import LabelInference, infer_worker_labels
from airmixml.attacks.public_knowledge import Decoder, Reader
from airmixml.attacks.reconstruction import Reconstruction
from airmixml.data import DataSet

_COPY_DB: Final = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Recognition:
    """What a reconstruction shows of each worker.

    Attributes:
        samples: what was recovered, decoded; workers x inputs.
        psnr_db: likeness to the original; shape workers.
        ssim: the same for images, else None; shape workers.
        recognised: whether a reader trained on public samples reads the right class; shape workers.
        guessing: how often always naming the most frequent class is right.
        copied: workers whose sample was recovered with a tenth of the error of the public mean.
        copied_by_chance: the same for what was recovered of other workers, each compared with the wrong one.
        explained: part of how the samples differ from the mean of all the others' that was found out; 1 is everything.
        labels: classes inferred from the label symbols instead.
    """

    samples: NDArray[np.float32]
    psnr_db: NDArray[np.float64]
    ssim: NDArray[np.float64] | None
    recognised: NDArray[np.bool_]
    guessing: float
    copied: int
    copied_by_chance: int
    explained: float
    labels: LabelInference

    @property
    def _copied_p_value(self) -> float:
        """Probability of so many copies or more, were each as likely as one of the wrong worker."""
        workers = len(self.recognised)
        by_chance = min(1.0, (self.copied_by_chance + 1) / workers)
        return float(binom.sf(self.copied - 1, workers, by_chance))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures over all workers."""
        share = float(self.recognised.mean())
        return {
            "psnr_db": _spread(self.psnr_db),
            "ssim": None if self.ssim is None else _spread(self.ssim),
            "recognised": int(self.recognised.sum()),
            "recognised_share": share,
            "guessing": self.guessing,
            "beyond_guessing": beyond_guessing(share, self.guessing),
            "p_value": float(binom.sf(int(self.recognised.sum()) - 1, len(self.recognised), self.guessing)),
            "explained": self.explained,
            "copied": self.copied,
            "copied_share": self.copied / len(self.recognised),
            "copied_p_value": self._copied_p_value,
            "labels": self.labels.to_dict(),
            "labels_beyond_guessing": beyond_guessing(self.labels.accuracy, self.guessing),
        }


def recognise(
    reconstruction: Reconstruction,
    held: DataSet,
    held_index: NDArray[np.int64],
    decoder: Decoder,
    reader: Reader,
) -> Recognition:
    """Compare what was recovered with what the workers hold.

    Args:
        reconstruction: of all workers.
        held: the data, not encoded.
        held_index: row of the pool that each worker holds; shape workers.
        decoder: from what is sent to what is held.
        reader: of classes.
    """
    samples = decoder.decode(reconstruction.inputs)
    originals, labels = held.train_inputs[held_index], held.train_labels[held_index]
    public_mean = held.test_inputs.mean(axis=0)
    return Recognition(
        samples=samples,
        psnr_db=peak_signal_to_noise_db(originals, samples),
        ssim=None if held.image_shape is None else structural_similarity(originals, samples, held.image_shape),
        recognised=reader.read(samples) == labels,
        guessing=guessing_rate(labels),
        copied=count_copies(originals, samples, public_mean),
        # Whoever comes next in the list holds something else, but for samples that several workers hold.
        copied_by_chance=count_copies(np.roll(originals, 1, axis=0), samples, public_mean),
        explained=explained_share(originals, samples, public_mean),
        labels=infer_worker_labels(reconstruction.labels, labels),
    )


def guessing_rate(labels: NDArray[np.int64]) -> float:
    """Return the share of the most frequent class."""
    return float(np.bincount(labels).max() / len(labels))


def count_copies(
    originals: NDArray[np.float32], recovered: NDArray[np.float32], public_mean: NDArray[np.float32]
) -> int:
    """Return how many samples were recovered with at most a tenth of the error that the public mean has."""
    gain_db = peak_signal_to_noise_db(originals, recovered) - peak_signal_to_noise_db(originals, public_mean[None])
    return int(np.sum(gain_db >= _COPY_DB))


def explained_share(
    originals: NDArray[np.float32], recovered: NDArray[np.float32], public_mean: NDArray[np.float32]
) -> float:
    """Return 1 - squared error / that of guessing every sample as the mean of all the others; at most 1.

    What is the same for all workers, such as their mean, is about nobody. Who is alone is guessed as the public mean.

    Args:
        originals: workers x inputs.
        recovered: workers x inputs.
        public_mean: shape inputs.
    """
    truth = originals.astype(np.float64)
    others = len(truth) - 1
    guess = (truth.sum(axis=0) - truth) / others if others else public_mean[None]
    left_open = float(np.square(truth - guess).sum())
    return 1.0 - float(np.square(truth - recovered).sum()) / left_open if left_open else 0.0


def beyond_guessing(share: float, guessing: float) -> float:
    """Return which part of what guessing leaves open was found out: 0 is guessing, 1 is everything."""
    return (share - guessing) / (1.0 - guessing) if guessing < 1.0 else 0.0


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    low, median, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return {"median": median, "low": low, "high": high, "largest": float(values.max())}
