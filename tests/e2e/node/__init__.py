"""The Node SDKs against the proxy."""
