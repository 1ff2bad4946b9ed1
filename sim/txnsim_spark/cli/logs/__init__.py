"""``txnsim logs``: one module for each of its commands."""
