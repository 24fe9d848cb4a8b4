"""Processes that replicate do without pandas and numpy, whichever other packages are installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from mirror.runtime.without_pandas import leave_out_pandas


def test_pandas_and_numpy_are_not_found_and_other_packages_are(monkeypatch):
    """Packages that look for numpy in sys.modules, as hypothesis does, must not find a placeholder."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("numpy", "pandas"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    leave_out_pandas()
    for name in ("numpy", "pandas"):
        assert importlib.util.find_spec(name) is None
        assert name not in sys.modules
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    assert importlib.util.find_spec("pyarrow") is not None
