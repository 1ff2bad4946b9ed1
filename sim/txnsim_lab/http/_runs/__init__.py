"""Scenarios that the control port runs: posted runs, runs that are driven, lessons."""
