"""A running broker whose handlers are asked directly."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.broker_api import Api, handlers
from tests.support.group_api import GroupApi, group_api


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Handlers of a single broker with the topic ``orders`` of three partitions."""
    async with handlers() as api:
        yield api


@pytest.fixture
async def api_of_three() -> AsyncIterator[Api]:
    """Handlers of the first of three brokers; partition n of ``orders`` is led by broker n + 1."""
    async with handlers(brokers=3) as api:
        yield api


@pytest.fixture
async def groups() -> AsyncIterator[GroupApi]:
    """A single broker that coordinates groups."""
    async with group_api() as api:
        yield api
