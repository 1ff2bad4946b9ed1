"""Orders in, receipts out, at least once: a failed order comes again."""

from collections.abc import Callable

from faststream import AckPolicy
from faststream.confluent import KafkaBroker


def receipt_service(
    bootstrap: list[str], *, name: str, orders: str, receipts: str, notify: Callable[[str], None]
) -> KafkaBroker:
    """A broker of FastStream with one handler, ready to be started."""
    # Idempotent: a receipt whose answer is lost is sent again, and is there once.
    broker = KafkaBroker(bootstrap, enable_idempotence=True, acks="all")

    @broker.subscriber(
        orders,
        group_id=name,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    @broker.publisher(receipts)
    async def receipt(order: str) -> str:
        notify(order)
        return f"receipt of {order}"

    return broker
