"""What `dragoman` does beside serving: each module adds one command to the parser."""
