"""Model telemetry: drift of inputs, entropy of outputs, and what others send."""
