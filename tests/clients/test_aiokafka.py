"""The checks of every client, through aiokafka over TCP."""

from __future__ import annotations

import pytest

from tests.clients.checklist import ProducerChecks, TransactionChecks
from tests.clients.drivers.aiokafka import Driver

pytestmark = pytest.mark.clients


class TestTransactions(TransactionChecks):
    driver = Driver


class TestProducers(ProducerChecks):
    driver = Driver
