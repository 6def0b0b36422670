"""Reading alerts, and the numbers that raise them."""
