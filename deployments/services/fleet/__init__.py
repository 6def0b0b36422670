"""Nodes, and what is placed on them."""
