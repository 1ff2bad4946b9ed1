"""What lies open in log directories, and what becomes of it; the life of one transactional id."""
