"""The number of the reference stands in one place, and whatever can't import it agrees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.apache_kafka import KAFKA_VERSION
from txnsim.releases import REFERENCE, RELEASES, Fleet

REPOSITORY: Final = Path(__file__).resolve().parents[3]
SIM: Final = REPOSITORY / "sim" / "txnsim"


def test_brokers_run_the_reference_though_a_newer_one_may_be_known() -> None:
    assert Fleet().default is REFERENCE is RELEASES[REFERENCE.name]
    assert REFERENCE.is_released, "the judge can be asked"


def test_the_judge_is_a_real_broker_of_the_reference() -> None:
    assert REFERENCE.patch_release == KAFKA_VERSION


def test_programs_say_which_release_they_are_by_asking_for_it() -> None:
    for page in ("README.md", "docs/serve.md", "docs/practise.md", "docs/see-it.md"):
        text = (REPOSITORY / page).read_text("utf-8")
        told = set(re.findall(r"up as Apache Kafka ([\d.]+)", text))
        assert told == {REFERENCE.patch_release}, page


@pytest.mark.parametrize("module", sorted(SIM.rglob("*.py")), ids=str)
def test_no_other_module_knows_its_number(module: Path) -> None:
    if SIM / "releases" not in module.parents:
        assert REFERENCE.patch_release not in module.read_text("utf-8")
