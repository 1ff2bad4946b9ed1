"""Abbreviations in a scenario file: ``blocks`` expands repeated steps, ``internal_partitions``
finds the internal partition of a group or a transactional id.
"""
