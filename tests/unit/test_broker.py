"""A broker's storage is formatted by Kafka's tool once; other brokers get what it wrote, with ids of their own."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from mirror.embedded import broker as module
from mirror.embedded.broker import CHECKPOINT, Broker, read_properties


@pytest.fixture
def formatted(tmp_path, monkeypatch):
    """Formats brokers with a tool that notes for whom it was run."""
    by_tool: list[str] = []
    monkeypatch.setattr(module.jars, "resolve", lambda **_: tmp_path / "kafka-1.2.3")

    def tool(broker: Broker) -> None:
        by_tool.append(broker.name)
        (broker.data_dir / "data").mkdir()
        (broker.data_dir / "data" / CHECKPOINT).write_bytes(b"first metadata")

    monkeypatch.setattr(Broker, "_format_by_its_tool", tool)

    def one(name: str) -> Broker:
        folder = tmp_path / name
        folder.mkdir()
        made = Broker(
            name=name,
            data_dir=folder,
            port=1,
            cluster_id=f"cluster-of-{name}",
            heap="1m",
            detached=False,
            version="1.2.3",
        )
        made._format()
        return made

    one.by_tool = by_tool
    return one


def storage(broker: Broker) -> tuple[bytes, dict[str, str]]:
    data: Path = broker.data_dir / "data"
    return (data / CHECKPOINT).read_bytes(), read_properties(data / "meta.properties")


def test_the_second_is_formatted_as_the_first_was_with_its_own_ids(formatted):
    formatted("one")
    written, ids = storage(formatted("two"))
    third = storage(formatted("three"))[1]
    assert formatted.by_tool == ["one"]
    assert written == b"first metadata"
    assert ids | {"directory.id": ""} == {
        "version": "1",
        "cluster.id": "cluster-of-two",
        "node.id": "1",
        "directory.id": "",
    }
    assert ids["directory.id"] != third["directory.id"]


def test_two_brokers_can_be_formatted_at_the_same_time(formatted, monkeypatch, tmp_path):
    both, copy = Barrier(2, timeout=10), shutil.copyfile

    def together(source: Path, target: Path) -> None:
        copy(source, target)
        both.wait()

    monkeypatch.setattr(module.shutil, "copyfile", together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(formatted, ["one", "two"]))
    assert sorted(formatted.by_tool) == ["one", "two"]
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == [f"kafka-1.2.3.{CHECKPOINT}"]
