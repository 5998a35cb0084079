"""The tables of a scenario, each key with a default, a rule and a meaning.

The defaults are the paper's Iris experiment; the presets spell out every number of the paper's settings.
"""

import math
from dataclasses import dataclass
from typing import Any

from airmixml.errors import ScenarioError
from airmixml.registries import (
    ACCOUNTANTS,
    ADVERSARIES,
    ASSIGNMENTS,
    DESCENTS,
    ENCODERS,
    FADINGS,
    LEARNERS,
    LINKS,
    NOISES,
    PATH_LOSSES,
    PAYLOADS,
    POWER_POLICIES,
    RATIOS,
    SCHEDULES,
)
from airmixml.scenario.air import Air
from airmixml.scenario.link import Link
from airmixml.scenario.rules import AUTO, Choice, Items, Label, Mapped, Named, Real, Table, Text, Whole, key
from airmixml.wording import shown

OWN_FILES = (".csv", ".tsv", ".npz")
"""How the path of a user's own file ends."""


@dataclass(frozen=True, kw_only=True)
class Workers(Table):
    """Who holds which sample, and where they stand."""

    dataset: str = key("iris", Text(), "a data set of `airmix data list`, or the path of a CSV or NPZ file")
    count: int = key(2000, Whole(high=10**9), "N, number of workers, each with one sample (0: as many as the pool has)")
    train_samples: int = key(
        100,
        Whole(),
        "pool the samples are drawn from; the rest is the test set (0: the data set's own split, else 2/3)",
    )
    side_metres: float = key(500.0, Real(low=0, open_low=True, high=1e6), "side of the square, server in the middle")
    min_distance_metres: float = key(1.0, Real(low=1e-3, high=1e6), "closer workers count as being this far away")
    holding: str = key(
        "drawn",
        Choice(("drawn", "dealt", "label-skewed", "size-skewed")),
        "each worker draws a sample from the pool, or the pool is dealt: one each, or rows unequal in class or number",
    )
    skew: float = key(
        1.0,
        Real(low=1e-3, high=1e6),
        "skewed holdings: concentration of the Dirichlet draw (small: one class, or most rows, on one worker)",
    )
    rows_per_worker: int = key(
        0, Whole(low=0, high=10**9), "skewed holdings: rows per worker (0: all rows are dealt); plans: rows to assume"
    )
    worker_column: str = key(
        "",
        Text(empty=True),
        "CSV column or NPZ array that says who holds a row; all rows of one holder are one worker's",
    )
    max_rows: int = key(0, Whole(low=0, high=10**9), "several rows per worker: most rows of one that enter (0: all)")
    rows_bound: float = key(
        1.0,
        Real(low=1, high=1e9),
        "several rows per worker: their sum is shortened to the norm of so many rows, and divided by their number",
    )
    task: str = key(
        "classification",
        Choice(("classification", "regression", "multi-label")),
        "what a label is: one class, numbers with declared bounds, or a yes or no for each of several labels",
    )
    encoder: str = key(
        "scale",
        Named(ENCODERS),
        "what a worker does to a sample scaled to [0, 1] by declared bounds: nothing, clip its norm, or features",
    )
    features: int = key(0, Whole(low=0, high=10**6), "feature encoders: numbers sent (0: the encoder's own choice)")
    centre: str = key(
        "none",
        Choice(("none", "own", "public", "private", "refined", AUTO)),
        "subtracted before the norm is bounded: nothing, the sample's own mean, a public one, one estimated on air, or "
        "a public one and what is left, estimated on air; auto: the last where it can be, else public",
    )
    centre_share: float = key(
        0.1,
        Real(low=0, open_low=True, high=1, open_high=True),
        'centre = "private" or "refined": share of the privacy target that is spent on the mean',
    )
    norm: str = key(
        "clip",
        Choice(("clip", "unit", AUTO)),
        "all encoders but scale: shorten inputs beyond clip_norm, or scale every input to it; auto: the latter, or for "
        "fewer than 8 inputs shorten them beyond half of it",
    )
    clip_norm: float = key(
        1.0, Real(low=1e-9, high=1e6), "all encoders but scale: largest Euclidean norm of an encoded input"
    )
    constant: float = key(
        0.0,
        Real(low=0, high=1, open_high=True),
        "all encoders but scale: share of the amplitude that an appended constant takes (moments need it for means)",
    )
    sends: str = key(
        "samples",
        Named(PAYLOADS),
        "the encoded input and its label; their products: second moments and moments with the label; or gradients of a "
        "model that the server broadcasts before each slot",
    )
    label_code: str = key(
        "one-hot",
        Choice(("one-hot", "centred", AUTO)),
        "moments of classes: a class as one-hot vector, or less the mean of all classes, which takes less noise; "
        "auto: the latter where it can be",
    )
    label_weight: float = key(1.0, Real(low=1e-6, high=1), "amplitude of the label's symbols relative to the input's")
    bits: int = key(
        0, Whole(low=0, high=16), "bits per symbol, quantised before sending (0: analog); a private mean is not rounded"
    )
    bits_range: float = key(
        0.0,
        Real(low=0, high=1e3),
        "bits > 0: largest level, in units of the root mean square of a symbol (0: by the number of bits)",
    )
    input_lower: tuple[float, ...] = key(
        (), Items(rule=Real()), "declared lower bound of each input (one value serves all; empty: the data set's own)"
    )
    input_upper: tuple[float, ...] = key((), Items(rule=Real()), "declared upper bound of each input, likewise")
    feature_columns: tuple[str, ...] = key(
        (), Items(rule=Text()), "CSV: names of the input columns (empty: all but the label column)"
    )
    categories: tuple[tuple[str, tuple[str, ...]], ...] = key(
        (),
        Mapped(rule=Items(rule=Label(), least=1)),
        "CSV: input columns of categories and all values that count, known without the data: one 0 or 1 for each",
    )
    missing: str = key(
        "refuse",
        Choice(("refuse", "fill", "indicator")),
        "CSV: a missing number is refused, counts as the middle of its bounds, or does and a further input says so",
    )
    fill: tuple[tuple[str, float], ...] = key(
        (),
        Mapped(rule=Real()),
        "CSV: what missing numbers of these columns count as, instead of the middle of their bounds",
    )
    decimal: str = key("point", Choice(("point", "comma")), "CSV: decimal mark of numbers")
    shape: tuple[int, ...] = key(
        (),
        Items(rule=Whole(low=1, high=10**9)),
        "an input as [height, width], [channels, height, width] or [channels, 1, time] (empty: as the data set says)",
    )
    classes: tuple[str, ...] = key(
        (),
        Items(rule=Label()),
        "your own file: all classes, known without the data (empty: those found in it, for simulations alone)",
    )
    unknown_labels: str = key(
        "refuse",
        Choice(("refuse", "absent")),
        "a label that is not among the declared classes: refused before anything is sent, or its row sends zeros",
    )
    label_column: str = key("label", Text(), "CSV: name of the column that holds the class")
    label_columns: tuple[str, ...] = key(
        (),
        Items(rule=Text()),
        "CSV, regression and multi-label: names of the label columns (empty: label_column alone)",
    )
    target_lower: tuple[float, ...] = key(
        (), Items(rule=Real()), "regression: declared lower bound of each target (one value serves all)"
    )
    target_upper: tuple[float, ...] = key((), Items(rule=Real()), "regression: declared upper bound of each target")

    @property
    def farthest_metres(self) -> float:
        """Distance of the corners of the square from the server."""
        return max(self.side_metres / math.sqrt(2.0), self.min_distance_metres)

    @property
    def several_rows(self) -> bool:
        """Whether a worker may hold several rows, which it sends as one bounded sum."""
        return bool(self.worker_column) or self.holding.endswith("-skewed")

    @property
    def centre_on_air(self) -> bool:
        """Whether a mean is estimated over the air before anything else is sent."""
        return self.centre in ("private", "refined")


