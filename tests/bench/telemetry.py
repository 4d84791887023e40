"""`python -m tests.bench.telemetry`: what it costs to tell of requests: metrics and access records, and traces.

The same proxy before the same backend: telling nobody, as it is shipped, and with a tenth of its requests traced.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import uvloop

from tests.bench.load import ReplyError
from tests.bench.side_by_side import measure, report
from tests.bench.targets import StartError, Target, free_port, process, proxy_config
from tests.bench.wires import WIRES

SAMPLE = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.telemetry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--client", choices=WIRES, default="chat")
    parser.add_argument("--backend", choices=WIRES, default="messages")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    reports = []
    try:
        with targets(options.backend) as ways:
            for phase in ("small", "agent", "burst"):
                samples = uvloop.run(measure(options.client, ways, options.rounds, options.requests, phase=phase))
                reports.append(report(samples, f"{options.client}>{options.backend}, {phase}"))
    except (StartError, ReplyError) as broken:
        print(f"no figures: {broken}", file=sys.stderr)
        return 1
    print("\n".join(reports))
    return 0


@contextmanager
def targets(backend: str) -> Iterator[dict[str, Target]]:
    """A proxy for each way, before one backend."""
    with ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        port, collector = free_port(), free_port()
        command = ["tests.bench.backend", "--protocol", backend, "--port", str(port)]
        running.enter_context(process("backend", command, port, scratch))
        command = ["tests.bench.collector", "--port", str(collector)]
        running.enter_context(process("collector", command, collector, scratch))

        def proxy(name: str, module: str, telemetry: dict[str, object]) -> Target:
            own, config = free_port(), scratch / f"{name}.yaml"
            plain = orjson.loads(proxy_config(own, backend, f"http://127.0.0.1:{port}"))
            config.write_bytes(orjson.dumps({**plain, "telemetry": telemetry}))
            pid = running.enter_context(process(name, [module, "serve", "--config", str(config)], own, scratch))
            return Target(name, own, pid, backend)

        traces = {"endpoint": f"http://127.0.0.1:{collector}", "sample": SAMPLE}
        yield {
            "telling nobody": proxy("untold", "tests.bench.untold", {}),
            "metrics and records": proxy("told", "proxy", {}),
            "and 10 % traced": proxy("traced", "proxy", {"traces": traces}),
        }


if __name__ == "__main__":
    sys.exit(main())
