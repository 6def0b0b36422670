"""What moved first, and what happened around it."""
