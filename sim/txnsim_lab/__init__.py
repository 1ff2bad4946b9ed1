"""Stories, judges, chance, views and lessons: what is done with a cluster, simulated or real.

It knows ``txnsim`` (a cluster, its client, its trace) and, inside functions, ``txnsim_spark``.
Nothing of either knows it: ``txnsim`` finds its commands and routes by name (``txnsim.parts``).
"""
