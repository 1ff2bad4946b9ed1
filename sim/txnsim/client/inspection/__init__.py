"""Transactions seen as an operator sees them: what hangs, why readers wait, what repairs it."""
