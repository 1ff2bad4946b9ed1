"""Scenarios that the control port runs: posted runs, driven runs, lessons."""
