"""What may go wrong between the proxy and its backends, and with clients: what is promised holds all the same."""
