"""Attacks on a running server, each with its figures: ``python -m tests.attacks NAME``.

An attack is a function that is given a ``Target`` and answers how many bytes it has sent. The rig
(``rig``) starts ``txnsim serve`` in a process of its own on picked ports, with a ticker on the
server's event loop (``ticking_server``), and a neighbour in another process (``neighbour``), which
produces small batches all the time. README.md beside this file tells how to add an attack.
"""
