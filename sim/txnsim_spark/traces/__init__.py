"""Event traces as tables, and what is asked of them."""
