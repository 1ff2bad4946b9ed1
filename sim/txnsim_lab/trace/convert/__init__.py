"""A trace in the formats of other tools. Each module has one: ``convert(run) -> str``."""
