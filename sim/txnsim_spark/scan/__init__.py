"""From files to columns: which segments there are, pieces of them, the compiled walk."""
