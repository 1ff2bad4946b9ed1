"""Clusters whose brokers coordinate groups."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.group_api import GroupApi, group_api


@pytest.fixture
async def groups() -> AsyncIterator[GroupApi]:
    """The group api of a cluster of one broker."""
    async with group_api() as api:
        yield api


@pytest.fixture
async def of_two() -> AsyncIterator[GroupApi]:
    """The group api of a cluster of two brokers."""
    async with group_api(brokers=2) as api:
        yield api
