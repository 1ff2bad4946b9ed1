"""ReadShareGroupState (key 84): read the state of a share partition, for its new leader.

Only version 0. The request has the leader's epoch, which fences earlier leaders. Kafka's
counterpart: ShareCoordinatorService.readState.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._share_states.share_partitions import handler_of, refuse, subject
from txnsim.interbroker.share_state import ReadShareState

__all__ = ["API_KEY", "handle", "refuse", "subject"]

API_KEY: Final = 84

handle = handler_of(ReadShareState)
