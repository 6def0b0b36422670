"""Progressive rollouts."""
