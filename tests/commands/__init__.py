"""Tests of what an operator asks of the command line."""
