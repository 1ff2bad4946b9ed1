"""Commands that play runs of seeds."""
