"""Several folders on one page: what differs between them, and nothing that holds for only some of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from folders_for_tests import Finished

Airmix = Callable[..., Finished]
CopyOf = Callable[..., Path]
ReadPage = Callable[[Path], Any]


def test_only_the_keys_that_differ_and_both_accuracies(
    airmix: Airmix, copy_of: CopyOf, read_page: ReadPage, tmp_path: Path
) -> None:
    copy_of("run", "a")
    other = copy_of("run", "b$")
    toml, metrics = other / "scenario.toml", other / "metrics.json"
    toml.write_text(toml.read_text(encoding="utf-8").replace("epochs = 3", "epochs = 4"), encoding="utf-8")
    changed = json.loads(metrics.read_text(encoding="utf-8"))
    changed["accuracy"] |= {"final": 0.625, "best": 0.625}
    metrics.write_text(json.dumps(changed), encoding="utf-8")
    assert airmix("report", "a", "b$").stdout == "report: runs/report-a-b$.html\n"
    path = tmp_path / "runs" / "report-a-b$.html"
    page, text = read_page(path), path.read_text(encoding="utf-8")
    (table,) = re.findall("<caption>Keys that differ</caption>.*?</table>", text, re.DOTALL)
    assert re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", table) == ["", "a", "b$", "learner.epochs", "3", "4"]
    first = json.loads((tmp_path / "a" / "metrics.json").read_text(encoding="utf-8"))["accuracy"]["final"]
    assert f"accuracy {100 * first:.1f} % on the clean test set (mlp, final epoch) 62.5 % on the clean" in page.text
    assert len([each for each in page.all("article") if "card" in str(each["class"])]) == 8
    assert len(page.all("img")) == 1
    assert "several folders about the same people reveal more together" in page.text
    assert "never release this page" in page.text


def test_what_holds_for_a_protected_folder_is_not_said_of_the_page(
    airmix: Airmix, copy_of: CopyOf, read_page: ReadPage, tmp_path: Path
) -> None:
    copy_of("protected")
    copy_of("attack")
    assert airmix("report", "protected", "attack", "--out", "both.html").returncode == 0
    text = read_page(tmp_path / "both.html").text
    assert "nothing but what the privacy statements" not in text
    assert "never release this page" in text
    assert "against the release, found" in text
