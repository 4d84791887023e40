"""Tests of what the operator is told."""
