"""Legacy text completions at their boundary."""
