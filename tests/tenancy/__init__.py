"""Tests of who may do what, and how much of it."""
