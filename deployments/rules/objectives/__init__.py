"""What contracts promise, and whether it is kept."""
