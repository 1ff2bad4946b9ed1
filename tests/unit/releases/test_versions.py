from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.releases.rules import RuleSwitch
from txnsim.releases.versions import came_later, line_of


def test_a_line_has_two_numbers() -> None:
    assert line_of("4.3.1") == line_of("4.3") == (4, 3)
    for version in ("newest", "4", ""):
        with pytest.raises(ConfigError, match="no release of Apache Kafka"):
            line_of(version)


@pytest.mark.parametrize(
    ("since", "later_than", "in_"),
    [
        ("3.6", ["3.5.2", "2.8.0"], ["3.6.0", "3.10.0", "4.0.0"]),
        (
            "3.0.2, 3.1.2, 3.2.1, 3.3",
            ["3.0.1", "3.1.1", "3.2.0", "2.8.2"],
            ["3.0.2", "3.2.1", "3.3.0"],
        ),
        ("3.9.2, 4.0.1, 4.1.1", ["3.9.1", "4.0.0", "4.1.0"], ["3.9.2", "4.0.2", "4.1.1", "4.2.0"]),
        ("all but 4.3 and 4.4", [], ["3.1.0", "4.3.1"]),
        ("after 4.4", [], ["4.3.1", "4.4.0"]),
    ],
)
def test_a_release_has_what_came_before_it(
    since: str, later_than: list[str], in_: list[str]
) -> None:
    switch = RuleSwitch(ticket="KAFKA-1", since=since, before="", after="")
    assert [one for one in later_than if not came_later(switch, one)] == []
    assert [one for one in in_ if came_later(switch, one)] == []
