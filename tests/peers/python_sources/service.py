"""Stands in for a module of kafka-python's tests that is not in its source distribution."""


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Not ours to stop."""


class SpawnedService:
    """A broker from a distribution of Kafka, which there is not."""

    def __init__(self, *_arguments: object) -> None:
        raise NotImplementedError("no distribution of Kafka to start a broker from")
