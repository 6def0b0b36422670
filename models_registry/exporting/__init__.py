"""Programs that run in the sandbox, and the protocol that they speak; none imports Django."""
