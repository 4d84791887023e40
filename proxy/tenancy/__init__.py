"""Who may do what, and how much of it: keys, policies, limits, budgets. It knows nothing of HTTP servers."""
