"""Tests on real data use the files that are on this machine. They never download any."""

import os

import pytest

WITHOUT_DATA = "data set not found"  # every skip because of missing data has a reason that begins with this


def need(name):
    """Skip the test if a file of this data set is missing. Under continuous integration, fail instead."""
    # conftest.py imports this module before the type checks of isotherm are installed: import isotherm later.
    from isotherm.data.sets import catalogue, fetch

    if all(fetch.find(file) is not None for file in catalogue.ENTRIES[name].files):
        return
    reason = f"{WITHOUT_DATA}: {name} is neither in the folder that {fetch.FOLDER} names nor in the cache"
    pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
