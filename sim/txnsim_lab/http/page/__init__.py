"""The page: its files, how they are served, and the page with its runs in one file."""
