"""Handlers about configs and client quotas."""
