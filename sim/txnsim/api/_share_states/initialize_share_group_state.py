"""InitializeShareGroupState (key 83): set the initial state of a share partition, or reset it.

Only version 0. The group coordinator sends it when members subscribe to a topic, and when offsets
are altered. Kafka's counterpart: ShareCoordinatorService.initializeState.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._share_states.share_partitions import handler_of, refuse, subject
from txnsim.interbroker.share_state import InitializeShareState

__all__ = ["API_KEY", "handle", "refuse", "subject"]

API_KEY: Final = 83

handle = handler_of(InitializeShareState, needs_partitions=False)
