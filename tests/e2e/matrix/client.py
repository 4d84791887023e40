"""What a client of the matrix is: its pins, how it is pointed at the proxy, and what it does not offer.

The settings are templates over {url} (of the proxy), {key}, {model}, {prompt} and {home}; the run fills them with its
own, the page with what a reader has. So what the page tells is what was run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.matrix.install import Environment
from tests.harness.wire import Protocol

DRIVERS = Path(__file__).parent / "drivers"


@dataclass(frozen=True)
class Settings:
    """environment: variables. files: by their path from the user's home. command: of a program for the command line."""

    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Client:
    """One program by one protocol: a row of the matrix.

    driver: our program that makes it do a scenario, in `drivers`; it gets the protocol and `arguments`. package: the
    one of the environment that the client is, unless it is the first. calls: how the model calls the client's own
    tools, with {city} for what the result is to tell; those that run our tool need none. structured, image: what
    directs the model there, with {value} and {picture}, where the client has its own way. refused: the rule, reason
    or status by which the proxy has to refuse, by scenario and protocol of the backend. lacks: why scenarios are not
    offered, by name. quiet, quiet_files: what keeps it from calling home. quick: whether every change is held to it.
    """

    name: str
    protocol: Protocol
    environment: Environment
    driver: str
    settings: Settings
    model: str
    arguments: tuple[str, ...] = ()
    package: str = ""
    calls: str = 'get_weather {"city": "{city}"}'
    structured: str = "[[json {value}]]"
    image: str = "[[plain]]"
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    quiet: Mapping[str, str] = field(default_factory=dict)
    quiet_files: Mapping[str, str] = field(default_factory=dict)
    quick: bool = False

    @property
    def row(self) -> str:
        return f"{self.name} ({self.protocol})"

    @property
    def version(self) -> str:
        """The pin of the package that the client is."""
        separator = "@" if self.environment.registry == "npm" else "=="
        pins = dict(pin.rpartition(separator)[::2] for pin in self.environment.packages)
        return pins[self.package] if self.package else next(iter(pins.values()))
