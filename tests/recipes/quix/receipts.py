"""Orders in, receipts out: what is between two commits of Quix Streams is one transaction."""

from collections.abc import Callable
from pathlib import Path

from quixstreams import Application


def receipt_service(
    bootstrap: str,
    *,
    name: str,
    orders: str,
    receipts: str,
    state_dir: Path,
    notify: Callable[[str], None],
) -> Application:
    """An application that is ready to run."""
    application = Application(
        broker_address=bootstrap,
        consumer_group=name,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_every=3,
        state_dir=state_dir,
        # An id of its own: the next instance fences this one and aborts what it left open.
        producer_extra_config={"transactional.id": name, "transaction.timeout.ms": 10_000},
    )
    source = application.topic(orders, value_deserializer="str")
    sink = application.topic(receipts, value_serializer="str")
    rows = application.dataframe(source)
    rows = rows.apply(lambda order: f"receipt of {order}")
    rows = rows.to_topic(sink)
    rows.update(notify)
    return application
