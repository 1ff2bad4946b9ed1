"""InitializeShareGroupState (key 83): a share partition gets its first state, or a new one.

Version 0 alone. The group coordinator asks for it when members subscribe to a topic, and when
offsets are altered. Kafka's counterpart: ShareCoordinatorService.initializeState.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._share_states.share_partitions import handler_of, refuse, subject
from txnsim.interbroker.share_state import InitializeShareState

__all__ = ["KEY", "handle", "refuse", "subject"]

KEY: Final = 83

handle = handler_of(InitializeShareState, needs_partitions=False)
