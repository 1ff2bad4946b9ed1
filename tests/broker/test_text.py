"""Durations, sizes, addresses, unknown names and text of others, as people give and see them."""

from __future__ import annotations

import time  # noqa: TID251 - the processor's, of a match
import unicodedata
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.re2j import ExpressionAnswer, recorded_answers
from txnsim.errors import ErrorCode, PatternError
from txnsim.patterns import (
    BYTES_MAX,
    DEPTH_MAX,
    INSTRUCTIONS_MAX,
    STEPS_MAX,
    UNICODE_CLASSES,
    compile_pattern,
    write_for_rust,
)
from txnsim.text import (
    host_and_port,
    printable,
    printable_lines,
    read_host_and_port,
    read_size,
    spoken_size,
    time_text,
    unknown_word_message,
    whole_ms,
    with_clean_descriptions,
)


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (0, 0),
        (-5, -5),
        (60e3, 60_000),
        (timedelta(minutes=1, milliseconds=2), 60_002),
        (timedelta(seconds=1.5), 1_500),
        (timedelta(seconds=-1), -1_000),
        ("500ms", 500),
        ("30s", 30_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("-7d", -604_800_000),
    ],
)
def test_whole_milliseconds(duration: object, ms: int) -> None:
    read = whole_ms(duration)
    assert read == ms
    assert type(read) is int


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        (1.5, "1.5 is no duration: expected a whole number of milliseconds, or a text such as"),
        (float("nan"), "nan is no duration"),
        (float("inf"), "inf is no duration"),
        (True, "True is no duration"),
        (None, "None is no duration"),
        (timedelta(microseconds=1), "no whole number of milliseconds"),
        ("2 minutes", "'2 minutes' is no duration such as 500ms, 30s, 21m, 2h or 7d"),
        ("1.5s", "is no duration such as"),
        ("60000", "is no duration such as"),
        ("m", "is no duration such as"),
        ("²s", "is no duration such as"),
        ("9" * 16 + "s", "is no duration such as"),
    ],
)
def test_what_is_no_whole_number_of_milliseconds_is_refused(duration: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        whole_ms(duration)


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_704_277_990, "2026-11-26T14:44:37Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (10**15, "1000000000000000"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
    ],
)
def test_a_time_is_said_to_the_second_or_as_it_is_where_no_calendar_has_it(
    time_ms: int, text: str
) -> None:
    assert time_text(time_ms) == text


# Sizes as people write them


@pytest.mark.parametrize(
    ("size_text", "size"),
    [
        ("4096", 4_096),
        ("2kB", 2_000),
        ("1GB", 1_000_000_000),
        ("3KiB", 3_072),
        ("128MiB", 134_217_728),
        ("1GiB", 1_073_741_824),
        ("0", 0),
    ],
)
def test_sizes_are_numbers_with_a_unit(size_text: str, size: int) -> None:
    assert read_size(size_text) == size


@pytest.mark.parametrize("size_text", ["", "MiB", "1 MiB", "1mib", "1.5GiB", "-1", "²", "1" * 16])
def test_other_forms_are_refused(size_text: str) -> None:
    with pytest.raises(ValueError, match="is no size such as 128MiB, 1GB or 1073741824"):
        read_size(size_text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (134_217_728, "128 MiB"),
        (1_000_000_000, "1 GB"),
        (1_073_741_824, "1 GiB"),
        (1_001, "1001 bytes"),
        (0, "0 bytes"),
    ],
)
def test_a_size_is_said_in_its_largest_whole_unit(size: int, text: str) -> None:
    assert spoken_size(size) == text


# Addresses as clients take them


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("127.0.0.1", 9092, "127.0.0.1:9092"),
        ("kafka.test", 0, "kafka.test:0"),
        ("::1", 9092, "[::1]:9092"),
        ("fe80::1%eth0", 65_535, "[fe80::1%eth0]:65535"),
        ("bücher_1.test.", 9092, "bücher_1.test.:9092"),
    ],
)
def test_an_address_is_written_as_it_is_read(host: str, port: int, text: str) -> None:
    assert host_and_port(host, port) == text
    assert read_host_and_port(text) == (host, port)


def test_brackets_may_be_missing() -> None:
    assert read_host_and_port("::1:9092") == ("::1", 9092)


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", ":9092", "[]:9092", "host:", "host:65536", "host:٣", "host:-1"),
        f"host:{'9' * 5_000}",
        *("a..b:9092", ".a:9092", "a\N{RIGHT-TO-LEFT OVERRIDE}b:9092", f"{'a' * 64}:9092"),
        "a\0b:9092",
    ],
)
def test_what_is_no_address(text: str) -> None:
    assert read_host_and_port(text) is None


# Unknown names


