"""Registries: every kind of thing that can be added to the package, and where each one of that kind lives.

To add one, write its file and name it here. Another package needs no change here: it declares an entry point in the
group of the kind.
"""

from typing import Final

from airmixml.registry import Registry, places_in

ENCODERS: Final = Registry(
    "encoder",
    "airmixml.encoders",
    "workers.encoder",
    base="airmixml.workers.Encoder",
    needs=(
        *("about", "feature_count", "features", "cost", "after_centring"),
        *("bounds_norm", "keeps_inputs", "never_negative", "needs_images", "takes_features"),
    ),
    places=places_in(
        "airmixml.workers",
        "encoder: scale clip",
        "encoders.images: dct=Cosines",
        "encoders.random_features: projection=Projection",
        "encoders.images: convolution=Convolution gradients=Gradients cells=Cells",
        "encoders.random_features: windows=Windows",
        "encoder: embeddings",
        "encoders.random_features: mixed=Mixed",
    ),
    files={"onnx": "airmixml.workers.encoders.onnx_file:OnnxFile"},
    wraps={"torch.nn.modules.module.Module": "airmixml.workers.encoders.torch_module:TorchEncoder"},
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
    places=places_in(
        "airmixml.data", "embedded: iris digits", "mnist: mnist fashion-mnist", "embedded: breast-cancer wine diabetes"
    ),
)
"""Where samples come from."""

ACCOUNTANTS: Final = Registry(
    "accountant",
    "airmixml.accountants",
    "privacy.accountant",
    base="airmixml.privacy.Accountant",
    needs=("about", "refusal", "epsilon", "quick_epsilon", "power_factor", "considers_all_views"),
    places=places_in(
        "airmixml.privacy",
        "paper_bounds: paper-loose=PaperLoose paper-tight=PaperTight rdp=RdpAccountant",
        "loss_distribution: pld=PldAccountant",
        "gaussian: gdp=Gdp",
    ),
    objects=False,
)
"""What turns slots into an epsilon."""

ADVERSARIES: Final = Registry(
    "adversary",
    "airmixml.adversaries",
    "privacy.adversary",
    base="airmixml.privacy.Adversary",
    needs=("about", "of", "mechanism", "views", "noise_watts", "knows_schedule", "own_receiver"),
    made_by="of",
    places=places_in(
        "airmixml.privacy", "adversaries: release=Release server=Server eavesdropper=Eavesdropper everyone=Everyone"
    ),
)
"""Whom a target can be against."""

LEARNERS: Final = Registry(
    "learner",
    "airmixml.learners",
    "learner.model",
    base="airmixml.edge.LearnerModel",
    needs=("about", "closed_form", "build"),
    places=places_in("airmixml.edge", "learners: mlp=Mlp cnn=Cnn ridge=Ridge lda=Lda"),
    objects=False,
)
"""What the server trains."""

ATTACKS: Final = Registry(
    "attack",
    "airmixml.attacks",
    "--attacks",
    base="airmixml.attacks.Attack",
    needs=("about", "adversary", "findings", "refusal", "run"),
    places=places_in(
        "airmixml.attacks",
        "server_attacks: least-squares non-negative prior",
        "listener_attacks: release eavesdropper",
        "isolating_listener: everyone",
        "informed: informed-server=SERVER informed-release=RELEASE informed-eavesdropper=EAVESDROPPER",
        "informed: informed-everyone=EVERYONE",
        "inversion: inversion=SERVER inversion-everyone=EVERYONE",
    ),
)
"""What tries to learn about people."""

METHODS: Final = Registry(
    "method",
    "airmixml.methods",
    "--methods",
    base="airmixml.compare.Method",
    needs=("about", "run", "missing", "skipped"),
    places=places_in(
        "airmixml.compare",
        "ours: airmix airmix-rounds masked masked-rounds unmasked digital digital-rounds workers-noise",
        "ours: mixup-features paper federated federated-50 federated-masked",
        "baselines.central: dp-sgd dp-logistic adassp",
        "baselines.without_mixing: local-dp",
        "baselines.central: logistic",
        "baselines.without_mixing: raw",
    ),
)
"""What a scenario is compared with."""

IMPAIRMENTS: Final = Registry(
    "impairment",
    "airmixml.impairments",
    "air.also",
    base="airmixml.impairments.gains.Impairment",
    needs=("about", "of", "gains", "largest_power_gain", "follows_worker"),
    made_by="of",
    places=places_in(
        "airmixml.impairments",
        "gain_errors: phase-error=PhaseError frequency-offset=FrequencyOffset phase-noise=PhaseNoise",
        "gain_errors: amplitude-error=AmplitudeError estimation-error=EstimationError",
        "gain_errors: reciprocity-error=ReciprocityError doppler=Doppler",
        "gain_errors: late-workers=LateWorkers",
        "timing: timing-slope=TimingSlope",
        "renewal: silent-fades=SilentFades",
    ),
)
"""What an air does to a signal."""

