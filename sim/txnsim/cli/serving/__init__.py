"""Commands that run until a signal comes: ``txnsim proxy``, and what ``txnsim serve`` shares."""
