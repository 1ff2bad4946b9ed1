"""Coverage-guided fuzzing of everything that reads what others have written (README.md)."""
