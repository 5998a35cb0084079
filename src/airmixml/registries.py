"""Registries: every kind of thing that can be added to the package, and where each one of that kind lives.

To add one, write its file and name it here. Another package needs no change here: it declares an entry point in the
group of the kind.
"""

from collections.abc import Callable
from functools import wraps
from traceback import walk_tb
from typing import Any, Final, ParamSpec, TypeVar

from airmixml.errors import PluginError, private
from airmixml.registry import NOT_HERE, Registry
from airmixml.wording import reason, shown

__all__ = [
    "ACCOUNTANTS",
    "ADVERSARIES",
    "ASSIGNMENTS",
    "ATTACKS",
    "DATASETS",
    "DESCENTS",
    "ENCODERS",
    "FADINGS",
    "IMPAIRMENTS",
    "LEARNERS",
    "LINKS",
    "METHODS",
    "NOISES",
    "NOT_HERE",
    "PATH_LOSSES",
    "PAYLOADS",
    "POWER_POLICIES",
    "RATIOS",
    "REGISTRIES",
    "SCHEDULES",
    "Registry",
    "add_given",
    "names_objects",
]

_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")

ENCODERS: Final = Registry(
    "encoder",
    "airmixml.encoders",
    "workers.encoder",
    base="airmixml.workers.Encoder",
    needs=(
        *("about", "feature_count", "features", "cost", "after_centring"),
        *("bounds_norm", "keeps_inputs", "never_negative", "needs_images", "takes_features"),
    ),
    places={
        "scale": "airmixml.workers.encoders.inputs:SCALE",
        "clip": "airmixml.workers.encoders.inputs:CLIP",
        "dct": "airmixml.workers.encoders.linear:DCT",
        "projection": "airmixml.workers.encoders.linear:PROJECTION",
        "convolution": "airmixml.workers.encoders.images:CONVOLUTION",
        "gradients": "airmixml.workers.encoders.images:GRADIENTS",
        "cells": "airmixml.workers.encoders.images:CELLS",
        "windows": "airmixml.workers.encoders.windows:WINDOWS",
        "embeddings": "airmixml.workers.encoders.inputs:EMBEDDINGS",
        "mixed": "airmixml.workers.encoders.random_features:MIXED",
    },
    objects=True,
    files={
        "onnx": "airmixml.workers.encoders.onnx_file:OnnxFile",
        "torchscript": "airmixml.workers.encoders.torch_network:TorchScriptFile",
    },
    wraps={"torch.nn.modules.module.Module": "airmixml.workers.encoders.torch_network:TorchEncoder"},
)
"""What a worker computes of its input."""

DATASETS: Final = Registry(
    "data set",
    "airmixml.datasets",
    "workers.dataset",
    base="airmixml.data.KnownDataSet",
    needs=(
        *("name", "about", "train_samples", "test_samples", "input_dim", "label_dim", "image_shape"),
        *("lower", "upper", "scaled_mean", "scaled_deviation", "load"),
    ),
    places={
        "iris": "airmixml.data.embedded:IRIS",
        "digits": "airmixml.data.embedded:DIGITS",
        "mnist": "airmixml.data.mnist:MNIST",
        "fashion-mnist": "airmixml.data.mnist:FASHION_MNIST",
        "breast-cancer": "airmixml.data.embedded:BREAST_CANCER",
        "wine": "airmixml.data.embedded:WINE",
        "diabetes": "airmixml.data.embedded:DIABETES",
    },
    objects=True,
)
"""Where samples come from."""

ACCOUNTANTS: Final = Registry(
    "accountant",
    "airmixml.accountants",
    "privacy.accountant",
    base="airmixml.privacy.Accountant",
    needs=("about", "refusal", "epsilon", "quick_epsilon", "power_factor", "considers_all_views", "closed_form"),
    places={
        "paper-loose": "airmixml.privacy.paper_bounds:PaperLoose",
        "paper-tight": "airmixml.privacy.paper_bounds:PaperTight",
        "rdp": "airmixml.privacy.renyi:RdpAccountant",
        "pld": "airmixml.privacy.loss_distribution:PldAccountant",
        "gdp": "airmixml.privacy.gaussian:Gdp",
    },
)
"""What turns slots into an epsilon."""

