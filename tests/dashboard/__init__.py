"""What operators look at: the dashboard, the alerts, and whether they say what a running proxy does."""
