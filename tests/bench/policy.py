"""`python -m tests.bench.policy`: what tenants cost a small request, and whether it matters how many there are.

The same proxy before the same backend, without tenants, with 10 and with 10,000 of them, whose keys, policies and
limits are all looked at for each request.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import orjson
import uvloop

from proxy.tenancy.keys import new_key
from tests.bench.load import ReplyError
from tests.bench.side_by_side import measure, report
from tests.bench.targets import StartError, Target, free_port, process, proxy_config
from tests.bench.wires import WIRES

PEPPER = "the pepper of the bench"
MOST = 10**12  # so that no limit is ever reached, but each is counted
COUNTS = (0, 10, 10_000)  # tenants


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.policy", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--client", choices=WIRES, default="chat")
    parser.add_argument("--backend", choices=WIRES, default="messages")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        with targets(options.backend) as (key, proxies):
            ways = {f"{count} tenants": target for count, target in proxies.items()}
            edit = partial(with_key, key=key)
            samples = uvloop.run(measure(options.client, ways, options.rounds, options.requests, edit=edit))
    except (StartError, ReplyError) as broken:
        print(f"no figures: {broken}", file=sys.stderr)
        return 1
    print(report(samples, f"{options.client}>{options.backend}, small requests"))
    return 0


@contextmanager
def targets(backend: str) -> Iterator[tuple[str, dict[int, Target]]]:
    """The key of one of the tenants, and a proxy for each number of them."""
    made = new_key(PEPPER.encode())
    with ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        port = free_port()
        command = ["tests.bench.backend", "--protocol", backend, "--port", str(port)]
        running.enter_context(process("backend", command, port, scratch))

        def proxy(tenants: int) -> Target:
            name, own = f"proxy-{tenants}", free_port()
            config = scratch / f"{name}.yaml"
            plain = orjson.loads(proxy_config(own, backend, f"http://127.0.0.1:{port}"))
            config.write_bytes(orjson.dumps(with_tenants(plain, made.kid, made.hash, tenants) if tenants else plain))
            pid = running.enter_context(process(name, ["proxy", "serve", "--config", str(config)], own, scratch))
            return Target(name, own, pid, backend)

        yield made.text, {count: proxy(count) for count in COUNTS}


def with_tenants(config: dict[str, object], kid: str, digest: str, count: int) -> dict[str, object]:
    """The configuration with `count` tenants, of whom the last has the key that is used."""
    tenants = [tenant(f"t{index}", *made) for index, made in enumerate(others(count - 1))]
    return {
        **config,
        "key_pepper": PEPPER,
        "state": {"carrier_keys": ["00" * 32]},
        "prices": [{"match": "*", "input": 3, "output": 15}],
        "tenants": [*tenants, tenant("used", kid, digest)],
    }


def others(count: int) -> Iterator[tuple[str, str]]:
    """Keys that nobody uses."""
    for _ in range(count):
        made = new_key(PEPPER.encode())
        yield made.kid, made.hash


def tenant(name: str, kid: str, digest: str) -> dict[str, object]:
    limits = {"rpm": MOST, "tpm": MOST, "concurrency": MOST, "budget": {"usd": 10**9}}
    return {"name": name, "keys": [{"kid": kid, "hash": digest}], "models": {"allow": ["bench-*"]}, "limits": limits}


def with_key(request: bytes, key: str) -> bytes:
    """Any request's own keys are another's, and two that disagree are refused."""
    head, _, body = request.partition(b"\r\n\r\n")
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"authorization:", b"x-api-key:"))]
    return b"\r\n".join([*kept, f"authorization: Bearer {key}".encode()]) + b"\r\n\r\n" + body


if __name__ == "__main__":
    sys.exit(main())
