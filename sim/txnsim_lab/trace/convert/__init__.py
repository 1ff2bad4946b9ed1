"""Converts a trace to the formats of other tools. Each module has one: ``convert(run) -> str``."""
