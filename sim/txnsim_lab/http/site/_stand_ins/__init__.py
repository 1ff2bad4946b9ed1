"""Modules that WebAssembly lacks, as far as the simulator needs them there.

``build`` copies each to the place of the library's module that it replaces.
"""
