"""Faults made to happen: counts, holds, chance and actions on the cluster.

What is declared, and what means something where, stands in ``txnsim.faults``, purely.
"""
