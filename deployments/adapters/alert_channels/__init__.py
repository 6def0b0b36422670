"""Where alerts go to: one module for each kind of channel, each with `send`."""
