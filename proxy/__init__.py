"""Dragoman: a reverse proxy that translates between the wire protocols of LLM APIs."""

__version__ = "0.1.0"
