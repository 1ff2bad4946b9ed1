"""Tests of txnsim; the map is in README.md."""
