"""The page: its files, how they are served, and pages with their runs in one file."""
