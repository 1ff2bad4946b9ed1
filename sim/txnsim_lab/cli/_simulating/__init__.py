"""Commands that play runs from seeds."""
