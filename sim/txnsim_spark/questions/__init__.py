"""Which consumer groups wait behind an open transaction."""
