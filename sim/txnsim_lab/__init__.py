"""The lab: what is done with a cluster, simulated or real.

It has stories (``scenario``), judges of what clients saw (``check``), runs drawn from seeds
(``simulation``) and campaigns of them, the exam for client libraries, views of traces, lessons, the
page, the site, and the fault proxy. It knows ``txnsim``: the cluster, its client, its trace. It
refuses to know Spark: what spreads a campaign over a cluster of machines registers itself
(``txnsim.extensions``).
"""
