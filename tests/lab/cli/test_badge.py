"""``txnsim badge``: the files that it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.support.small_results import conformance_run
from txnsim.cli.main import main
from txnsim_lab.badge import GREEN
from txnsim_lab.conformance.results import CaseOutcome


def test_the_command_writes_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results_file = tmp_path / "results.json"
    results_file.write_bytes(msgspec.json.encode(conformance_run(CaseOutcome.PASSED, release="<&")))
    svg_file, shields_file = tmp_path / "badge.svg", tmp_path / "badge.json"
    command = ["badge", str(results_file), "--svg", str(svg_file), "--shields", str(shields_file)]
    assert main(command) == 0
    assert capsys.readouterr().out == "answers as Kafka <&: 1 of 1\n"
    svg = ElementTree.parse(svg_file).getroot()
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["answers as Kafka <&"] * 2 + ["1 of 1"] * 2
    assert f'fill="#{GREEN}"' in svg_file.read_text()
    assert json.loads(shields_file.read_text()) == {
        "schemaVersion": 1,
        "label": "answers as Kafka <&",
        "message": "1 of 1",
        "color": GREEN,
    }
