"""The configuration: read once from a file or the environment, checked whole, then frozen.

Nothing in it is looked up again while serving: globs are compiled, time-outs merged, secrets read.
"""

from proxy.settings.environment import NothingToServe, from_environment
from proxy.settings.loading import load
from proxy.settings.losses import LossPolicy
from proxy.settings.mistakes import Mistake, SettingsError, UnreadableFile
from proxy.settings.snapshot import (
    DEMO_UPSTREAM,
    Address,
    Drain,
    ModelRoute,
    ProfileEntry,
    ProtocolName,
    Settings,
    Timeouts,
    Upstream,
)

__all__ = [
    "DEMO_UPSTREAM",
    "Address",
    "Drain",
    "LossPolicy",
    "Mistake",
    "ModelRoute",
    "NothingToServe",
    "ProfileEntry",
    "ProtocolName",
    "Settings",
    "SettingsError",
    "Timeouts",
    "UnreadableFile",
    "Upstream",
    "from_environment",
    "load",
]
