"""``airmix predict``, ``airmix export`` and ``airmix report``: what can be done with finished folders."""

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.terminal import print_error_line, print_json, print_line, report_lines, show
from airmixml.files import write_text, writing_to
from airmixml.messages import DataError, ScenarioError, plural, shown
from airmixml.output.tables import Table, rows_csv

_PREDICTION, _LIKELY = "prediction", "probability_"
_LONGEST_NAME = 80  # of a page of several folders

Run = Annotated[Path, Argument(help="Run folder of one seed.", show_default=False)]


def predict_command(
    run: Run,
    rows: Annotated[Path, Argument(help="CSV file with the input columns, or NPZ file.", show_default=False)],
    out: Annotated[Path | None, Option(help="CSV file to write [default: print it].")] = None,
    force: Annotated[bool, Option("--force", help="Replace the file --out if it exists.")] = False,
    probabilities: Annotated[bool, Option("--probabilities", help="Add the probability of each class.")] = False,
    keep: Annotated[list[str] | None, Option(help="Copy this column of the CSV file; may be repeated.")] = None,
    score: Annotated[bool, Option("--score", help="State the accuracy; the rows must have the label column.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict the class of raw rows with the model of a finished run.

    Scaling, encoder and class names are inside the run folder. A CSV file needs the columns that the model was trained
    on, by name and in any order; other columns are ignored.
    """
    if out is not None and not force and out.exists():
        raise DataError(f"{out}: exists already; choose another --out, or --force to replace it")
    from airmixml.data.own_file import read_rows
    from airmixml.runs import load_model

    model = load_model(run)
    task = model.scenario_.workers.task
    if score and task != "classification":
        raise ScenarioError("--score: is for classes, and the run has none; use load_model(run).score in Python")
    if task == "regression" and probabilities:
        raise ScenarioError("--probabilities: a regression has none; leave it out")
    label_column = model.scenario_.workers.label_column
    wanted: dict[str, Any] = {"label_column": label_column, "with_labels": score, "keep": keep or ()}
    file = read_rows(rows, model.encoder_.row_format, **wanted)
    for name in keep or ():
        if name == _PREDICTION or name.startswith((_LIKELY, f"{_PREDICTION}_")):
            raise ScenarioError(
                f"--keep {name}: is the name of a column that is written; rename it in the file of rows"
            )
    columns = {**file.kept, **_columns(model, model.outputs_of(file.inputs), probabilities=probabilities)}
    clipped = model.encoder_.scale(file.inputs)[1]
    unknown = model.encoder_.row_format.unknown_categories(file.inputs)
    accuracy = None if file.labels is None else _accuracy(file.labels, columns[_PREDICTION], model, rows)
    table = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if out is not None:
        with writing_to(out):
            write_text(out, rows_csv(table))
    if as_json:
        summary = {"run": str(run), "rows": len(table), "clipped_values": clipped, "unknown_categories": unknown}
        print_json({**summary, "accuracy": accuracy, "out": None if out is None else str(out), "predictions": table})
        return
    if out is None:
        sys.stdout.write(rows_csv(table))
    else:
        print_line(f"{plural(len(table), 'prediction')} in {out}")
    if clipped:
        values = plural(clipped, "value")
        print_error_line(f"{values} outside the declared bounds, clipped to them")
    if unknown:
        named = ", ".join(f"{count:,} of {shown(name)}" for name, count in unknown.items())
        values = plural(sum(unknown.values()), "value")
        print_error_line(f"{values} outside the declared categories ({named}), taken as none of them")
    if accuracy is not None:
        print_error_line(f"accuracy {100 * accuracy:.1f} % on {plural(len(table), 'row')}")


def export_command(
    run: Run,
    out: Annotated[Path | None, Option(help="ONNX file to write [default: RUN.onnx, beside the run folder].")] = None,
    force: Annotated[bool, Option("--force", help="Replace the file --out if it exists.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Export the model of a finished run to ONNX: from raw rows to label and probabilities in one graph."""
    if out is None:
        folder = run if run.name else run.resolve()
        out = folder.with_name(f"{folder.name}.onnx")
    if not force and out.exists():
        raise DataError(f"{out}: exists already; choose another --out, or --force to replace it")
    from airmixml.runs import export_onnx

    exported = export_onnx(run, out)
    outputs = f"label ({exported.label_type}), probabilities" if exported.label_type else "targets"
    facts = [
        ("file", exported.path),
        ("size", f"{exported.bytes / 1e3:,.1f} kB"),
        ("input", f"rows, float32, N x {exported.inputs}"),
        ("outputs", f"{outputs} (float32, N x {len(exported.outputs)})"),
    ]
    show(as_json, exported.to_dict(), Table(title="ONNX model", columns=("", ""), rows=facts, words=2))


def _accuracy(labels: list[str], predicted: list[str], model: Any, rows: Path) -> float:
    known = {str(name) for name in model.classes_}
    plain = [_plain(label, known) for label in labels]
    unknown = sorted(set(plain) - known)
    if len(unknown) == len(set(plain)):
        raise DataError(
            f"{rows}: no label is a class of the model, such as {shown(unknown[0])} for {shown(sorted(known)[0])}; "
            "leave --score out or correct the labels"
        )
    return sum(one == other for one, other in zip(plain, predicted, strict=True)) / len(predicted)


def _plain(label: str, known: set[str]) -> str:
    """Return the label as the model names it: "1.0" is its class "1"."""
    if label in known:
        return label
    try:
        number = float(label)
    except ValueError:
        return label
    return str(int(number)) if number.is_integer() else repr(number)


def _columns(model: Any, outputs: Any, *, probabilities: bool) -> dict[str, list[Any]]:
    """Return the columns that are written: the class, the labels or the targets of each row, and probabilities."""
    task, names = model.scenario_.workers.task, model.output_names_
    likely = {f"{_LIKELY}{name}": outputs[:, place].tolist() for place, name in enumerate(names) if probabilities}
    if task == "classification":
        return {_PREDICTION: [str(name) for name in model.decided(outputs)], **likely}
    found = outputs if task == "regression" else model.decided(outputs)
    heads = [_PREDICTION] if len(names) == 1 else [f"{_PREDICTION}_{name}" for name in names]
    return {head: found[:, place].tolist() for place, head in enumerate(heads)} | likely


def report_command(
    folders: Annotated[list[Path], Argument(metavar="RUN", help="Folders that airmix made.", show_default=False)],
    out: Annotated[
        Path | None,
        Option(help="File to write [default: report.html in the folder; for several, a name below runs/]."),
    ] = None,
    opened: Annotated[bool, Option("--open", help="Open the report in the browser.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the report of a folder again, or put several folders side by side on one page.

    Every command that makes a folder writes its report.html; this makes that of an older folder. The page of several
    shows which keys differ between their scenarios, and scores, epsilons and costs in a column each.
    """
    from airmixml.reports import write_report, write_side_by_side

    if len(folders) == 1:
        path = write_report(folders[0], out=out)
    else:
        names = "-".join(folder.absolute().name for folder in folders)[:_LONGEST_NAME]
        path = write_side_by_side(folders, out or Path("runs") / f"report-{names}.html")
    report = {"report": str(path)}
    show(as_json, {**report, "folders": list(map(str, folders))}, *report_lines(report))
    if opened:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
