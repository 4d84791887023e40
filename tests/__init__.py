"""Tests of Dragoman; the folders mirror those of `proxy`."""
