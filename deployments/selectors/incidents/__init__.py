"""What went wrong, who is told, and the ways back: escalation and rollback."""
