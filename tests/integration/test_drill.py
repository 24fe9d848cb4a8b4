"""A drill goes over and comes back on a canary: what it measures, whom it leaves alone, what is left of one that died."""

from __future__ import annotations

import pytest

from tests.integration.records import load as loaded
from tests.integration.test_switch import FLOW, pair

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
CANARY = "mirror-drill-primary-backup"


def test_a_drill_measures_a_switch_and_the_way_back_and_touches_nobodys_data(tmp_path):
    with pair(tmp_path, ["orders"], extra="mirror.drill.enabled = true\n") as clusters:
        with loaded(clusters.primary, "orders", rate=50):
            found = clusters.run("drill", FLOW, "--json")
        assert found.returncode == 0, found.stdout + found.stderr
        print(found.stdout, found.stderr)
