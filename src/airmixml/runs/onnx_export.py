"""The model of a run as one ONNX graph: raw rows in, labels and probabilities, or targets, out.

What a worker does to its row is part of it: scaling before the encoder, centre, norm and constant after it.
"""

import copy
import io
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from airmixml.arrays import Doubles, Singles
from airmixml.data import Bounded, RowFormat
from airmixml.data.dataset import as_stored
from airmixml.edge import predicted
from airmixml.files import write_bytes, writing_to
from airmixml.messages import PluginError, RunFolderError, reason
from airmixml.runs.classifier import RunModel, load_model
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.encoder import GraphPart, encoder_of
from airmixml.workers.encoders.onnx_file import import_onnx
from airmixml.workers.encoding import ROUNDING_MARGIN, RowEncoder, public_means

_SHORTEST: Final = 1e-30

OnBatch = Callable[[torch.Tensor], torch.Tensor]
_OPSET: Final = 17
_ROWS, _LABEL, _PROBABILITIES, _TARGETS = "rows", "label", "probabilities", "targets"
_TRIED_ROWS: Final = 32
_MOST_APART: Final = 1e-3


class Steps(nn.Module):
    """Functions of a batch, one after the other, as one module that can be exported."""

    def __init__(self, *steps: OnBatch) -> None:
        super().__init__()
        self._steps = steps

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        for step in self._steps:
            batch = step(batch)
        return batch


def scaling(rows: RowFormat, shape: tuple[int, ...]) -> Steps:
    """Return what scales raw rows to [0, 1] in float64, as ``scale_to_unit`` does, and gives them a shape."""
    steps: list[OnBatch] = []
    if rows.lower is not None and rows.upper is not None:
        lower, upper = map(torch.from_numpy, as_stored(np.dtype(np.float32), rows.lower, rows.upper))

        def scale(batch: torch.Tensor) -> torch.Tensor:
            inside = torch.minimum(torch.maximum(batch.double(), lower), upper)
            return ((inside - lower) / (upper - lower)).float()

        steps.append(scale)
    if shape:
        steps.append(lambda batch: batch.reshape(-1, *shape))
    return Steps(*steps)


def _centre(mean: Singles | None, *, own: bool = False) -> OnBatch:
    """Less a mean, or less its own mean, or as it is."""
    if mean is None:
        return lambda batch: batch - batch.mean(dim=1, keepdim=True) if own else batch
    known = torch.from_numpy(mean)
    return lambda batch: batch - known


def _bound_norm(workers: Workers) -> OnBatch:
    """Do what ``bound_norms`` does."""
    norm = workers.clip_norm * ROUNDING_MARGIN
    least = _SHORTEST if workers.norm == "unit" else norm
    return lambda batch: batch * (norm / batch.square().sum(dim=1, keepdim=True).sqrt().clamp(min=least))


def _append_constant(workers: Workers) -> OnBatch:
    share, last = float(np.sqrt(1.0 - workers.constant**2)), workers.constant * workers.clip_norm * ROUNDING_MARGIN
    return lambda batch: torch.cat([batch * share, torch.full_like(batch[:, :1], last)], dim=1)


def encoder_part(rows: RowEncoder) -> GraphPart:
    """Return the part that computes the encoder's features, or say that there is none."""
    workers, shape = rows.workers, rows.row_format.image_shape
    generator = Streams(rows.seed).generator("encoder")
    part = encoder_of(workers).graph(workers, rows.row_format.width, shape, generator)
    if part is None:
        raise _no_graph(workers, "graph")
    if isinstance(part, GraphPart):
        return part
    return GraphPart(part if isinstance(part, nn.Module) else Steps(part), ())


def after_encoder(rows: RowEncoder) -> Steps:
    """Return what is done to the encoder's features: centre, mixing, norm and constant."""
    workers, encoder, streams = rows.workers, encoder_of(rows.workers), Streams(rows.seed)
    steps: list[OnBatch] = [lambda batch: batch.flatten(1)]
    if not encoder.bounds_norm:
        return Steps(*steps)
    unseen = np.zeros((1, rows.row_format.width), dtype=np.float32)
    first, second = public_means(workers, unseen, rows.row_format.image_shape, streams)
    mixing = None
    if encoder.after_centring(workers, streams.generator("encoder")) is not None:
        mixing = encoder.graph_after_centring(workers, rows.row_format.width, streams.generator("encoder"))
        if mixing is None:
            raise _no_graph(workers, "graph_after_centring")
    mixed, bound = [] if mixing is None else [mixing], _bound_norm(workers)
    if workers.centre == "refined":  # of rows less a public mean that were only shortened; they are mixed afterwards
        shorten = _bound_norm(replace(workers, norm="clip"))
        steps += [_centre(first if mixed else second), shorten, _centre(rows.private_mean), *mixed, bound]
    else:
        if mixed:
            steps += [_centre(first, own=workers.centre in ("own", "private")), *mixed]
        steps += [_centre(second, own=workers.centre == "own"), bound]
        if rows.private_mean is not None:
            steps += [_centre(rows.private_mean), bound]
    return Steps(*steps, *([_append_constant(workers)] if workers.constant else []))


