"""WriteShareGroupState (key 85): a leader writes the delivery states of records.

Versions: 1 adds the number of completed deliveries (KIP-1226). Kafka's counterpart:
ShareCoordinatorService.writeState.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._share_states.share_partitions import handler_of, refuse, subject
from txnsim.interbroker.share_state import WriteShareState

__all__ = ["API_KEY", "handle", "refuse", "subject"]

API_KEY: Final = 85

handle = handler_of(WriteShareState)
