"""The configuration: read once from a file or the environment, checked whole, then frozen.

Nothing in it is looked up again while serving: globs are compiled, time-outs merged, secrets read.
"""

from proxy.settings.environment import NothingToServe, from_environment
from proxy.settings.loading import Loaded, load, load_with_sources
from proxy.settings.losses import LossPolicy
from proxy.settings.mistakes import Mistake, SettingsError, UnreadableFile
from proxy.settings.restarting import needs_restart
from proxy.settings.snapshot import (
    DEMO_UPSTREAM,
    Address,
    Breaker,
    Capacity,
    Drain,
    ModelRoute,
    ProfileEntry,
    ProtocolName,
    Retries,
    RouteTarget,
    Settings,
    Timeouts,
    Upstream,
)
from proxy.settings.watching import Sources, Watcher

__all__ = [
    "DEMO_UPSTREAM",
    "Address",
    "Breaker",
    "Capacity",
    "Drain",
    "Loaded",
    "LossPolicy",
    "Mistake",
    "ModelRoute",
    "NothingToServe",
    "ProfileEntry",
    "ProtocolName",
    "Retries",
    "RouteTarget",
    "Settings",
    "SettingsError",
    "Sources",
    "Timeouts",
    "UnreadableFile",
    "Upstream",
    "Watcher",
    "from_environment",
    "load",
    "load_with_sources",
    "needs_restart",
]
