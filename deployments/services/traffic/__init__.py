"""Endpoints and their splits: which version gets which calls."""
