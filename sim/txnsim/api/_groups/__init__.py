"""Handlers about groups: members, committed positions, administration."""
