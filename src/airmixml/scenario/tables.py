"""The tables of a scenario, each key with a default, a rule and a meaning.

The defaults are the paper's Iris experiment; the presets spell out every number of the paper's settings.
"""

import math
from dataclasses import dataclass
from typing import Any

from airmixml import registries
from airmixml.messages import ScenarioError, shown
from airmixml.scenario.air import Air
from airmixml.scenario.rules import AUTO, DBM, SHARE, Choice, Items, Label, Mapped, Named, Real, Table, Text, Whole

SEPARATED = (".csv", ".tsv")
OWN_FILES = (*SEPARATED, ".npz")
"""How the path of a user's own file ends."""


@dataclass(frozen=True, kw_only=True)
class Workers(Table):
    """Who holds which sample, and where they stand."""

    dataset: str = Text().key("iris", "a data set of `airmix data list`, or the path of a CSV or NPZ file")
    count: int = Whole(0, 10**9).key(2000, "N, number of workers, each with one sample (0: as many as the pool has)")
    train_samples: int = Whole().key(100, "pool; the rest is the test set (0: the data set's own split, else 2/3)")
    side_metres: float = Real(0, 1e6, open_low=True).key(500.0, "side of the square, server in the middle")
    min_distance_metres: float = Real(1e-3, 1e6).key(1.0, "closer workers count as being this far away")
    holding: str = Choice(("drawn", "dealt", "label-skewed", "size-skewed")).key(
        "drawn",
        "each worker draws a sample from the pool, or the pool is dealt: one each, or rows unequal in class or number",
    )
    skew: float = Real(1e-3, 1e6).key(1.0, "skewed: Dirichlet concentration (small: one class, or most rows, each)")
    rows_per_worker: int = Whole(0, 10**9).key(0, "skewed: rows per worker (0: all are dealt); plans: rows to assume")
    worker_column: str = Text(empty=True).key("", "CSV column or NPZ array: who holds each row, as one worker")
    max_rows: int = Whole(0, 10**9).key(0, "several rows per worker: most rows of one that enter (0: all)")
    rows_bound: float = Real(1, 1e9).key(
        1.0, "several rows per worker: their sum is shortened to the norm of so many rows, and divided by their number"
    )
    task: str = Choice(("classification", "regression", "multi-label")).key(
        "classification",
        "what a label is: one class, numbers with declared bounds, or a yes or no for each of several labels",
    )
    encoder: str = Named(registries.ENCODERS).key(
        "scale",
        "what a worker does to a sample scaled to [0, 1] by declared bounds: nothing, clip its norm, or features",
    )
    features: int = Whole(0, 10**6).key(0, "feature encoders: numbers sent (0: the encoder's own choice)")
    centre: str = Choice(("none", "own", "public", "private", "refined", AUTO)).key(
        "none",
        "subtracted before the norm is bounded: nothing, the sample's own mean, a public one, one estimated on air, or "
        "a public one and what is left, estimated on air; auto: the last where it can be, else public",
    )
    centre_share: float = Real(0, 1, open_low=True, open_high=True).key(
        0.1, 'centre = "private" or "refined": share of the privacy target that is spent on the mean'
    )
    norm: str = Choice(("clip", "unit", AUTO)).key(
        "clip",
        "all encoders but scale: shorten inputs beyond clip_norm, or scale every input to it; auto: the latter, or for "
        "fewer than 8 inputs shorten them beyond half of it",
    )
    clip_norm: float = Real(1e-9, 1e6).key(1.0, "all encoders but scale: largest Euclidean norm of an encoded input")
    constant: float = SHARE.key(0.0, "all encoders but scale: amplitude share of an appended constant (for means)")
    sends: str = Named(registries.PAYLOADS).key(
        "samples",
        "the encoded input and its label; their products: second moments and moments with the label; or gradients of a "
        "model that the server broadcasts before each slot",
    )
    label_code: str = Choice(("one-hot", "centred", AUTO)).key(
        "one-hot",
        "moments of classes: a class as one-hot vector, or less the mean of all classes, which takes less noise; "
        "auto: the latter where it can be",
    )
    label_weight: float = Real(1e-6, 1).key(1.0, "amplitude of the label's symbols relative to the input's")
    bits: int = Whole(0, 16).key(0, "bits per symbol before sending (0: analog); a private mean is not rounded")
    bits_range: float = Real(0, 1e3).key(0.0, "bits > 0: largest level in root mean squares of a symbol (0: by bits)")
    input_lower: tuple[float, ...] = Items(Real()).key((), "lower bound of each input (one for all; empty: the data's)")
    input_upper: tuple[float, ...] = Items(Real()).key((), "declared upper bound of each input, likewise")
    feature_columns: tuple[str, ...] = Items(Text()).key((), "CSV: input columns (empty: all but the label)")
    categories: tuple[tuple[str, tuple[str, ...]], ...] = Mapped(Items(Label(), least=1)).key(
        (), "CSV: input columns of categories and all values that count, known without the data: one 0 or 1 for each"
    )
    missing: str = Choice(("refuse", "fill", "indicator")).key(
        "refuse",
        "CSV: a missing number is refused, counts as the middle of its bounds, or does and a further input says so",
    )
    fill: tuple[tuple[str, float], ...] = Mapped(Real()).key(
        (), "CSV: what missing numbers of these columns count as, instead of the middle of their bounds"
    )
    decimal: str = Choice(("point", "comma")).key("point", "CSV: decimal mark of numbers")
    shape: tuple[int, ...] = Items(Whole(1, 10**9)).key(
        (),
        "an input as [height, width], [channels, height, width] or [channels, 1, time] (empty: as the data set says)",
    )
    classes: tuple[str, ...] = Items(Label()).key(
        (), "your own file: all classes, known without the data (empty: those found in it, for simulations alone)"
    )
    unknown_labels: str = Choice(("refuse", "absent")).key(
        "refuse",
        "a label that is not among the declared classes: refused before anything is sent, or its row sends zeros",
    )
    label_column: str = Text().key("label", "CSV: name of the column that holds the class")
    label_columns: tuple[str, ...] = Items(Text()).key((), "CSV, other tasks: the label columns (empty: label_column)")
    target_lower: tuple[float, ...] = Items(Real()).key((), "regression: lower bound of each target (one serves all)")
    target_upper: tuple[float, ...] = Items(Real()).key((), "regression: declared upper bound of each target")

    encoder_kind = Table.loaded("encoder")
    payload_kind = Table.loaded("sends")

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

    slots: int = Whole(1, 10**12).key(1000, "T, number of time slots, each yields one mixture")
    scheduled: int = Whole(0, 10**9).key(4, "|N_t|, workers that transmit at once in a slot (0: all of them)")
    schedule: str = Named(registries.SCHEDULES).key("fixed", "|N_t| workers per slot, or at random |N_t| on average")
    slot_seconds: float = Real(0, 1e6).key(
        1e-3,
        "tau, length of a slot (0: as long as its symbols need at 794 per ms, and energy is power x 1.26 us x their "
        "largest squared norm)",
    )
    link: str = Named(registries.LINKS).key(
        "analog",
        "how vectors get to the server: all workers at once, so that signals add up on the air; or packets of integers",
    )
    path_loss: str = Named(registries.PATH_LOSSES).key("power-law", "how channels weaken with the distance")
    path_loss_exponent: float = Real(0, 10).key(2.0, "n of the power law")
    unit_path_loss_db: float = DBM.key(-32.0, "beta_U of the power law, channel power gain at one metre")
    fading: str = Named(registries.FADINGS).key("none", "small-scale fading, new in each slot")
    rician_k: float = Real(0, off=math.inf).key(10.0, "K, power of the direct path over that of the scattered ones")
    noise_dbm: float = DBM.key(-114.0, "sigma_n^2, receiver noise power per complex symbol")
    max_power_dbm: float = DBM.key(23.0, "P_max, transmit power limit of each worker")
    max_participations: int = Whole(0, 10**12).key(0, "most slots in which one worker may send (0: no limit)")

    schedule_kind = Table.loaded("schedule")
    path_loss_kind = Table.loaded("path_loss")
    fading_kind = Table.loaded("fading")
    link_kind = Table.loaded("link")

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


