"""Who may call an endpoint, how often, and with what."""
