from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from txnsim.errors import BadInputError
from txnsim_lab.campaign_page import page, played_in
from txnsim_lab.campaigns import COLUMNS, Folder
from txnsim_lab.simulation.drawing import Wanted


def filled(path: Path, wanted: Wanted, found: dict[int, str]) -> Path:
    folder = Folder(path, wanted)
    rows = [
        {
            **dict.fromkeys((one.name for one in COLUMNS), 0),
            "seed": seed,
            "mode": "V+" if seed % 2 else "TV2+",
            "verdict": "found" if seed in found else "healthy",
            "anomalies": [found[seed]] if seed in found else [],
            "causes": [],
            "because": [],
            "run_hash": "",
            "virtual_ms": 60_000,
            "cpu_ms": 500,
            "places": [{"state": "", "asked": f"a{seed % 7}", "outcome": "NONE", "times": 1}],
            "failure": None,
        }
        for seed in range(10)
    ]
    [*folder.take([range(10)], rows)]
    return path


def test_the_page_compares_campaigns(tmp_path: Path) -> None:
    old = filled(tmp_path / "old", Wanted(as_version="4.2"), {})
    new = filled(tmp_path / "new", Wanted(as_version="4.3"), {3: "lost-write", 5: "lost-write"})
    text = page([played_in(old), played_in(new)])
    assert "<title>Campaigns: 20 seeds</title>" in text
    cells = "".join(f"<td>{one}</td>" for one in ("4.3", "10", "2", "0.2", "0.001", "120"))
    assert f"<tr>{cells}</tr>" in text
    cells = "".join(f"<td>{one}</td>" for one in ("lost-write", "–", "–", "–", "2"))
    assert f"<tr>{cells}</tr>" in text
    cells = "".join(f"<td>{one}</td>" for one in ("4.3", "lost-write", "3", "2.0", "2", "2.5"))
    assert f"<tr>{cells}</tr>" in text
    assert text == page([played_in(old), played_in(new)])


def test_what_is_no_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no campaign"):
        played_in(tmp_path)
