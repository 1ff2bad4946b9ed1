"""What is fuzzed, a module per kind of input."""
