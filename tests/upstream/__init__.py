"""Tests of the room that talks to backends."""
