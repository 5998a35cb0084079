"""The reference of the command line: every command with its arguments and options, as ``airmix --help`` knows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from airmixml.cli.options import app, load


def cli_reference() -> str:
    """Return the reference as Markdown."""
    return "\n\n".join(_described(words, command) for words, command in commands()) + "\n"


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command with its words, those of a group after the group."""
    for name in typer.main.get_command(app).commands:
        yield from _with_parts(("airmix", name), load(name))


def _with_parts(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, part in getattr(command, "commands", {}).items():
        yield from _with_parts((*words, name), part)


def _described(words: tuple[str, ...], command: Any) -> str:
    context = typer.Context(command, info_name=words[-1])
    usage = " ".join((*words, *command.collect_usage_pieces(context)))
    lines = [f"{'#' * len(words)} {' '.join(words)}", "", "```text", usage, "```", ""]
    lines += [_text(inspect.cleandoc(command.help or "")), ""]
    rows = [_row(each, context) for each in command.params if not each.hidden]
    if rows:
        lines += ["| argument or option | |", "|---|---|", *rows, ""]
    return "\n".join(lines).rstrip()


def _row(parameter: Any, context: Any) -> str:
    names, about = parameter.get_help_record(context)
    return f"| `{names.replace('|', chr(92) + '|')}` | {_text(about)} |"


def _text(text: str) -> str:
    """Return help text in which brackets, bars and stars stand for themselves."""
    for character in "[]|*<_":
        text = text.replace(character, f"\\{character}")
    return text
