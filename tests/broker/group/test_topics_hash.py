"""The number of a group's topics."""

from __future__ import annotations

from tests.support.consumer_groups import image
from txnsim.group._topics_hash import topics_hash


def test_it_changes_with_topics_and_their_partitions_only() -> None:
    both = topics_hash({"t", "u"}, image(t=1, u=2))
    assert both == topics_hash(["u", "t", "gone"], image(offset=9, t=1, u=2, other=1))
    assert both != topics_hash({"t", "u"}, image(t=2, u=2))
    assert both != topics_hash({"t"}, image(t=1, u=2))
    assert -(2**63) <= both < 2**63


def test_no_topics_are_0() -> None:
    assert topics_hash({"gone"}, image(t=1)) == 0
