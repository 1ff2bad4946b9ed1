"""Breaks the product line by line, in memory, and asks which tests notice (README.md)."""
