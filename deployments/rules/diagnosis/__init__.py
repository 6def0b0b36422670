"""Why something does not work: pure rules over what was looked at."""
