"""Runs drawn from a seed: clients with bad habits, a cluster with bad luck, judges at the end.

A **plan** (``plan``) is data: the actors, the acts of each in order, the pauses between them, and
the cluster. It is drawn from the seed before the run (``drawing``), by weights that were fixed
before any bug was looked for (``_defaults``). Acts are written like steps of scenario files, and
the actors of scenarios perform them. Unlike in a scenario, all actors act at the same time, and an
error does not end the run.

- ``drawing``, with ``_client_behaviour``, ``_disturbances``, ``_curious_requests``,
  ``_further_features`` and ``_dice``: draw a plan from a seed; ``guests`` runs a user's workload.
- ``play``: plays a plan in virtual time, within a limit; ``_curious_client`` sends arbitrary
  requests.
- Findings come from the judges of histories and from ``_invariants``, which check the cluster at
  the end; ``_running_invariants`` check it during the run, ``_broker_promises`` check the answers
  of brokers.
- ``_shrinking`` leaves out what a finding does not need; ``_causes`` compares the rest with the
  known anomalies; ``reports`` writes it as a scenario file and, with ``_sentences``, as text.
- ``seed_batch``, ``guide``: play many seeds, and choose them; ``differential`` plays one seed in
  two clusters.

This package does not search for known bugs: a plan is drawn, its run is judged, and only then is a
finding compared with known anomalies.
"""
