"""The versions and the device that a result depends on."""

import platform
from importlib import metadata

import jax

_PACKAGES = ("isotherm", "jax", "jaxlib", "equinox", "numpy")


def versions() -> dict[str, str]:
    """Return what a reader needs to repeat a run: packages, Python and the device."""
    device = jax.devices()[0]
    return {
        **{name: _version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "device": f"{device.platform}: {device.device_kind}",
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # run from a source tree
        return "not installed"
