"""The simulator measured against a real Apache Kafka, in the same run on the same machine.

``run`` is the command; ``measure`` says what happens to a server in a round, ``servers`` how
each is started, ``generator`` and ``librdkafka`` put load on it, ``figures`` lists what comes
out with its target, ``report`` makes medians, ratios and the table, ``build`` makes the binaries
and the environment that are measured. The raw load generator is the Go program in ``load/``.
"""

import os

# Users keep compiled modules. Without them every start of a process would compile all of it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
