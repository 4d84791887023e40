"""The chart, rendered as Helm renders it."""
