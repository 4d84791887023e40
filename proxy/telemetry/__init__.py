"""What the proxy tells its operator: one access record a request, and messages; neither ever holds a secret."""