ADVERSARIES: Final = Registry(
    "adversary",
    "airmixml.adversaries",
    "privacy.adversary",
    base="airmixml.privacy.Adversary",
    needs=("about", "of", "mechanism", "views", "noise_watts", "knows_schedule", "own_receiver"),
    made_by="of",
    places={
        "release": "airmixml.privacy.adversaries:Release",
        "server": "airmixml.privacy.adversaries:Server",
        "eavesdropper": "airmixml.privacy.adversaries:Eavesdropper",
        "everyone": "airmixml.privacy.adversaries:Everyone",
    },
)
"""Whom a target can be against."""

LEARNERS: Final = Registry(
    "learner",
    "airmixml.learners",
    "learner.model",
    base="airmixml.edge.LearnerModel",
    needs=("about", "closed_form", "build"),
    places={
        "mlp": "airmixml.edge.learners:Mlp",
        "cnn": "airmixml.edge.learners:Cnn",
        "ridge": "airmixml.edge.learners:Ridge",
        "lda": "airmixml.edge.learners:Lda",
    },
)
"""What the server trains."""

ATTACKS: Final = Registry(
    "attack",
    "airmixml.attacks",
    "--attacks",
    base="airmixml.attacks.Attack",
    needs=("about", "adversary", "findings", "refusal", "run"),
    places={
        "least-squares": "airmixml.attacks.server_attacks:LEAST_SQUARES",
        "non-negative": "airmixml.attacks.server_attacks:NON_NEGATIVE",
        "prior": "airmixml.attacks.server_attacks:PRIOR",
        "release": "airmixml.attacks.listener_attacks:RELEASE",
        "eavesdropper": "airmixml.attacks.listener_attacks:EAVESDROPPER",
        "everyone": "airmixml.attacks.isolating_listener:EVERYONE",
        "informed-server": "airmixml.attacks.informed:SERVER",
        "informed-release": "airmixml.attacks.informed:RELEASE",
        "informed-eavesdropper": "airmixml.attacks.informed:EAVESDROPPER",
        "informed-everyone": "airmixml.attacks.informed:EVERYONE",
        "inversion": "airmixml.attacks.inversion:SERVER",
        "inversion-everyone": "airmixml.attacks.inversion:EVERYONE",
    },
    objects=True,
)
"""What tries to learn about people."""

METHODS: Final = Registry(
    "method",
    "airmixml.methods",
    "--methods",
    base="airmixml.compare.Method",
    needs=("about", "run", "missing", "skipped"),
    places={
        "airmix": "airmixml.compare.ours:AIRMIX",
        "airmix-rounds": "airmixml.compare.ours:AIRMIX_ROUNDS",
        "masked": "airmixml.compare.ours:MASKED",
        "masked-rounds": "airmixml.compare.ours:MASKED_ROUNDS",
        "unmasked": "airmixml.compare.ours:UNMASKED",
        "digital": "airmixml.compare.ours:DIGITAL",
        "digital-rounds": "airmixml.compare.ours:DIGITAL_ROUNDS",
        "workers-noise": "airmixml.compare.ours:WORKERS_NOISE",
        "mixup-features": "airmixml.compare.ours:MIXUP_FEATURES",
        "paper": "airmixml.compare.ours:PAPER",
        "federated": "airmixml.compare.ours:FEDERATED",
        "federated-50": "airmixml.compare.ours:FEDERATED_50",
        "federated-masked": "airmixml.compare.ours:FEDERATED_MASKED",
        "dp-sgd": "airmixml.compare.baselines.central:DP_SGD",
        "dp-logistic": "airmixml.compare.baselines.central:DP_LOGISTIC",
        "adassp": "airmixml.compare.baselines.central:ADASSP",
        "local-dp": "airmixml.compare.baselines.local_dp:LOCAL_DP",
        "logistic": "airmixml.compare.baselines.central:LOGISTIC",
        "raw": "airmixml.compare.baselines.separate:RAW",
    },
    objects=True,
)
"""What a scenario is compared with."""

