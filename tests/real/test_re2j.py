"""Expressions that are drawn: RE2/J of Kafka's jars and ours take, refuse and match the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.test_text import answered
from tests.support.re2j import ask_re2j, draw_expressions
from txnsim.runtime.rng import RandomStreams

pytestmark = pytest.mark.real


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_drawn_expressions_come_to_the_same(seed: int) -> None:
    for theirs in ask_re2j(draw_expressions(RandomStreams(seed).stream("expressions"), 5_000)):
        assert answered(theirs.expression, theirs.matched_names + theirs.unmatched_names) == theirs
