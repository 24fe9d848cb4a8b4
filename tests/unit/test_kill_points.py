"""The kill points of the soak: each is still in the code, and the process that comes there dies, once."""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.hooks import sitecustomize
from tests.soak.hooks.sitecustomize import DEAD, DIE_AT, POINTS

ROOT = Path(__file__).resolve().parents[2]
PASS = """
from mirror.model.offset_map import OffsetRun
from mirror.model.offset_map_tail import Tail
for _ in range(3):
    Tail("0,0,7").moved(OffsetRun(0, 0, 7))
"""


@pytest.mark.parametrize("name", POINTS)
def test_a_point_is_a_function(name):
    point = POINTS[name]
    assert callable(functools.reduce(getattr, point.function.split("."), importlib.import_module(point.module)))


def passed(file: Path, *, hooked: bool = True) -> int:
    paths = [str(Path(sitecustomize.__file__).parent), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths if hooked else paths[1:]), DIE_AT: str(file)}
    return subprocess.run([sys.executable, "-c", PASS], env=environment, check=False, timeout=60).returncode


def test_a_process_dies_at_the_chosen_visit_of_a_kill_point(tmp_path):
    file = tmp_path / "die"
    assert passed(file) == 0
    for passes, died in ((3, -signal.SIGKILL), (4, 0)):
        file.write_text(json.dumps({"point": "when the offset map is written", "passes": passes, "moment_s": 0}))
        assert passed(file) == died
        assert file.exists() is (died == 0)
    assert file.with_suffix(DEAD).read_text().isdigit(), "it left its process id"
    file.write_text(json.dumps({"point": "when the offset map is written", "passes": 1, "moment_s": 0}))
    assert passed(file, hooked=False) == 0, "who has no such path has no such points"
