"""Alerts: raised by the engine, told through channels, seen to by people."""
