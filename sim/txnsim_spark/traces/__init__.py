"""Event traces as tables, and analyses of them."""
