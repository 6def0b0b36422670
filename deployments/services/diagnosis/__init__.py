"""Finding out why something does not work."""
