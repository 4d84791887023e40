"""Tests of the conversation in no one's wire format."""
