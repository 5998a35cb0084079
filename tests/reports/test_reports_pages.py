"""Every command leaves a page that needs nothing else: sound HTML, no address, readable by eye, ear and key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from folders_for_tests import COMMANDS, Finished

from airmixml.messages import epsilon_text

Made = Callable[[str], tuple[Finished, Path]]
LARGEST_BYTES = 3_000_000


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_page_is_sound_and_alone(kind: str, made: Made, read_page: Callable[[Path], Any]) -> None:
    done, folder = made(kind)
    assert "here/report.html" in done.stdout
    path = folder / "report.html"
    assert path.stat().st_size < LARGEST_BYTES
    page = read_page(path)
    assert [tag for tag, _ in page.tags if tag in ("script", "iframe", "object", "link", "base", "form")] == []
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    addresses = [
        str(attributes[name])
        for _, attributes in page.tags
        for name in ("href", "src", "srcset", "action", "data")
        if name in attributes
    ]
    assert all(each.startswith(("#", "data:image/")) for each in addresses), addresses
    assert not re.search(r"url\(|@import|https?:", re.sub(r"data:[^\"]+", "", path.read_text(encoding="utf-8")))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert {each[1:] for each in addresses if each.startswith("#")} <= set(ids)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_page_can_be_heard_and_walked(kind: str, made: Made, read_page: Callable[[Path], Any]) -> None:
    page = read_page(made(kind)[1] / "report.html")
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("title")) == len(page.all("h1")) == len(page.all("main")) == 1
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    assert all(len(image["alt"] or "") > 20 for image in page.all("img"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(head.get("scope") in ("row", "col") for head in page.all("th"))
    # What scrolls can be reached with the keyboard, and says what it is.
    scrolling = [each for each in page.all("div") if each.get("class") == "scroll"]
    assert all(each["tabindex"] == "0" and each["aria-label"] for each in scrolling)
    assert page.tags[[tag for tag, _ in page.tags].index("body") + 1] == ("a", {"class": "skip", "href": "#main"})


def test_pages_say_what_the_results_say(made: Made, read_page: Callable[[Path], Any]) -> None:
    folder = made("run")[1]
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    text = read_page(folder / "report.html").text
    assert f"{100 * metrics['accuracy']['final']:.1f} % on the clean test set" in text
    for adversary in ("release", "server", "eavesdropper"):
        stated = [
            each["epsilon"]
            for each in metrics["privacy"]
            if (each["adversary"], each["adjacency"]) == (adversary, "replace-one")
        ]
        shown = epsilon_text(min(stated))
        assert re.search(rf"{adversary} (the target’s adversary )?[^.]{{20,90}} epsilon {re.escape(shown)} ", text)
    everyone = "everyone everybody together, who hear every worker separately and without any noise"
    assert f"{everyone} no guarantee" in text
    assert f"{1e12 * metrics['worker_energy_joules']['mean']:.3g} pJ mean" in text
    assert "replace-one: one worker holds another sample" in text
    assert "delta 0.01" in text
    assert "noise and schedule follow from seed 0, so anyone can remove them" in text


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("seeds", ("mean of 2 seeds",)),
        ("closed-form", ("lda, closed form", "Confusion matrix")),
        ("rounds", ("lda, then 3 rounds of gradients", "1 slot and 3 rounds")),
        ("audit", ("NOT REFUTED", "with 95 % confidence", "clopper-pearson", "100 per adversary")),
        ("attack", ("can name", "What each adversary does best", "tells who took part (AUC)")),
        ("compare", ("trusted curator", "Within the target ", "receiver noise")),
        ("sweep", ("2 cells of airmix run, 1 seed each",)),
        ("tolerances", ("absent workers", "accuracy falls by at most 1 point,")),
        ("plan", ("Plan of paper-iris", "power scale", "noise multiplier", "SNR")),
        ("reproduce", ("The paper, run again", "fig2")),
    ],
)
def test_what_else_pages_say(kind: str, words: tuple[str, ...], made: Made, read_page: Callable[[Path], Any]) -> None:
    text = read_page(made(kind)[1] / "report.html").text
    assert [word for word in words if word not in text] == []


def test_an_attack_says_what_it_found_of_nobody(made: Made, read_page: Callable[[Path], Any]) -> None:
    text = read_page(made("attack")[1] / "report.html").text
    assert "found not attacked" in text  # by the server: only the release was


def test_the_same_folder_is_the_same_page(copy_of: Callable[..., Path]) -> None:
    from airmixml.reports import write_report

    folder = copy_of("run")
    before = (folder / "report.html").read_bytes()
    assert write_report(folder).read_bytes() == before


# WCAG 2: contrast is (L1 + 0.05) / (L2 + 0.05) of relative luminances.
def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_by_hand() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the usual example of what just fails


def test_every_text_has_enough_contrast(made: Made) -> None:
    text = (made("run")[1] / "report.html").read_text(encoding="utf-8")
    schemes = [dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", text, re.S)]
    assert len(schemes) == 3  # light, dark, print
    for colours in schemes:
        for ground in ("page", "panel"):
            for name in ("text", "quiet", "link", "strong", "moderate", "weak", "none"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground, colours)
        assert contrast(colours["mark-text"], colours["mark"]) >= 4.5
        assert contrast(colours["text"], colours["notice"]) >= 4.5
