"""The broker: a simulated Kafka cluster for transactions, which speaks the real wire protocol.

It has the cores (transactions, groups, logs, metadata), the shells around them, storage, the wire
protocol, a client, configuration, the server, its control port, the commands that serve and
operate, and ``txnsim.testing``: a pytest plugin and ``SimulatedKafka``. It knows neither the lab
(stories, judges, simulation, page) nor Spark: both join by ``txnsim.on_demand_imports``, and with
nothing of them on the path it serves, and a stock client commits.
"""

from typing import Final

from txnsim import old_module_names

VERSION: Final = "0.2.0"
"""As pyproject.toml has it: metadata take long to read."""
TXNSIM: Final = f"txnsim {VERSION}"
"""As programs print it."""

old_module_names.install()
