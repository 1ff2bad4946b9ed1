"""ReadShareGroupState (key 84): the state of a share partition, for its new leader.

Version 0 alone. The leader names its leader epoch, which fences the leaders before it. Kafka's
counterpart: ShareCoordinatorService.readState.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._share_states.share_partitions import handler_of, refuse, subject
from txnsim.interbroker.share_state import ReadShareState

__all__ = ["KEY", "handle", "refuse", "subject"]

KEY: Final = 84

handle = handler_of(ReadShareState)
