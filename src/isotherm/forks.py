"""Whether this process is a copy, by `fork`, of one in which JAX had started its threads."""

import os
import sys

_unusable = False


def is_fork_of_jax() -> bool:
    """Return whether JAX would hang in this process."""
    return _unusable


def _after_fork() -> None:
    global _unusable
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public name for it
    _unusable = _unusable or (bridge is not None and bridge.backends_are_initialized())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
