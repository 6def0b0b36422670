"""Two versions compared: by their answers, by their numbers, by what they led to."""
