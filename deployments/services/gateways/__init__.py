"""Gateways: what each can do, what it should serve, its certificates."""
