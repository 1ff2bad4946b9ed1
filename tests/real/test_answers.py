"""The same requests to a real Apache Kafka and to the simulator, answer by answer.

A story (``tests/real/stories``) asks one broker after the other the same things; both transcripts
must be equal once ``tests.support.transcript`` has normalised ids, addresses and times. What is
played, and what is known to differ, stands in ``tests.conformance.programme``. The same without a
real broker, against answers of one that were kept: ``tests/conformance/test_replay.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.programme import STORIES, id_of, judged, kafka, name_of, played, simulator
from tests.real.stories.player import Story
from tests.support.transcript import differences

pytestmark = pytest.mark.real

Pair = tuple[str, str]
"""Addresses of the real broker and of the simulated one."""


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    level: int = request.param
    with kafka(level) as real, simulator(level) as ours:
        yield real.bootstrap, ours.bootstrap


@pytest.mark.parametrize(
    ("story", "pair"),
    [pytest.param(*one, id=id_of(*one)) for one in STORIES],
    indirect=["pair"],
)
def test_both_brokers_answer_alike(
    story: Story, pair: Pair, request: pytest.FixtureRequest
) -> None:
    level = request.node.callspec.params["pair"]
    expected, found = (played(story, address, level) for address in pair)
    wrong = judged(name_of(story), differences(expected, found))
    assert not wrong, f"{len(wrong)} differences (real != ours):\n" + "\n".join(wrong)
