"""Programs that run in the sandbox, and the protocol that they speak; nothing here imports Django."""
