"""A broker with an authorizer, asked as ``alice``, who may do nothing yet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.handlers import handlers
from tests.support.security import GuardedApi


@pytest.fixture
async def api() -> AsyncIterator[GuardedApi]:
    """Handlers of a single broker with the topics ``orders`` and ``hidden``."""
    async with handlers(topics=(("orders", 1), ("hidden", 1))) as found:
        yield GuardedApi(found)
