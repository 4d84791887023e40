"""The test harness: both ends of an exchange, and the judges of what passed between them."""