@dataclass(frozen=True, kw_only=True)
class Link(Table):
    """Ordinary digital links between workers and access points, for ``radio.link = "digital"``."""

    rate_mbps: float = Real(0, 1e9, open_low=True).key(
        50.0, "digital: net rate of one access point in 10^6 bits per second, which its workers use one after the other"
    )
    access_points: int = Whole(1, 10**9).key(1, "digital: untrusted; each forwards its workers' sum modulo 2^b")
    packet_bytes: int = Whole(1, 10**9).key(1500, "digital: numbers that a packet carries, in bytes")
    header_bytes: int = Whole(0, 10**9).key(60, "digital: what is sent with each packet besides, in bytes")
    packet_error: float = SHARE.key(0.1, "digital: probability that a packet is not received when it is sent")
    tries: int = Whole(1, 10**4).key(8, "digital: most times a packet is sent; if none arrives, the worker is absent")
    power_dbm: float = DBM.key(20.0, "digital: transmit power of a worker while it sends")
    duty: float = Real(0, 1, open_low=True).key(1.0, "digital: share of a slot for which a worker may send, at most")
    backhaul_mbps: float = Real(0, 1e9, open_low=True).key(1000.0, "digital: access point to server, in 10^6 bit/s")
    bandwidth_hz: float = Real(0, 1e12, open_low=True).key(
        100e6, "digital: spectrum of all access points together, for comparisons; the rate does not follow from it"
    )


