"""The fixture of a partition's log."""

from __future__ import annotations

import pytest

from tests.support.logs import LogDriver


@pytest.fixture
def driver() -> LogDriver:
    """A log of one partition that the test appends to step by step."""
    return LogDriver()