@dataclass(frozen=True, kw_only=True)
class Radio(Table):
    """The channel between workers and server, and the limits on what may be sent."""

    slots: int = key(1000, Whole(low=1, high=10**12), "T, number of time slots, each yields one mixture")
    scheduled: int = key(4, Whole(high=10**9), "|N_t|, workers that transmit at once in a slot (0: all of them)")
    schedule: str = key(
        "fixed",
        Named(SCHEDULES),
        "exactly |N_t| workers per slot, or each worker at random, |N_t| on average",
    )
    slot_seconds: float = key(
        1e-3,
        Real(low=0, high=1e6),
        "tau, length of a slot (0: as long as its symbols need at 794 per ms, and energy by their largest norm)",
    )
    link: str = key(
        "analog",
        Named(LINKS),
        "how vectors get to the server: all workers at once, so that signals add up on the air; or packets of integers",
    )
    path_loss: str = key("power-law", Named(PATH_LOSSES), "how channels weaken with the distance")
    path_loss_exponent: float = key(2.0, Real(low=0, high=10), "n of the power law")
    unit_path_loss_db: float = key(
        -32.0, Real(low=-300, high=100), "beta_U of the power law, channel power gain at one metre"
    )
    fading: str = key("none", Named(FADINGS), "small-scale fading, new in each slot")
    rician_k: float = key(
        10.0, Real(low=0, off=math.inf), "K, power of the direct path over that of the scattered ones"
    )
    noise_dbm: float = key(-114.0, Real(low=-300, high=100), "sigma_n^2, receiver noise power per complex symbol")
    max_power_dbm: float = key(23.0, Real(low=-300, high=100), "P_max, transmit power limit of each worker")
    max_participations: int = key(
        0, Whole(low=0, high=10**12), "maximum number of slots in which one worker may send (0: no limit)"
    )

    @property
    def schedule_kind(self) -> Any:
        """What ``schedule`` names."""
        return SCHEDULES.load(self.schedule)

    @property
    def path_loss_kind(self) -> Any:
        """What ``path_loss`` names."""
        return PATH_LOSSES.load(self.path_loss)

    @property
    def fading_kind(self) -> Any:
        """What ``fading`` names."""
        return FADINGS.load(self.fading)

    @property
    def direct_path(self) -> float:
        """K of the fading: 0 where all is scattered, infinite without fading; refused where its law has none."""
        found: float | None = self.fading_kind.rician_k(self)
        if found is None:
            raise ScenarioError(
                f"radio.fading = {shown(self.fading)}: has no Rician K, from which bounds on errors that are relative "
                'to a channel follow; use "rayleigh" or "rician", or an air without such errors'
            )
        return found

    @property
    def link_kind(self) -> Any:
        """What ``link`` names."""
        return LINKS.load(self.link)


