"""Modules that WebAssembly lacks, as far as the simulator needs them there.

Each takes the place of a library's module by being copied to where that lies (``build``).
"""
