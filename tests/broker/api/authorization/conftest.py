"""A broker with an authorizer, asked as ``alice``, who may do nothing yet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.broker_api import handlers
from tests.support.security import GuardedApi


@pytest.fixture
async def api() -> AsyncIterator[GuardedApi]:
    """Handlers of a single broker with the topics ``orders`` and ``hidden``."""
    topics = (("orders", 1), ("hidden", 1))
    async with handlers(topics=topics, group_consumer_assignment_interval_ms=0) as api:
        yield GuardedApi(api)
