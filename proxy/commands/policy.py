"""`dragoman policy`: what a tenant may do, and what becomes of one request of theirs (operations.md 8.2)."""

import argparse
from typing import get_args

from proxy.settings.tenants import EndpointClass

_PROTOCOLS = ("chat", "responses", "messages", "completions")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    policy = commands.add_parser("policy", help="say what a tenant may do")
    kinds = policy.add_subparsers(required=True, metavar="ACTION")

    about = "print a tenant's policy with what tenant_defaults add to it"
    show = kinds.add_parser("show", help=about, description=about)
    show.add_argument("tenant", metavar="TENANT")
    _add_config(show)
    show.set_defaults(command=_show)

    about = "say what becomes of a request, rule by rule; 0: it is allowed, 1: refused, 2: it can't be told"
    explain = kinds.add_parser("explain", help="say what becomes of a request, rule by rule", description=about)
    explain.add_argument("--tenant", metavar="NAME", required=True)
    explain.add_argument("--protocol", choices=_PROTOCOLS, help="the one that the client speaks")
    explain.add_argument("--endpoint", choices=get_args(EndpointClass), default="generate", help="default: generate")
    explain.add_argument("--ip", metavar="ADDRESS", help="the client's address")
    explain.add_argument("--model", metavar="NAME", help="default: the one in the request, or the tenant's default")
    explain.add_argument("request", metavar="REQUEST.json", nargs="?", help="the request's body; -: standard input")
    _add_config(explain)
    explain.set_defaults(command=_explain)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", required=True, help="a configuration, or its folder")


def _show(parsed: argparse.Namespace) -> int:
    from proxy.commands.policy_show import show

    return show(parsed.config, parsed.tenant)


def _explain(parsed: argparse.Namespace) -> int:
    from proxy.commands.policy_explain import explain

    return explain(parsed)
