"""What a judge changes in this process is put back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)