@pytest.mark.parametrize(
    ("mode", "complaint"),
    [
        ("tv2", "no mode 'tv2'; did you mean TV2? there are: V-, TV2"),
        ("TV1", "no mode 'TV1'; did you mean TV2? there are: V-, TV2"),
        ("t", "no mode 't'; did you mean TV2? there are: V-, TV2"),
        ("", "no mode ''; there are: V-, TV2"),
        ("zebra", "no mode 'zebra'; there are: V-, TV2"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_and_all(mode: str, complaint: str) -> None:
    assert unknown_word_message("mode", mode, ("V-", "TV2")) == complaint


def test_words_in_another_order_are_recognised() -> None:
    errors = [error.name.upper() for error in ErrorCode]
    assert unknown_word_message("error", "FENCD_PRODUCER", errors).endswith(
        "did you mean PRODUCER_FENCED?"
    )
    assert unknown_word_message("error", "INVALID_TXN_STAT", errors).endswith(
        "did you mean INVALID_TXN_STATE?"
    )


def test_a_long_list_is_left_out() -> None:
    many_names = [f"name-{index}" for index in range(100)]
    assert unknown_word_message("name", "name-x", many_names).startswith(
        "no name 'name-x'; did you mean name-"
    )
    assert unknown_word_message("name", "zebra", many_names) == "no name 'zebra'"


# What a terminal would obey is written out


@pytest.mark.parametrize(
    ("raw_text", "expected_text"),
    [
        ("orders-1 äöü 漢字 😀", "orders-1 äöü 漢字 😀"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\r\nERROR forged", r"a\r\nERROR forged"),
        ("\x9b2J", r"\x9b2J"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\u2028b", r"a\u2028b"),
        ("\x7f\x00\ud800", r"\x7f\x00\ud800"),
        ("pay\u200b", r"pay\u200b"),
        ("a\u00a0b\u3164", r"a\xa0b\u3164"),
        ("a\U000e0041", r"a\U000e0041"),
    ],
)
def test_characters_that_are_orders_are_escaped(raw_text: str, expected_text: str) -> None:
    assert printable(raw_text) == expected_text


def test_line_ends_and_tabs_of_a_layout_stay() -> None:
    assert printable_lines("a\tb\nc\x1b[31m\rd") == "a\tb\nc\\x1b[31m\\rd"


def test_none_is_left() -> None:
    every = "".join(map(chr, range(0x3000)))
    characters_left = [
        c
        for c in printable(every)
        if unicodedata.category(c) in ("Cc", "Zl", "Zp")
        or (unicodedata.category(c) == "Zs" and c != " ")
    ]
    assert characters_left == []
    turns = {"RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI"}
    assert not any(unicodedata.bidirectional(c) in turns for c in printable(every))


# What RE2/J takes, refuses and matches: its own answers are in ``tests/support/re2j.py``.


def answered(expression: str, names: tuple[str, ...]) -> ExpressionAnswer:
    """Our answer about an expression, in the form of RE2/J's answer."""
    try:
        pattern = compile_pattern(expression)
    except PatternError as error:
        return ExpressionAnswer(expression, str(error))
    return ExpressionAnswer(
        expression,
        None,
        tuple(name for name in names if pattern.matches(name)),
        tuple(name for name in names if not pattern.matches(name)),
    )


def test_expressions_are_taken_and_refused_and_names_matched_as_by_re2j() -> None:
    """More than nine hundred expressions are drawn; the others are special cases of RE2/J."""
    answers = recorded_answers()
    assert sum(answer.refusal is None for answer in answers) > 400
    assert sum(len(answer.matched_names) for answer in answers) > 400
    for theirs in answers:
        our_answer = answered(theirs.expression, theirs.matched_names + theirs.unmatched_names)
        assert our_answer == theirs


@given(
    st.lists(st.sampled_from(sorted({*r"ab09.^$()[]{}|*+?-\&~#,:<>=", "(?i)", r"\p", "é", "\n"}))),
    st.text(),
)
def test_what_is_taken_is_written_so_that_it_compiles(parts: list[str], name: str) -> None:
    """Rust's syntax refuses nothing that was taken: the error would not be a client's."""
    answered("".join(parts), (name,))


@given(st.text(max_size=20))
def test_what_is_quoted_matches_itself_alone(text: str) -> None:
    quoted = "".join(
        f"\\{char}" if char.isascii() and not char.isalnum() else char for char in text
    )
    assert compile_pattern(quoted).matches(text)
    assert not compile_pattern(quoted).matches(f"{text}a")


@pytest.mark.parametrize("name", sorted(UNICODE_CLASSES))
def test_every_class_of_unicode_is_one_of_rust_s(name: str) -> None:
    expression = rf"\p{{{name}}}|[^\P{{{name}}}]|(?i:\P{{^{name}}})"
    assert compile_pattern(expression).matches("x") in (False, True)
    assert not compile_pattern(rf"[^\p{{{name}}}\P{{{name}}}]").matches("x")


@given(
    st.sampled_from(["a", ".", r"(?i)[^k]", r"\pL", "a?|b*", "(a|b)+c"]),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=3),
)
def test_the_program_is_estimated_as_what_it_stands_for(
    inner: str, counts: list[tuple[int, int]]
) -> None:
    """A match may take as many steps as the instructions times the name's length."""
    short = long = f"({inner})"
    for least, optional_count in counts:
        short = f"({short}{{{least},{least + optional_count}}})"
        long = f"({long * least}{f'({long})?' * optional_count})"
    assert write_for_rust(short).instruction_count >= write_for_rust(
        long
    ).instruction_count - 2 * long.count("(")


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: "(" * depth + "a" + ")" * depth,
        lambda depth: "(b|c" * depth + r"(?i)[^\W]" + "d)*" * depth,
        lambda depth: "a" + "*(?i)" * (depth + 1),
    ],
)
def test_what_is_nested_as_deep_as_is_taken_compiles(nested: Callable[[int], str]) -> None:
    assert not compile_pattern(nested(DEPTH_MAX)).matches("x!")
    with pytest.raises(PatternError, match="deep"):
        write_for_rust(nested(DEPTH_MAX + 1))


# What a pattern of a client may cost.


COSTLY = "(a?){1000}" * 10 + "x"
TOPIC_NAME_MAX = 249


@pytest.mark.parametrize(
    "pattern",
    ["orders-.*", "(?i)[a-z0-9._-]+", r"[\pL\pN]+", "|".join(map("orders-{}".format, range(500)))],
)
def test_what_people_write_is_taken(pattern: str) -> None:
    assert compile_pattern(pattern).matches("orders-7") == (pattern != r"[\pL\pN]+")


@pytest.mark.parametrize("pattern", [COSTLY, "x" * (BYTES_MAX + 1), "(", "(?=a)"])
def test_what_is_too_large_or_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


def test_every_pattern_that_is_taken_can_be_matched_with_every_name_of_a_topic() -> None:
    largest = f"(a?){{1000}}(a?){{1000}}(a?){{{INSTRUCTIONS_MAX // 3 - 2001}}}x"
    assert INSTRUCTIONS_MAX - 3 <= write_for_rust(largest).instruction_count <= INSTRUCTIONS_MAX
    assert not compile_pattern(largest).matches("a" * TOPIC_NAME_MAX)
    with pytest.raises(PatternError, match="instructions"):
        compile_pattern(f"{largest}(a?){{3}}")


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)b", "a?a?a?a?a*a*a*b", r"(\w+\w*)*b"]
)
def test_time_grows_no_faster_than_a_name(pattern: str) -> None:
    """With a name eight times as long, a quadratic match would take 64 times as long."""

    def cost(length: int) -> float:
        name, costs = "a" * length + "ba", []
        for _ in range(7):
            start = time.process_time()
            assert not compile_pattern(pattern).matches(name)
            costs.append(time.process_time() - start)
        return min(costs)

    assert cost(32_000) < 24 * cost(4_000)


