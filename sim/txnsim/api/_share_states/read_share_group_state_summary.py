"""ReadShareGroupStateSummary (key 87): the start offset of a share partition and its epochs.

Versions: 1 adds the number of completed deliveries (KIP-1226). The group coordinator sends it when
offsets are described. Kafka's counterpart: ShareCoordinatorService.readStateSummary.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._share_states.share_partitions import handler_of, refuse, subject
from txnsim.interbroker.share_state import ReadShareState

__all__ = ["API_KEY", "handle", "refuse", "subject"]

API_KEY: Final = 87

handle = handler_of(ReadShareState)
