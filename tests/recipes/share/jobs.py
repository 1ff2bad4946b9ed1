"""Members of a share group: each job goes to one of them, and to another one if it fails."""

from collections.abc import Callable

from confluent_kafka import AcknowledgeType, ShareConsumer


def job_worker(bootstrap: str, *, group: str, jobs: str) -> ShareConsumer:
    """A member that says of each job what became of it."""
    member = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
    )
    member.subscribe([jobs])
    return member


def work(member: ShareConsumer, handle: Callable[[str], None]) -> None:
    """Handle what comes within a moment, and tell the brokers."""
    for message in member.poll(0.2):
        if message.error() is not None:
            continue  # librdkafka asks again
        try:
            handle(message.value().decode())
        except ValueError:
            member.acknowledge(message, AcknowledgeType.REJECT)  # no member could do it
        except ConnectionError:
            member.acknowledge(message, AcknowledgeType.RELEASE)  # it comes again
        else:
            member.acknowledge(message, AcknowledgeType.ACCEPT)
    for failure in member.commit_sync(15.0).values():
        if failure is not None:
            raise RuntimeError(str(failure))
