"""Processes that replicate do without pandas and numpy, whichever other packages are installed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirror.runtime.without_pandas import leave_out_pandas

ROOT = Path(__file__).resolve().parents[2]


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


SHOWN = """
import importlib.util, json, sys
from mirror.spark.replication_source import LaneReader
print(json.dumps([sys.argv, importlib.util.find_spec("numpy") is not None, sorted(sys.modules)]))
"""


def test_a_process_that_plans_windows_loads_neither_numpy_nor_a_kafka_client(tmp_path):
    """Spark runs several such processes. Each took 20 to 30 MiB more with these modules."""
    (tmp_path / "shown.py").write_text(SHOWN)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {**os.environ, "KAFKA_MIRROR_PYTHON": sys.executable, "KAFKA_MIRROR_PYTHONPATH": paths}
    command = ["sh", str(ROOT / "mirror" / "spark" / "python.sh"), "-m", "shown", "one", "-m"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60)
    arguments, has_numpy, modules = json.loads(done.stdout)
    assert arguments == [str(tmp_path / "shown.py"), "one", "-m"]
    assert not has_numpy
    assert not [name for name in modules if name.startswith(("mirror.kafka", "confluent_kafka", "kio", "pandas"))]