@dataclass(frozen=True, kw_only=True)
class Mixing(Table):
    """How much of each scheduled worker goes into a mixture, and with how much power."""

    policy: str = key("dirmix", Named(RATIOS), "how the mixing ratios are drawn")
    alpha: float = key(
        1e5,
        Real(low=1e-12, high=1e15),
        "dispersion of DirMix(alpha): small = one worker dominates, large = equal shares",
    )
    prior: tuple[float, ...] = key(
        (), Items(rule=Real(low=0)), "p_t, one share per scheduled worker, summing to 1 (empty: uniform)"
    )
    assignment: str = key("random", Named(ASSIGNMENTS), "which scheduled worker gets which ratio")
    power: str = key(
        "dp",
        Named(POWER_POLICIES),
        "power scale beta: the power limit, the privacy target, or power_scale_watts",
    )
    power_scale_watts: float = key(
        1e-13, Real(low=1e-60, high=1e10), 'beta for power = "fixed": received power of a whole mixture'
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior and abs(sum(self.prior) - 1.0) > 1e-9:
            raise ScenarioError(
                f"mixing.prior sums to {sum(self.prior):g}: must sum to 1; divide each share by that sum"
            )

    @property
    def ratios_kind(self) -> Any:
        """What ``policy`` names."""
        return RATIOS.load(self.policy)

    @property
    def assignment_kind(self) -> Any:
        """What ``assignment`` names."""
        return ASSIGNMENTS.load(self.assignment)

    @property
    def power_policy(self) -> Any:
        """What ``power`` names."""
        return POWER_POLICIES.load(self.power)


@dataclass(frozen=True, kw_only=True)
class Privacy(Table):
    """The privacy target, against whom, and by which bound."""

    epsilon: float = key(5.0, Real(low=0, open_low=True, high=1e15), 'target epsilon (used by mixing.power = "dp")')
    delta: float = key(0.01, Real(low=0, high=1, open_high=True), "target delta (0: a tenth of 1 / N)")
    adversary: str = key(
        "release",
        Named(ADVERSARIES),
        "an adversary with the mixtures but no schedule, the server itself, a receiver near the workers, or somebody "
        "who hears every worker separately and without noise",
    )
    accountant: str = key(
        "paper-loose",
        Named(ACCOUNTANTS),
        "the bound: Corollary 1 / Proposition 2, Proposition 1, two of other accountants, or exact for the server",
    )
    adjacency: str = key(
        "replace-one",
        Choice(("replace-one", "remove-one")),
        "neighbours: another sample on a worker, or no such worker",
    )
    sensitivity: str = key(
        "paper",
        Choice(("paper", "encoder")),
        "squared sensitivity of one worker: d_X + d_Y, or what its encoder declares",
    )
    colluders: int = key(0, Whole(low=0, high=10**9), "workers that tell the adversary their samples and slots")
    noise: str = key(
        "receiver",
        Named(NOISES),
        "what hides a worker: the receiver's noise, the workers' own, or that and masks that cancel in the sum",
    )
    arithmetic: str = key(
        "real",
        Choice(("real", "integers")),
        "workers' own noise: Gaussian, on real numbers; or Skellam, on integers whose masks and sums are taken modulo "
        "a power of two",
    )
    modulus_bits: int = key(
        0,
        Whole(low=0, high=62),
        "integers: b; sums are taken modulo 2^b (0: so many that rounding adds less than 1 % to the noise)",
    )
    sum_range: float = key(
        0.0,
        Real(low=0, high=1e6),
        "integers: largest number of a sum that must not wrap around, in units of the root mean square of a sum of "
        "equal vectors (0: none wraps around, whatever the data)",
    )
    above_thermal_db: float = key(
        0.0,
        Real(low=-100, high=200),
        "workers' own noise: its power in the sum of a slot over that of the receiver's noise (0: so much that the "
        "farthest worker sends 10 dB below its limit; without masks, against server or release, 20)",
    )
    mask_degree: int = key(
        0, Whole(low=0, high=10**6), "masked: masks of each worker, an even number (0: what colluders and absent need)"
    )
    mask_share: float = key(
        0.0,
        Real(low=1e-9, high=1, open_high=True, off=0.0),
        "masked: share of the privacy loss that is due to masks; more of it takes less power, and leaves less noise "
        "where gains err (0: by the air's gain errors)",
    )
    most_absent: float = key(
        0.0,
        Real(low=0, high=1, open_high=True),
        "masked: share of a slot's workers that may be absent, whose masks are then recovered (0: nothing is)",
    )
    eavesdropper_noise_dbm: float = key(
        -114.0, Real(low=-300, high=100), "noise power at each of the eavesdropper's antennas"
    )
    eavesdropper_distance_metres: float = key(
        10.0, Real(low=1e-3, high=1e6), "distance from a worker, in the worst case the one farthest from the server"
    )
    eavesdropper_antennas: int = key(1, Whole(low=1, high=10**6), "antennas that the eavesdropper combines coherently")

    @property
    def noise_kind(self) -> Any:
        """What hides a worker: what ``noise`` names, on these numbers."""
        kind = NOISES.load(self.noise)
        return kind if self.arithmetic == "real" else kind.on_integers(self)


@dataclass(frozen=True, kw_only=True)
class Learner(Table):
    """What the edge server trains on the mixtures."""

    model: str = key(
        "mlp",
        Named(LEARNERS, also=(AUTO,)),
        "mlp: dense layers; cnn: convolutions, then dense layers; ridge, lda: linear, solved from streamed moments; "
        "auto: lda for classes, else ridge",
    )
    hidden_units: tuple[int, ...] = key(
        (32, 16), Items(rule=Whole(low=1, high=10**6)), "sizes of the hidden dense layers"
    )
    filters: tuple[int, ...] = key(
        (32, 48), Items(rule=Whole(low=1, high=10**5), least=1), "cnn: filters of each convolution (stride 1)"
    )
    kernel_size: int = key(5, Whole(low=1, high=1000), "cnn: side of each filter")
    pool_size: int = key(2, Whole(low=1, high=1000), "cnn: side and stride of the max-pooling after each convolution")
    loss: str = key(
        "cross-entropy",
        Choice(("cross-entropy", "squared", "brier")),
        "networks: cross-entropy, or squared distance of the scores, or of the probabilities, to the received labels",
    )
    shrinkage: float = key(
        1.0, Real(low=0, high=1e6), "ridge, lda: assumed noise level, as a multiple of the known one"
    )
    rounds: int = key(
        0,
        Whole(low=0, high=10**5, auto=True),
        "slots after the moments in which workers send gradients of the model that the server broadcast (0: none; "
        "auto: as many as suit the data)",
    )
    rounds_share: float = key(
        0.0,
        Real(low=0, high=1, open_high=True),
        "rounds: their share of the privacy loss (of mu^2), the moments have the rest (0: 0.9, or 0.5 for targets)",
    )
    gradient_clip: float = key(
        0.2,
        Real(low=1e-6, high=1e3),
        "rounds: norm that gradients are shortened to, in units of workers.clip_norm (times sqrt(labels) for several)",
    )
    temperature: float = key(
        0.0,
        Real(low=0, high=1e6),
        "rounds: what the scores solved from the moments are multiplied with first (0: 4, or at most 0.5 for lda)",
    )
    rounds_step: float = key(
        0.0,
        Real(low=0, high=1e9),
        "rounds: how far all steps together can move the model (0: min(24 d^(1/4), 10 R), or 8 gradient_clip for "
        "targets)",
    )
    descent: str = key(
        "preconditioned",
        Named(DESCENTS),
        "rounds: how the server steps; by the inverse of the moments, or by Adam without them",
    )
    epochs: int = key(500, Whole(low=1, high=10**7), "passes over all mixtures")
    batch_size: int = key(32, Whole(low=1, high=10**8), "mixtures per training step")
    learning_rate: float = key(1e-3, Real(low=0, open_low=True, high=1e3), "Adam's step size")
    adam_beta1: float = key(0.9, Real(low=0, high=1, open_high=True), "Adam's decay of the gradient's mean")
    adam_beta2: float = key(0.999, Real(low=0, high=1, open_high=True), "Adam's decay of the gradient's square")

    @property
    def closed_form(self) -> bool:
        """Whether it is solved from moments that are added up while slots arrive, not trained on all mixtures."""
        return self.model == AUTO or bool(LEARNERS.load(self.model).closed_form)

    @property
    def in_words(self) -> str:
        """What is learnt, and how."""
        if not self.closed_form:
            return f"{self.model}, {self.epochs:,} epochs"
        return f"{self.model}, " + (f"then {self.rounds:,} rounds of gradients" if self.rounds else "closed form")


TABLES: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Workers, Radio, Link, Air, Mixing, Privacy, Learner)
}