@dataclass(frozen=True, kw_only=True)
class Mixing(Table):
    """How much of each scheduled worker goes into a mixture, and with how much power."""

    policy: str = Named(registries.RATIOS).key("dirmix", "how the mixing ratios are drawn")
    alpha: float = Real(1e-12, 1e15).key(1e5, "dispersion of DirMix: small = one worker dominates, large = equal")
    prior: tuple[float, ...] = Items(Real(0)).key((), "p_t, shares of scheduled workers, summing to 1 (empty: equal)")
    assignment: str = Named(registries.ASSIGNMENTS).key("random", "which scheduled worker gets which ratio")
    power: str = Named(registries.POWER_POLICIES).key("dp", "beta by power limit, privacy target or power_scale_watts")
    power_scale_watts: float = Real(1e-60, 1e10).key(1e-13, 'beta for power = "fixed": received power of a mixture')
    ratios_kind = Table.loaded("policy")
    assignment_kind = Table.loaded("assignment")
    power_policy = Table.loaded("power")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior and abs(sum(self.prior) - 1.0) > 1e-9:
            raise ScenarioError(f"mixing.prior sums to {sum(self.prior):g}: must sum to 1; divide by that sum")


@dataclass(frozen=True, kw_only=True)
class Privacy(Table):
    """The privacy target, against whom, and by which bound."""

    epsilon: float = Real(0, 1e15, open_low=True).key(5.0, 'target epsilon (used by mixing.power = "dp")')
    delta: float = SHARE.key(0.01, "target delta (0: a tenth of 1 / N)")
    adversary: str = Named(registries.ADVERSARIES).key(
        "release",
        "an adversary with the mixtures but no schedule, the server itself, a receiver near the workers, or somebody "
        "who hears every worker separately and without noise",
    )
    accountant: str = Named(registries.ACCOUNTANTS).key(
        "paper-loose",
        "the bound: Corollary 1 / Proposition 2, Proposition 1, two of other accountants, or exact for the server",
    )
    adjacency: str = Choice(("replace-one", "remove-one")).key("replace-one", "another sample, or no such worker")
    sensitivity: str = Choice(("paper", "encoder")).key("paper", "squared: d_X + d_Y, or what the encoder declares")
    colluders: int = Whole(0, 10**9).key(0, "workers that tell the adversary their samples and slots")
    noise: str = Named(registries.NOISES).key(
        "receiver",
        "what hides a worker: the receiver's noise, the workers' own, or that and masks that cancel in the sum",
    )
    arithmetic: str = Choice(("real", "integers")).key(
        "real",
        "workers' own noise: Gaussian, on real numbers; or Skellam, on integers whose masks and sums are taken modulo "
        "a power of two",
    )
    modulus_bits: int = Whole(0, 62).key(
        0, "integers: b of sums modulo 2^b (0: so that rounding adds below 1 % of noise)"
    )
    sum_range: float = Real(0, 1e6).key(
        0.0,
        "integers: largest number of a sum that must not wrap around, in units of the root mean square of a sum of "
        "equal vectors (0: none wraps around, whatever the data)",
    )
    above_thermal_db: float = Real(-100, 200).key(
        0.0,
        "workers' own noise: its power in the sum of a slot over that of the receiver's noise (0: so much that the "
        "farthest worker sends 10 dB below its limit; without masks, against server or release, 20)",
    )
    mask_degree: int = Whole(0, 10**6).key(0, "masked: masks per worker, even (0: what colluders and absent need)")
    mask_share: float = Real(1e-9, 1, open_high=True, off=0.0).key(
        0.0,
        "masked: share of the privacy loss that is due to masks; more of it takes less power, and leaves less noise "
        "where gains err (0: by the air's gain errors)",
    )
    most_absent: float = SHARE.key(0.0, "masked: share of workers that may be absent; masks are recovered (0: none)")
    eavesdropper_noise_dbm: float = DBM.key(-114.0, "noise power at each of the eavesdropper's antennas")
    eavesdropper_distance_metres: float = Real(1e-3, 1e6).key(10.0, "distance from the worker farthest from the server")
    eavesdropper_antennas: int = Whole(1, 10**6).key(1, "antennas that the eavesdropper combines coherently")

    adversary_kind = Table.loaded("adversary")

    @property
    def noise_kind(self) -> Any:
        """What hides a worker: what ``noise`` names, on these numbers."""
        kind = registries.NOISES.load(self.noise)
        return kind if self.arithmetic == "real" else kind.on_integers(self)


