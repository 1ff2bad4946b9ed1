"""Event traces as tables, what is asked of them, and figures."""