IMPAIRMENTS: Final = Registry(
    "impairment",
    "airmixml.impairments",
    "air.also",
    base="airmixml.impairments.gains.Impairment",
    needs=("about", "of", "gains", "largest_power_gain", "follows_worker"),
    made_by="of",
    places={
        "phase-error": "airmixml.impairments.phases:PhaseError",
        "frequency-offset": "airmixml.impairments.phases:FrequencyOffset",
        "phase-noise": "airmixml.impairments.phases:PhaseNoise",
        "amplitude-error": "airmixml.impairments.phases:AmplitudeError",
        "estimation-error": "airmixml.impairments.estimation:EstimationError",
        "reciprocity-error": "airmixml.impairments.estimation:ReciprocityError",
        "doppler": "airmixml.impairments.doppler:Doppler",
        "late-workers": "airmixml.impairments.presence:LateWorkers",
        "timing-slope": "airmixml.impairments.timing:TimingSlope",
        "silent-fades": "airmixml.impairments.renewal:SilentFades",
    },
)
"""What an air does to a signal."""

PAYLOADS: Final = Registry(
    "payload",
    "airmixml.payloads",
    "workers.sends",
    base="airmixml.workers.payloads.Payload",
    needs=("about", "moments", "tabled", "layout", "largest_squared_norm", "largest_squared_distance", "vectors"),
    made_by="__call__",
    places={
        "samples": "airmixml.workers.payloads:Samples",
        "moments": "airmixml.workers.moments:Moments",
        "gradients": "airmixml.workers.gradients:Gradients",
    },
)
"""What a worker sends of its features and its label."""

DESCENTS: Final = Registry(
    "descent",
    "airmixml.descents",
    "learner.descent",
    base="airmixml.edge.descents.Stepping",
    needs=("about", "needs_moments", "broadcast", "receive"),
    made_by="__call__",
    places={
        "preconditioned": "airmixml.edge.descents:Preconditioned",
        "adam": "airmixml.edge.descents:AdamDescent",
    },
)
"""What a server broadcasts next, given what it received in a round."""

NOISES: Final = Registry(
    "noise",
    "airmixml.noises",
    "privacy.noise",
    base="airmixml.radio.noise.Noise",
    needs=("about", "brought", "masked", "real", "check", "receiver_watts", "in_sum_watts", "facts", "receive"),
    places={
        "receiver": "airmixml.radio.noise:RECEIVER",
        "workers": "airmixml.radio.workers_noise:OWN",
        "masked": "airmixml.radio.workers_noise:MASKED",
    },
    objects=True,
)
"""What hides a worker."""

POWER_POLICIES: Final = Registry(
    "power policy",
    "airmixml.power_policies",
    "mixing.power",
    base="airmixml.radio.power.PowerPolicy",
    needs=("about", "keeps_target", "follows_channels", "received_watts", "largest_received_watts", "power_scale"),
    places={
        "max": "airmixml.radio.power:LARGEST",
        "dp": "airmixml.radio.power:PRIVATE",
        "fixed": "airmixml.radio.power:FIXED",
    },
    objects=True,
)
"""How strongly slots are received."""

LINKS: Final = Registry(
    "link",
    "airmixml.links",
    "radio.link",
    base="airmixml.radio.analog_link.AnalogLink",
    needs=("about", "on_air", "meets", "check", "slot_seconds", "joules_per_watt", "lost_share", "sent", "to_dict"),
    places={
        "analog": "airmixml.radio.analog_link:ANALOG",
        "digital": "airmixml.radio.digital_link:DIGITAL",
    },
    objects=True,
)
"""How vectors get to the server."""

FADINGS: Final = Registry(
    "fading",
    "airmixml.fadings",
    "radio.fading",
    base="airmixml.impairments.fading.Fading",
    needs=("about", "quantile", "rician_k", "draw", "share_below"),
    places={
        "none": "airmixml.impairments.fading:NONE",
        "rayleigh": "airmixml.impairments.fading:RAYLEIGH",
        "rician": "airmixml.impairments.fading:RICIAN",
    },
    objects=True,
)
"""How channels differ from their mean."""

