"""The same requests to a real Apache Kafka and to the simulator, answer by answer.

A story (``tests/real/stories``) asks one broker after the other the same things; both transcripts
must be equal once ``txnsim_lab.conformance._book.transcript`` has normalised ids, addresses and
times. What is played, and what is known to differ, stands in ``tests.conformance.programme``. The
same without a real broker, against answers that were kept: ``tests/conformance/test_replay.py``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.cluster_setups import ClusterSetup
from tests.conformance.programme import (
    STORIES,
    id_of,
    kafka,
    name_of,
    play_story,
    setup_of,
    setups,
    simulator,
    unexplained_lines,
)
from txnsim_lab.conformance._book.frame_player import Story
from txnsim_lab.conformance._book.transcript import differences

pytestmark = pytest.mark.real

Pair = tuple[str, str]
"""Addresses of the real broker and of the simulated one."""


@pytest.fixture(scope="module")
def pairs() -> Iterator[Callable[[str, int], Pair]]:
    """Both brokers of a level and setup. They start on first use, as tests come in any order."""
    by_name: dict[str, ClusterSetup] = {setup.name: setup for _, setup in setups()}
    with contextlib.ExitStack() as stack:

        @functools.cache
        def pair(name: str, transaction_version: int) -> Pair:
            setup = by_name[name]
            real_address = stack.enter_context(kafka(transaction_version, setup))
            return real_address, stack.enter_context(simulator(transaction_version, setup))

        yield pair


@pytest.mark.parametrize(
    ("story", "transaction_version"),
    [pytest.param(*story_level, id=id_of(*story_level)) for story_level in STORIES],
)
def test_both_brokers_answer_alike(
    story: Story, transaction_version: int, pairs: Callable[[str, int], Pair]
) -> None:
    addresses = pairs(setup_of(story).name, transaction_version)
    expected_transcript, actual_transcript = (
        play_story(story, address, transaction_version) for address in addresses
    )
    difference_lines = unexplained_lines(
        name_of(story), differences(expected_transcript, actual_transcript)
    )
    assert not difference_lines, (
        f"{len(difference_lines)} differences (real != ours):\n" + "\n".join(difference_lines)
    )
