"""The model of a run as one ONNX graph: raw rows in, labels and probabilities, or targets, out."""

import copy
import io
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from airmixml.arrays import Doubles
from airmixml.data import Bounded
from airmixml.edge import predicted
from airmixml.errors import PluginError, RunFolderError
from airmixml.runs.classifier import RunModel, load_model
from airmixml.storage.files import write_bytes, writing_to
from airmixml.wording import reason
from airmixml.workers.encoder import GraphPart
from airmixml.workers.encoders.onnx_file import import_onnx
from airmixml.workers.encoding_modules import after_encoder, encoder_part, scaling

_OPSET: Final = 17
_NEWEST_OPSET: Final = 20  # that torch writes
_ROWS, _LABEL, _PROBABILITIES, _TARGETS = "rows", "label", "probabilities", "targets"
_TRIED_ROWS: Final = 32
_MOST_APART: Final = 1e-3


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


class _Answer(nn.Module):
    """From features to probabilities or targets."""

    def __init__(self, encoding: nn.Module, model: RunModel) -> None:
        super().__init__()
        self.encoding, self.network = encoding, copy.deepcopy(model.network_).float()
        self._link, self._code = model.link_, model.code_

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return batch x outputs."""
        return predicted(self.network(self.encoding(features)), self._link, self._code)


def export_onnx(run: Path | str | RunModel, path: Path | str) -> ExportedModel:
    """Write the model of a finished run folder (or one that ``load_model`` gave) as one ONNX file.

    The graph scales, encodes and classifies raw rows; what it computes is compared with the model before it is
    written.
    """
    onnx, onnxruntime = import_onnx("export to ONNX")
    model = run if isinstance(run, RunModel) else load_model(run)
    rows, path = model.encoder_, Path(path)
    encoder = encoder_part(rows)
    opset = _OPSET if isinstance(encoder.part, nn.Module) else _opset(encoder.part)
    answer = _Answer(after_encoder(rows), model)
    try:
        parts = _parts(onnx, scaling(rows.row_format, encoder.shape), encoder, answer, rows.row_format.width, opset)
        whole = _joined(onnx, parts)
        label_type = _name_outputs(onnx, whole, model)
        onnx.checker.check_model(whole)
        content = whole.SerializeToString()
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except PluginError:
        raise
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
        inputs=rows.row_format.width,
        outputs=model.output_names_,
        label_type=label_type,
        opset=_opset(whole),
    )


def _parts(onnx: Any, scaling: nn.Module, encoder: GraphPart, answer: nn.Module, width: int, opset: int) -> list[Any]:
    """Return one ONNX model for what comes before the encoder, the encoder, and what comes after it."""
    ours = min(max(opset, _OPSET), _NEWEST_OPSET)
    example = torch.zeros(2, width)
    first = _to_onnx(onnx, scaling, example, ours)
    shaped = scaling(example)
    if isinstance(encoder.part, nn.Module):
        middle = _to_onnx(onnx, encoder.part, shaped, ours)
        with torch.no_grad():
            features = encoder.part(shaped)
    else:
        middle = encoder.part
        runtime = import_onnx("export to ONNX")[1]
        session = runtime.InferenceSession(middle.SerializeToString(), providers=["CPUExecutionProvider"])
        features = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: shaped.numpy()})[0])
    parts = [first, middle, _to_onnx(onnx, answer, features, ours)]
    target = max(ours, opset)
    return [onnx.version_converter.convert_version(part, target) if _opset(part) != target else part for part in parts]


def _opset(model: Any) -> int:
    return max(int(each.version) for each in model.opset_import if each.domain in ("", "ai.onnx"))


def _to_onnx(onnx: Any, module: nn.Module, example: torch.Tensor, opset: int) -> Any:
    """Return an ONNX model of the module, for batches of any size.

    By torch's older exporter: the newer one needs one package more (onnxscript).
    """
    content, batch = io.BytesIO(), {0: "N"}
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": batch, "y": batch}}
    options: dict[str, Any] = {**names, "dynamo": False, "opset_version": opset}
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(module.eval(), (example,), content, **options)  # type: ignore[arg-type]
    return onnx.load_from_string(content.getvalue())


def _joined(onnx: Any, parts: list[Any]) -> Any:
    """Return the parts as one model, the first output of each the input of the next."""
    whole = None
    version = max(part.ir_version for part in parts)
    for number, part in enumerate(parts):
        named = onnx.compose.add_prefix(part, f"part{number}/")
        named.ir_version = version
        constants = {each.name for each in named.graph.initializer}
        (given,) = (each.name for each in named.graph.input if each.name not in constants)
        if whole is None:
            whole = named
            continue
        ends = [(whole.graph.output[0].name, given)]
        whole = onnx.compose.merge_models(whole, named, io_map=ends, outputs=[named.graph.output[0].name])
    return whole


def _name_outputs(onnx: Any, model: Any, run: RunModel) -> str:
    """Add the labels to the graph, give inputs and outputs their names, and return the type of the labels."""
    graph, helper, kinds = model.graph, onnx.helper, onnx.TensorProto
    main = _TARGETS if isinstance(run.code_, Bounded) else _PROBABILITIES
    _rename(graph, graph.input[0].name, _ROWS)
    _rename(graph, graph.output[0].name, main)
    outputs = [helper.make_tensor_value_info(main, kinds.FLOAT, ["N", len(run.output_names_)])]
    label_type = ""
    if run.code_ is None:
        classes = run.classes_
        whole = classes.dtype.kind == "i"
        kind, label_type = (kinds.INT64, "int64") if whole else (kinds.STRING, "string")
        names = classes.tolist() if whole else [str(name).encode("utf-8") for name in classes]
        graph.initializer.append(helper.make_tensor("classes", kind, [len(classes)], names))
        graph.node.append(helper.make_node("ArgMax", [main], ["place"], axis=1, keepdims=0))
        graph.node.append(helper.make_node("Gather", ["classes", "place"], [_LABEL]))
        outputs.insert(0, helper.make_tensor_value_info(_LABEL, kind, ["N"]))
    elif main == _PROBABILITIES:
        label_type = "int64"
        graph.initializer.append(helper.make_tensor("half", kinds.FLOAT, [], [0.5]))
        graph.node.append(helper.make_node("Greater", [main, "half"], ["holds"]))
        graph.node.append(helper.make_node("Cast", ["holds"], [_LABEL], to=kinds.INT64))
        outputs.insert(0, helper.make_tensor_value_info(_LABEL, kinds.INT64, ["N", len(run.output_names_)]))
    del graph.output[:]
    graph.output.extend(outputs)
    del graph.value_info[:]
    model.producer_name, model.doc_string = "airmixml", ""
    return label_type


def _rename(graph: Any, old: str, new: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
    for value in (*graph.input, *graph.output):
        value.name = new if value.name == old else value.name


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