@dataclass(frozen=True, kw_only=True)
class Learner(Table):
    """What the edge server trains on the mixtures."""

    model: str = Named(registries.LEARNERS, also=(AUTO,)).key(
        "mlp",
        "mlp: dense layers; cnn: convolutions, then dense layers; ridge, lda: linear, solved from streamed moments; "
        "auto: lda for classes, else ridge",
    )
    hidden_units: tuple[int, ...] = Items(Whole(1, 10**6)).key((32, 16), "sizes of the hidden dense layers")
    filters: tuple[int, ...] = Items(Whole(1, 10**5), least=1).key((32, 48), "cnn: filters per convolution (stride 1)")
    kernel_size: int = Whole(1, 1000).key(5, "cnn: side of each filter")
    pool_size: int = Whole(1, 1000).key(2, "cnn: side and stride of the max-pooling after each convolution")
    loss: str = Choice(("cross-entropy", "squared", "brier")).key(
        "cross-entropy",
        "networks: cross-entropy, or squared distance of the scores, or of the probabilities, to the received labels",
    )
    shrinkage: float = Real(0, 1e6).key(1.0, "ridge, lda: assumed noise level, as a multiple of the known one")
    rounds: int = Whole(0, 10**5, auto=True).key(
        0,
        "slots after the moments in which workers send gradients of the model that the server broadcast (0: none; "
        "auto: as many as suit the data)",
    )
    rounds_share: float = SHARE.key(0.0, "rounds: their share of mu^2, the moments have the rest (0: 0.9, targets 0.5)")
    gradient_clip: float = Real(1e-6, 1e3).key(
        0.2,
        "rounds: norm that gradients are shortened to, in units of workers.clip_norm (times sqrt(labels) for several)",
    )
    temperature: float = Real(0, 1e6).key(
        0.0, "rounds: what the scores solved from the moments are multiplied with first (0: 4, or at most 0.5 for lda)"
    )
    rounds_step: float = Real(0, 1e9).key(
        0.0,
        "rounds: how far all steps together can move the model (0: min(24 d^(1/4), 10 R), or 8 gradient_clip for "
        "targets)",
    )
    descent: str = Named(registries.DESCENTS).key("preconditioned", "rounds: steps by the inverse moments, or by Adam")
    epochs: int = Whole(1, 10**7).key(500, "passes over all mixtures")
    batch_size: int = Whole(1, 10**8).key(32, "mixtures per training step")
    learning_rate: float = Real(0, 1e3, open_low=True).key(1e-3, "Adam's step size")
    adam_beta1: float = SHARE.key(0.9, "Adam's decay of the gradient's mean")
    adam_beta2: float = SHARE.key(0.999, "Adam's decay of the gradient's square")

    model_kind = Table.loaded("model")
    descent_kind = Table.loaded("descent")

    @property
    def closed_form(self) -> bool:
        """Whether it is solved from moments that are added up while slots arrive, not trained on all mixtures."""
        return self.model == AUTO or bool(self.model_kind.closed_form)

    @property
    def in_words(self) -> str:
        """What is learnt, and how."""
        if not self.closed_form:
            return f"{self.model}, {self.epochs:,} epochs"
        return f"{self.model}, " + (f"then {self.rounds:,} rounds of gradients" if self.rounds else "closed form")


TABLES: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Workers, Radio, Link, Air, Mixing, Privacy, Learner)
}