@pytest.mark.parametrize(
    "costly",
    [
        r"(?i)[\x{80}-\x{10ffff}]",
        r"(?i)[\Wa]",
        r"(?i)[\p{Any}a]",
        r"\pL",
        "(?i:[Ā-鿿])",
        "[^a]",
        ".",
    ],
)
def test_what_takes_long_to_compile_counts_for_much(costly: str) -> None:
    """20 ms for the largest pattern; 200 ms are what a busy machine makes of them."""
    often = INSTRUCTIONS_MAX // write_for_rust(costly).instruction_count
    start = time.process_time()
    compile_pattern(costly * often)
    assert time.process_time() - start < 0.2
    with pytest.raises(PatternError, match="instructions"):
        compile_pattern(costly * (2 * often + 2))


def test_a_long_name_is_refused_by_a_large_program_and_matched_by_a_small_one() -> None:
    name = "a" * (STEPS_MAX // 1_000)
    with pytest.raises(PatternError):
        compile_pattern("(a?){1000}x").matches(name)
    assert compile_pattern("a+").matches(name)
    assert compile_pattern("a+").weight(name) < compile_pattern("(a?){1000}x").weight(name)


def test_descriptions_of_a_schema_have_no_indentation_of_docstrings() -> None:
    schema = {
        "description": "One line,\n    and another.\n\n    Args:\n        x: A number.",
        "a": [1],
    }
    assert with_clean_descriptions({"$defs": {"A": schema}}) == {
        "$defs": {
            "A": {
                "description": "One line,\nand another.\n\nArgs:\n    x: A number.",
                "a": [1],
            }
        }
    }
