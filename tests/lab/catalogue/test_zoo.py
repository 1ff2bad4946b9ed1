"""The zoo of documented anomalies: in which generation of the protocol each one happens, written
down here apart from the files, so that a file that declares something else is found out.

``Y`` happens, ``n`` is prevented, ``Y/n`` happens before a fix and is prevented by it, ``-`` is not
applicable or does not depend on the generation, so that nothing may happen there.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Final

import pytest

from txnsim_lab.scenario.catalog import scenarios
from txnsim_lab.scenario.model import Scenario

MODES: Final = ("V-", "V+", "TV2", "TV2+")

ZOO: Final = {
    "Z01": ("Y", "n", "n", "n"),
    "Z02": ("Y", "Y", "n", "n"),
    "Z03": ("Y", "n", "n", "n"),
    "Z04": ("Y", "n", "n", "n"),
    "Z05": ("Y", "Y", "n", "n"),
    "Z06": ("Y", "Y", "n", "n"),
    "Z07": ("Y/n", "n", "n", "n"),
    "Z08": ("Y/n", "n", "n", "n"),
    "Z09": ("Y/n", "n", "n", "n"),
    "Z10": ("Y/n", "-", "-", "-"),
    "Z11": ("Y/n", "-", "-", "-"),
    "Z12": ("Y/n", "Y/n", "-", "-"),
    "Z13": ("Y/n", "-", "-", "-"),
    "Z14": ("Y/n", "Y/n", "-", "-"),
    "Z15": ("Y/n", "-", "-", "-"),
    "Z16": ("Y", "n", "n", "n"),
    # Up to 2.4 deleting did heal.
    "Z17": ("Y/n", "Y", "Y", "Y"),
    "Z18": ("Y/n", "-", "-", "-"),
    "Z19": ("-", "Y/n", "n", "n"),
    "Z20": ("-", "Y/n", "n", "n"),
    "Z21": ("Y", "Y", "Y", "n"),
    "Z22": ("n", "n", "n", "Y/n"),
    "Z23": ("n", "n", "Y/n", "Y/n"),
    "Z24": ("Y", "Y", "Y", "Y"),
    "Z25": ("-", "-", "-", "-"),
    "Z26": ("Y/n", "Y/n", "Y/n", "Y/n"),
    # 4.2 keeps the marker, 4.3 drops it.
    "Z27": ("-", "Y/n", "Y/n", "-"),
    "Z28": ("Y", "Y", "Y", "Y"),
    "Z30": ("Y", "Y", "n", "n"),
    "Z31": ("Y", "Y", "Y", "Y"),
    "Z32": ("Y", "Y", "Y", "Y"),
    "Z33": ("Y", "Y", "Y", "Y"),
    "Z34": ("Y", "Y", "Y", "Y"),
}
"""Anomaly -> what happens in each mode."""

HAPPENS: Final = {
    "Y": ({True},),
    "n": ({False},),
    "Y/n": ({True, False},),
    "-": (set[bool](), {False}),
}
"""What the runs of a cell may come to: an anomaly or not."""


@cache
def anomalies() -> dict[str, Scenario]:
    """Each anomaly's own scenario; others with its number show further sides of it."""
    return {
        scenario.anomaly: scenario
        for scenario in scenarios().values()
        if scenario.anomaly.lower() in scenario.aliases
    }


def test_every_animal_has_a_scenario() -> None:
    assert sorted(anomalies()) == sorted(ZOO)


@pytest.mark.parametrize("anomaly", ZOO)
def test_an_anomaly_happens_where_it_is_documented_to(anomaly: str) -> None:
    declared: dict[str, set[bool]] = defaultdict(set)
    for run in anomalies()[anomaly].runs.values():
        declared[run.mode].add(bool(run.verdict))
    wrong = {
        mode: (expected, declared[mode])
        for mode, expected in zip(MODES, ZOO[anomaly], strict=True)
        if declared[mode] not in HAPPENS[expected]
    }
    assert not wrong


@pytest.mark.parametrize("anomaly", ZOO)
def test_what_was_fixed_is_shown_with_the_fix_and_without(anomaly: str) -> None:
    for label, run in anomalies()[anomaly].runs.items():
        if label.endswith("/before"):
            assert run.verdict, "a pre-fix run shows the anomaly"
            assert label.replace("/before", "/fixed") in anomalies()[anomaly].runs
