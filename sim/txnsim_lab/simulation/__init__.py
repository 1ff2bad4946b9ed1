"""Runs drawn from a seed: clients with bad habits, a cluster with bad luck, judges at the end.

A **plan** (``plan``) is data: who acts, what each does in turn, after which pauses, and the
cluster it happens in. It is drawn from the seed before the run (``drawing``), by weights that were
fixed before any bug was looked for (``defaults``). What actors do is said in the words of scenario
files, and scenarios' actors do it; only here they act at once, and an error ends nothing.

``play`` plays a plan in virtual time. Findings are what the judges of histories and the
invariants (``invariants``) hold against it. ``shrinking`` leaves out what a finding does not need;
``story`` writes the rest as a scenario file, ``causes`` compares it with the known anomalies.

Nothing here knows a bug: a plan is drawn, a run is judged, and only then is it given a name.
"""
