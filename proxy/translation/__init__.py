"""What all pairs of protocols need to be translated into each other."""
