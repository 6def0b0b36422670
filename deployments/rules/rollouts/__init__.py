"""Progressive rollouts: the plan, what measurements come to, and what to do next. All pure."""
