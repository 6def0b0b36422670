"""Versions tried before callers get them: by a sample, or under load."""
