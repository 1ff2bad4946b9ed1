"""What changed between two releases: what counts as a change, and what does not."""

from __future__ import annotations

import pytest

from tests.conformance.next_release import changes, methods

OLDER = """\
Compiled from "Cleaner.java"
public class org.apache.kafka.log.Cleaner {
  private final org.apache.kafka.common.utils.BufferSupplier buffers;

  public void clean(org.apache.kafka.log.Log, long);
    Code:
       0: aload_1
       1: lload         9
       3: invokevirtual #12           // Method org/apache/kafka/log/Log.end:()J
       6: ifne          20
}
""".splitlines()


def test_places_and_packages_are_no_change() -> None:
    moved_lines = [
        line.replace("utils.Buffer", "utils.internals.Buffer")
        .replace("#12", "#907")
        .replace("lload         9", "lload_3")
        .replace("ifne          20", "ifne          31")
        for line in OLDER
    ]
    assert not list(changes(methods(OLDER), methods(moved_lines)))


@pytest.mark.parametrize(
    ("old_text", "new_text", "expected_change"),
    [
        ("Log.end", "Log.highWatermark", "~ Cleaner: public void clean(Log, long)"),
        ("void clean", "boolean clean", "+ Cleaner: public boolean clean(Log, long)"),
        ("class org.apache.kafka.log.Cleaner", "class org.apache.kafka.log.Cleanser", "- Cleaner"),
    ],
)
def test_another_body_another_signature_and_another_class_are(
    old_text: str, new_text: str, expected_change: str
) -> None:
    changed_lines = [line.replace(old_text, new_text) for line in OLDER]
    assert expected_change in list(changes(methods(OLDER), methods(changed_lines)))


def test_of_a_class_that_came_no_method_is_told() -> None:
    assert list(changes({}, methods(OLDER))) == ["+ Cleaner"]


def test_a_fact_is_told_with_both_values() -> None:
    older_facts = {"broker 18": [0, 4], "broker 42": [0, 2]}
    newer_facts = {"broker 18": [0, 5], "broker 94": [0, 0]}
    assert list(changes(older_facts, newer_facts)) == [
        "~ broker 18 [0, 4] -> [0, 5]",
        "- broker 42 [0, 2]",
        "+ broker 94 [0, 0]",
    ]