RATIOS: Final = Registry(
    "mixing policy",
    "airmixml.ratios",
    "mixing.policy",
    base="airmixml.radio.ratios.Ratios",
    needs=("about", "exchangeable", "shares", "draw"),
    places={
        "dirmix": "airmixml.radio.ratios:DIRMIX",
        "nonmix": "airmixml.radio.ratios:NONMIX",
        "equalmix": "airmixml.radio.ratios:EQUALMIX",
    },
    objects=True,
)
"""How the mixing ratios are drawn."""

ASSIGNMENTS: Final = Registry(
    "assignment",
    "airmixml.assignments",
    "mixing.assignment",
    base="airmixml.radio.ratios.Assignment",
    needs=("about", "follows_channels", "assign", "facts", "deal"),
    places={
        "random": "airmixml.radio.ratios:RANDOM",
        "max-min": "airmixml.radio.ratios:MAX_MIN",
    },
    objects=True,
)
"""Which worker of a slot gets which ratio."""

SCHEDULES: Final = Registry(
    "schedule",
    "airmixml.schedules",
    "radio.schedule",
    base="airmixml.radio.schedules.Schedule",
    needs=(
        *("about", "sampling", "by_coin", "uniform", "pick", "most_participations", "check", "facts", "seats"),
        *("seats_with_gains", "draw", "shares", "largest_shares", "varying_share"),
    ),
    places={
        "fixed": "airmixml.radio.schedules:FIXED",
        "poisson": "airmixml.radio.schedules:POISSON",
    },
    objects=True,
)
"""Who sends when."""

PATH_LOSSES: Final = Registry(
    "path loss",
    "airmixml.path_losses",
    "radio.path_loss",
    base="airmixml.radio.path_loss.PathLoss",
    needs=("about", "loss_db", "gain"),
    places={"power-law": "airmixml.radio.path_loss:POWER_LAW"},
    objects=True,
)
"""How channels weaken with the distance."""

REGISTRIES: Final = (
    *(ENCODERS, DATASETS, ACCOUNTANTS, ADVERSARIES, LEARNERS, DESCENTS, ATTACKS, METHODS),
    *(IMPAIRMENTS, PAYLOADS, NOISES, POWER_POLICIES, LINKS, FADINGS, PATH_LOSSES, SCHEDULES, RATIOS, ASSIGNMENTS),
)
"""All of them."""


def add_given(thing: Any) -> None:
    """Make an object that was given in Python known here, in every registry that it fits."""
    fitting = [registry for registry in REGISTRIES if registry.fits(thing)]
    if not fitting:
        kinds = ", ".join(registry.kind for registry in REGISTRIES)
        raise PluginError(
            f"objects = {shown(thing)}: has not all that one of these must have: {kinds}; see docs/extending.md"
        )
    for registry in fitting:
        registry.add(thing)


def names_objects(call: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Say in one line which object of a user failed where it was given, or made, something of a wrong type."""

    @wraps(call)
    def guarded(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return call(*args, **kwargs)
        except (TypeError, AttributeError) as problem:
            if not (found := _failed(problem)):
                raise
            why = private(f" ({reason(problem)})")
            raise PluginError(f"{found} fails{why}; correct it, or its values") from problem

    return guarded


def _failed(problem: Exception) -> str:
    """Return the key, class and method of the user's object in whose code it happened; empty: in none."""
    kinds = {
        thing if isinstance(thing, type) else type(thing): registry.key
        for registry in REGISTRIES
        for name, thing in registry.loaded.items()
        if name not in registry.places
    }
    found = ""
    for frame, _ in walk_tb(problem.__traceback__):
        kind = type(frame.f_locals.get("self"))
        if kind in kinds and not frame.f_globals.get("__name__", "").startswith("airmixml."):
            found = f"{kinds[kind]} = {kind.__name__}: its {frame.f_code.co_name}"
    return found
