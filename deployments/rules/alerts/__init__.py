"""What raises an alert, whom it is told to, and what keeps it quiet."""
