"""What a comparison complains of, and in which words."""

from __future__ import annotations

from txnsim.client.inspection.exactly_once import compare


def test_everything_once_in_any_order_is_exact() -> None:
    assert compare([b"a", b"b", None], [None, b"b", b"a"]).is_exact
    assert compare([], []).is_exact


def test_a_value_that_is_owed_twice_has_to_be_there_twice() -> None:
    assert compare([b"a", b"a"], [b"a", b"a"]).is_exact
    assert dict(compare([b"a", b"a"], [b"a"]).missing) == {b"a": 1}


def test_each_kind_of_complaint() -> None:
    found = compare([b"a", b"b", b"c"], [b"a", b"a", b"a", b"x", b"y", b"b"], aborted=[b"x", b"a"])
    assert not found.is_exact
    assert dict(found.missing) == {b"c": 1}
    assert dict(found.repeated) == {b"a": 2}
    assert dict(found.aborted_but_read) == {b"x": 1}
    assert dict(found.unexpected) == {b"y": 1}


def test_an_aborted_value_that_was_not_read_is_no_complaint() -> None:
    assert compare([b"a"], [b"a"], aborted=[b"x"]).is_exact


def test_the_words() -> None:
    found = compare(
        [b"a", b"b", None],
        [b"a", b"a", b"a", b"x", b"\xff"],
        aborted=[b"x"],
        remarks={b"b": "written there in a transaction that is aborted"},
    )
    assert str(found).splitlines() == [
        "missing: 2 records",
        "  'b' (written there in a transaction that is aborted)",
        "  null",
        "more than once: 2 records",
        "  'a' × 2",
        "aborted, but read: 1 record",
        "  'x'",
        "from nowhere: 1 record",
        r"  '\\xff'",
    ]


def test_long_values_and_long_lists_are_cut() -> None:
    text = str(compare([b"x" * 1_000, *(b"%d" % n for n in range(20))], []))
    assert "… and 11 more" in text
    assert max(map(len, text.splitlines())) < 100
