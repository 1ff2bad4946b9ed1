"""The broker: a simulated Kafka cluster for transactions, which speaks the real wire protocol.

The package has the cores (transactions, groups, logs, metadata), the shells around them, storage,
the wire protocol, a client, configuration, the server, its control port, the commands that serve
and operate, and ``txnsim.testing``: a pytest plugin and ``SimulatedKafka``. It imports neither the
lab (stories, judges, simulation, page) nor Spark: both join by ``txnsim.on_demand_imports``.
Without them it serves, and a stock client commits.
"""

from typing import Final

from txnsim import old_module_names

VERSION: Final = "0.2.0"
"""The same as in pyproject.toml; written here because reading a package's metadata takes long."""
TXNSIM: Final = f"txnsim {VERSION}"
"""Name and version as programs print them."""

old_module_names.install()
