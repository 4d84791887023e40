"""What tenants may do: rules that contradict each other, and limits that never hold.

A contradiction is told where one of its sides is said: of the defaults once, and not of each tenant.
"""

import fnmatch
from itertools import product

from proxy.settings.document import Document
from proxy.settings.globs import name_between
from proxy.settings.policies import Policy, number, policies, texts

_RULES = (("models",), ("tools", "functions"), ("tools", "hosted"), ("tools", "mcp_servers"))
# Of each pair the first can't be more than the second.
_LIMITS = (("streams", "concurrency"), ("rpm", "rpd"), ("tpm", "tpd"))


def cross_check_policies(document: Document) -> None:
    for policy in policies(document):
        for rules in _RULES:
            _check_rules(document, policy, rules)
        _check_limits(document, policy)
        _check_default_model(document, policy)
        _check_metadata(document, policy)


def _check_rules(document: Document, policy: Policy, rules: tuple[str, ...]) -> None:
    says = [policy.says(*rules, side) for side in ("allow", "deny")]
    section = policy.section(*rules)
    allow, deny = texts(section.get("allow")), texts(section.get("deny"))
    if not (any(says) and allow and deny):
        return
    refused = [index for index, pattern in enumerate(allow) if name_between([pattern], deny) is None]
    at = (*policy.at, *rules, "allow")
    if len(refused) == len(allow):
        document.note(at, "deny refuses all of it")
    elif all(says):  # else a tenant takes away a part of what the defaults allow
        for index in refused:
            document.note((*at, index), f"deny refuses all of {allow[index]!r}")


def _check_limits(document: Document, policy: Policy) -> None:
    limits = policy.section("limits")
    for smaller, larger in _LIMITS:
        few, many = number(limits.get(smaller)), number(limits.get(larger))
        if few is None or many is None or few <= many:
            continue
        if said := [key for key in (smaller, larger) if policy.says("limits", key)]:
            document.note((*policy.at, "limits", said[0]), f"{smaller} is more than {larger}, so it never holds")


def _check_default_model(document: Document, policy: Policy) -> None:
    models = policy.section("models")
    name = models.get("default")
    if not isinstance(name, str) or not any(policy.says("models", key) for key in ("default", "allow", "deny")):
        return
    at = (*policy.at, "models", "default")
    allow, deny = models.get("allow"), models.get("deny")
    if (allow is not None and not _matches(name, texts(allow))) or _matches(name, texts(deny)):
        document.note(at, f"{name!r} is not allowed by allow and deny")
    routes = texts([entry.get("match") for _, entry in document.entries("models")])
    if routes and not _matches(name, routes):
        document.note(at, f"{name!r} goes nowhere: no match of models is true of it")


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(*pair) for pair in product([name], patterns))


def _check_metadata(document: Document, policy: Policy) -> None:
    if not policy.says("forward_metadata") or not (policy.of_tenant or policy.says("metadata")):
        return
    known = policy.section("metadata")
    for index, key in enumerate(texts(policy.own.get("forward_metadata"))):
        if key not in known:
            document.note((*policy.at, "forward_metadata", index), f"metadata has no {key!r}")