def _no_graph(workers: Workers, method: str) -> PluginError:
    return PluginError(
        f'workers.encoder = "{workers.encoder}": cannot be exported, since it has no {method}; see docs/extending.md'
    )


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """What was written: it takes ``rows`` (float32, N x inputs), gives ``label``, ``probabilities`` or ``targets``."""

    path: str
    bytes: int
    inputs: int
    outputs: tuple[str, ...]
    label_type: str  # "int64" or "string"; empty for a regression, which has no labels
    opset: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "outputs": list(self.outputs)}


def export_onnx(run: Path | str | RunModel, path: Path | str) -> ExportedModel:
    """Write the model of a finished run folder (or one that ``load_model`` gave) as one ONNX file.

    The graph scales, encodes and classifies raw rows; what it computes is compared with the model before it is
    written.
    """
    onnx, onnxruntime = import_onnx("export to ONNX")
    model = run if isinstance(run, RunModel) else load_model(run)
    path, rows, width = Path(path), model.encoder_, model.encoder_.row_format.width
    encoder, network = encoder_part(rows), copy.deepcopy(model.network_).float()
    decided = Steps(lambda scores: predicted(scores, model.link_, model.code_))
    scaled = scaling(rows.row_format, encoder.shape)
    from_rows = nn.Sequential(scaled, encoder.part, after_encoder(rows), network, decided)
    try:
        graph = _to_onnx(onnx, from_rows, width, _TARGETS if isinstance(model.code_, Bounded) else _PROBABILITIES)
        label_type = _add_labels(onnx, graph, model)
        onnx.checker.check_model(graph)
        content = graph.SerializeToString()
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as problem:  # torch, onnx and onnxruntime each raise types of their own
        raise RunFolderError(
            f"{model.folder}: cannot be exported ({type(problem).__name__}: {reason(problem)[:160]})"
        ) from problem
    _compare(session, model)
    with writing_to(path):
        write_bytes(path, content)
    return ExportedModel(
        path=str(path),
        bytes=len(content),
        inputs=width,
        outputs=model.output_names_,
        label_type=label_type,
        opset=_OPSET,
    )


def _to_onnx(onnx: Any, module: nn.Module, width: int, output: str) -> Any:
    """Return an ONNX model of the module, for batches of any size.

    By torch's older exporter: the newer one needs one package more (onnxscript).
    """
    content, batch = io.BytesIO(), {0: "N"}
    names: dict[str, Any] = {"input_names": [_ROWS], "output_names": [output]}
    options = {**names, "dynamo": False, "opset_version": _OPSET, "dynamic_axes": {_ROWS: batch, output: batch}}
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(module.eval(), (torch.zeros(2, width),), content, **options)  # type: ignore[arg-type]
    graph = onnx.load_from_string(content.getvalue())
    graph.producer_name = "airmixml"
    return graph


def _add_labels(onnx: Any, model: Any, run: RunModel) -> str:
    """Add the labels, as the first output, to a graph of probabilities, and return their type; of targets none."""
    graph, helper, kinds = model.graph, onnx.helper, onnx.TensorProto
    shape: list[str | int] = ["N"]
    if isinstance(run.code_, Bounded):
        return ""
    if run.code_ is None:
        classes = run.classes_
        whole = classes.dtype.kind == "i"
        kind, label_type = (kinds.INT64, "int64") if whole else (kinds.STRING, "string")
        names = classes.tolist() if whole else [str(name).encode("utf-8") for name in classes]
        graph.initializer.append(helper.make_tensor("classes", kind, [len(classes)], names))
        graph.node.append(helper.make_node("ArgMax", [_PROBABILITIES], ["place"], axis=1, keepdims=0))
        graph.node.append(helper.make_node("Gather", ["classes", "place"], [_LABEL]))
    else:
        kind, label_type = kinds.INT64, "int64"
        shape.append(len(run.output_names_))
        graph.initializer.append(helper.make_tensor("half", kinds.FLOAT, [], [0.5]))
        graph.node.append(helper.make_node("Greater", [_PROBABILITIES, "half"], ["holds"]))
        graph.node.append(helper.make_node("Cast", ["holds"], [_LABEL], to=kinds.INT64))
    graph.output.insert(0, helper.make_tensor_value_info(_LABEL, kind, shape))
    return label_type


def _compare(session: Any, model: RunModel) -> None:
    """Refuse a graph that computes something else than the model."""
    rows = model.encoder_.row_format
    inputs: Doubles = np.random.default_rng(0).random((_TRIED_ROWS, rows.width))
    if rows.lower is not None and rows.upper is not None:
        inputs = rows.lower + inputs * (rows.upper - rows.lower)
    singles = inputs.astype(np.float32)
    found, expected = session.run(None, {_ROWS: singles})[-1], model.outputs_of(singles)
    apart = float(np.abs(found - expected).max()) / max(1.0, float(np.abs(expected).max()))
    if not apart <= _MOST_APART:
        raise PluginError(
            f"{model.folder}: the exported graph is {apart:.2g} off the model on random rows; correct the graph of "
            f'workers.encoder = "{model.scenario_.workers.encoder}"'
        )
