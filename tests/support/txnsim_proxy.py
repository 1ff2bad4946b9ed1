"""``txnsim proxy`` as a process of its own, in front of a cluster that runs."""

from __future__ import annotations

from pathlib import Path

from tests.support.txnsim_server import TxnsimServer


class TxnsimProxy(TxnsimServer):
    """A fault proxy on free ports, as a context manager.

    Args:
        upstream: ``host:port`` of the cluster.
        arguments: Further arguments of ``txnsim proxy``.
    """

    def __init__(self, upstream: str, *arguments: str) -> None:
        super().__init__()
        self._command = "proxy"
        ports = ("--port", "0", "--http", "0")
        self._arguments = ("--bootstrap-server", upstream, *ports, *arguments)

    @property
    def memory_kb(self) -> int:
        """The resident memory of the proxy in kB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1])
