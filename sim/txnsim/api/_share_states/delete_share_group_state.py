"""DeleteShareGroupState (key 86): delete the state of a share partition.

Only version 0. The group coordinator sends it when offsets or the group are deleted. Kafka's
counterpart: ShareCoordinatorService.deleteState.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._share_states.share_partitions import handler_of, refuse, subject
from txnsim.interbroker.share_state import DeleteShareState

__all__ = ["API_KEY", "handle", "refuse", "subject"]

API_KEY: Final = 86

handle = handler_of(DeleteShareState)
