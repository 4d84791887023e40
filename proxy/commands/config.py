"""`dragoman config`: what a configuration may say."""

import argparse
import json


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    config = commands.add_parser("config", help="say what a configuration may hold")
    kinds = config.add_subparsers(required=True, metavar="ACTION")
    schema = kinds.add_parser("schema", help="print its JSON Schema, for editors")
    schema.set_defaults(command=_schema)


def _schema(_parsed: argparse.Namespace) -> int:
    from proxy.settings.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