PAYLOADS: Final = Registry(
    "payload",
    "airmixml.payloads",
    "workers.sends",
    base="airmixml.workers.signal.Payload",
    needs=(
        *("about", "moments", "products", "tabled", "layout"),
        *("largest_squared_norm", "largest_squared_distance", "vectors"),
    ),
    made_by="__call__",
    places=places_in(
        "airmixml.workers", "payloads: samples=Samples", "moments: moments=Moments", "gradients: gradients=Gradients"
    ),
)
"""What a worker sends of its features and its label."""

DESCENTS: Final = Registry(
    "descent",
    "airmixml.descents",
    "learner.descent",
    base="airmixml.edge.descents.Stepping",
    needs=("about", "needs_moments", "broadcast", "receive"),
    made_by="__call__",
    places=places_in("airmixml.edge", "descents: preconditioned=Preconditioned adam=AdamDescent"),
)
"""What a server broadcasts next, given what it received in a round."""

NOISES: Final = Registry(
    "noise",
    "airmixml.noises",
    "privacy.noise",
    base="airmixml.radio.air.Noise",
    needs=("about", "brought", "masked", "real", "check", "receiver_watts", "in_sum_watts", "facts", "receive"),
    places=places_in("airmixml.radio", "air: receiver=Noise", "workers_noise: workers=OwnNoise masked=MaskedNoise"),
)
"""What hides a worker."""

POWER_POLICIES: Final = Registry(
    "power policy",
    "airmixml.power_policies",
    "mixing.power",
    base="airmixml.radio.mixing.PowerPolicy",
    needs=("about", "keeps_target", "follows_channels", "received_watts", "largest_received_watts", "power_scale"),
    places=places_in("airmixml.radio", "mixing: max=LargestPower dp=PrivatePower fixed=FixedPower"),
)
"""How strongly slots are received."""

LINKS: Final = Registry(
    "link",
    "airmixml.links",
    "radio.link",
    base="airmixml.radio.links.AnalogLink",
    needs=("about", "on_air", "meets", "check", "slot_seconds", "joules_per_watt", "lost_share", "sent", "to_dict"),
    places=places_in("airmixml.radio", "links: analog=AnalogLink digital=DigitalLink"),
)
"""How vectors get to the server."""

FADINGS: Final = Registry(
    "fading",
    "airmixml.fadings",
    "radio.fading",
    base="airmixml.impairments.fading.Fading",
    needs=("about", "quantile", "rician_k", "draw", "share_below"),
    places=places_in("airmixml.impairments", "fading: none=NoFading rayleigh=RayleighFading rician=RicianFading"),
)
"""How channels differ from their mean."""

RATIOS: Final = Registry(
    "mixing policy",
    "airmixml.ratios",
    "mixing.policy",
    base="airmixml.radio.mixing.Ratios",
    needs=("about", "exchangeable", "shares", "draw"),
    places=places_in("airmixml.radio", "mixing: dirmix=DirMix nonmix=NonMix equalmix=EqualMix"),
)
"""How the mixing ratios are drawn."""

ASSIGNMENTS: Final = Registry(
    "assignment",
    "airmixml.assignments",
    "mixing.assignment",
    base="airmixml.radio.mixing.Assignment",
    needs=("about", "follows_channels", "assign", "facts", "deal"),
    places=places_in("airmixml.radio", "mixing: random=RandomOrder max-min=MaxMin"),
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
    places=places_in("airmixml.radio", "schedules: fixed=FixedSize poisson=Poisson"),
)
"""Who sends when."""

PATH_LOSSES: Final = Registry(
    "path loss",
    "airmixml.path_losses",
    "radio.path_loss",
    base="airmixml.impairments.fading.PathLoss",
    needs=("about", "loss_db", "gain"),
    places=places_in("airmixml.impairments", "fading: power-law=PowerLaw"),
)
"""How channels weaken with the distance."""

REGISTRIES: Final = (
    *(ENCODERS, DATASETS, ACCOUNTANTS, ADVERSARIES, LEARNERS, DESCENTS, ATTACKS, METHODS),
    *(IMPAIRMENTS, PAYLOADS, NOISES, POWER_POLICIES, LINKS, FADINGS, PATH_LOSSES, SCHEDULES, RATIOS, ASSIGNMENTS),
)
"""All of them."""
