"""What is counted: readings, roll-ups, live numbers and their charts."""
