"""Runs drawn from a seed: clients with bad habits, a cluster with bad luck, judges at the end.

A **plan** (``_plan``) is data: who acts, what each does in turn, after which pauses, and the
cluster it happens in. It is drawn from the seed before the run (``drawing``), by weights that were
fixed before any bug was looked for (``_defaults``). What actors do is said in the words of scenario
files, and scenarios' actors do it; only here they act at once, and an error ends nothing.

- ``drawing``, with ``_client_behaviour``, ``_disturbances``, ``_curious_requests``,
  ``_further_features`` and ``_dice``: from a seed to a plan; ``guests`` are workloads of users.
- ``play``: a plan in virtual time, within a limit; ``_curious_client`` is a curious client.
- Findings are what judges of histories and ``_invariants`` hold against it; ``_running_invariants``
  and ``_broker_promises`` look at what holds meanwhile.
- ``_shrinking`` leaves out what a finding does not need; ``_causes`` compares the rest with the
  known anomalies; ``reports`` writes it as a scenario file and, with ``_sentences``, for people.
- ``seed_batch``, ``guide``: many seeds, and which; ``differential``: one in two clusters.

Nothing here knows a bug: a plan is drawn, a run is judged, and only then is it given a name.
"""
