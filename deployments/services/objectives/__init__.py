"""Acts on promises: time set aside by the three seats."""
