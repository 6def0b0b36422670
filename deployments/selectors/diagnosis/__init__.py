"""Reading what was found out, and what shows where time and memory go."""
