"""The lab: experiments with a cluster, simulated or real. It knows ``txnsim``: the cluster, its
client, its trace. It does not know Spark: the engine that runs a campaign on many machines
registers itself (``txnsim.on_demand_imports``).

- ``scenario``: stories, lessons, runs that are driven.
- ``check``: judges of what clients saw.
- ``simulation``: runs drawn from seeds; ``campaigns`` of them.
- ``exploration``: every order of a small cluster's messages, within bounds.
- ``target``: a cluster that stories and the exam are played on, simulated or real.
- ``exam``: an exam for client libraries.
- ``conformance``: what a real Kafka answered, asked of any broker.
- ``badge``: a badge of what a run of either came to.
- ``referee``: two designs of a change, played against each other.
- ``trace``: explanations, differences, other formats.
- ``troubleshooting``: which section of docs/troubleshooting.md an error means.
- ``proxy``: faults in front of a real cluster.
- ``http``: the page, the site, and what the control port offers beyond the broker's.
- ``testing``: what ``txnsim.testing`` borrows.
- ``cli``: its commands.
"""
