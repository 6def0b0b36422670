"""The edge: what is asked of us beside the path of a model's answers, in a process of its own."""
