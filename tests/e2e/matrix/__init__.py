"""Real clients, each protocol of a backend, all scenarios: run, and told in a page."""
