"""Makes faults happen: counts and holds crossings, draws by chance and acts on the cluster.

- ``injector``: the interceptor that counts, holds and decides.
- ``armed_rule``: a rule in force.
- ``_rule_index``: which of the rules in force a crossing may meet.

``txnsim.faults`` declares the faults, and where each applies.
"""
