"""What several tests share: servers to start, builders, fakes."""
