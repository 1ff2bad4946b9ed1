from __future__ import annotations

import pytest

from tests.support.stories import small
from txnsim.errors import ConfigError
from txnsim_lab.scenario._cluster_options import (
    STRICT_MARKERS,
    leaders_of,
    new_topic,
    options_of,
)
from txnsim_lab.scenario.model import Run, Topic

STEPS = [{"advance": "1s"}]


def world(mode: str, **given: object) -> Run:
    return Run.model_validate({"mode": mode, "verdict": "healthy", **given})


@pytest.mark.parametrize(
    ("mode", "level", "verification", "strict"),
    [
        ("V-", 0, False, None),
        ("V+", 1, True, None),
        ("TV2", 2, True, False),
        ("TV2+", 2, True, True),
    ],
)
def test_a_mode_is_a_level_with_or_without_verification(
    mode: str, level: int, verification: object, strict: object
) -> None:
    options = options_of(small(STEPS), world(mode))
    assert options.settings.transaction_version == level
    assert options.settings.transaction_partition_verification_enable is verification
    assert options.rules.get(STRICT_MARKERS) is strict
    assert options.as_version == ()


def test_a_run_turns_switches_and_settings_and_may_be_another_release() -> None:
    story = small(STEPS, settings={"transaction.max.timeout.ms": 3_600_000})
    run = world(
        "TV2",
        rules={STRICT_MARKERS: True},
        settings={"num.partitions": 4},
        **{"as-version": "4.1"},
    )
    options = options_of(story, run)
    assert options.rules == {STRICT_MARKERS: True}
    assert options.settings.transaction_max_timeout_ms == 3_600_000
    assert options.as_version == ("4.1",)
    with pytest.raises(ConfigError, match=r"small: settings: .*no\.such"):
        options_of(small(STEPS, settings={"no.such": 1}), world("V-"))


def test_leaders_are_where_the_story_wants_them() -> None:
    topic = Topic.model_validate({"partitions": 4, "configs": {"a": True, "b": 3}})
    assert leaders_of(topic, brokers=3) == (1, 2, 3, 1)
    wanted = new_topic("t", topic, brokers=3)
    assert wanted.assignments[1] == (1, (2, 3, 1))
    assert wanted.configs == {"a": "true", "b": "3"}
    placed = Topic.model_validate({"partitions": 1, "leaders": [3], "replication-factor": 2})
    assert new_topic("t", placed, brokers=3).assignments == ((0, (3, 1)),)
    assert len(new_topic("t", topic, brokers=1).assignments[0][1]) == 1
