"""Limits that hold, seen from outside: real processes, a real Redis, clients and backends that misbehave."""
