"""Stands in for a module of kafka-python's tests that is not in its source distribution."""


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Does nothing."""

    def stop(self) -> None:
        """Not ours to stop."""


class SpawnedService:
    """A stand-in for a broker from a distribution of Kafka."""

    def __init__(self, *_arguments: object) -> None:
        raise NotImplementedError("no distribution of Kafka to start a broker from")
