"""What Spark is asked for before anything is replicated."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from py4j.java_gateway import is_instance_of

from mirror.errors import SettingsError
from mirror.spark import session


def cluster(*cores: int):
    """A session of a cluster whose executors come one after the other."""
    offers = iter(cores)

    class Context:
        offered = 0

        @property
        def defaultParallelism(self) -> int:  # noqa: N802 - Spark's name
            self.offered = next(offers, self.offered)
            return self.offered

    return SimpleNamespace(sparkContext=Context(), stop=lambda: None)


def test_a_cluster_without_room_for_both_lanes_is_refused_by_what_it_lacks(monkeypatch):
    monkeypatch.setattr(session, "CORES_WITHIN_S", 0.0)
    with pytest.raises(SettingsError, match="the cluster offers 2 cores, expected 6"):
        session._await_cores(cluster(2, 4), 6)


def test_executors_may_take_their_time(monkeypatch):
    monkeypatch.setattr(session.time, "sleep", lambda _: None)
    session._await_cores(cluster(2, 2, 4, 8), 6)


def test_repeated_requests_of_pyspark_to_the_jvm_are_cached():
    """At the end of each iterator PySpark asks what the exception is an instance of, a dozen times."""
    asked = []

    class Jvm:
        def __getattr__(self, name):
            asked.append(name)
            return SimpleNamespace(isInstanceOf=lambda kind, one: (kind, one), toPyRow=lambda row: row)

    gateway = SimpleNamespace(jvm=Jvm())
    session._keep_what_is_asked_for(gateway)
    assert len(asked) == 3
    assert all("." in name for name in asked), "a name without its package is looked for in nine of them"
    assert is_instance_of(gateway, "it", "java.lang.ArithmeticException") == ("java.lang.ArithmeticException", "it")
    assert gateway.jvm.PythonSQLUtils.toPyRow("row") == "row"
    assert len(asked) == 3


def test_settings_of_another_spark_have_no_effect(monkeypatch, caplog):
    caplog.set_level("INFO", "mirror")
    for name in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR"):
        monkeypatch.setenv(name, "/opt/another")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
        monkeypatch.setenv(name, "")
    session._prepare_environment(is_here=False)
    assert not {"SPARK_HOME", "PYSPARK_SUBMIT_ARGS"} & os.environ.keys()
    assert os.environ["HADOOP_CONF_DIR"], "a cluster's may be meant"
    assert caplog.messages == [
        "ignoring environment variables SPARK_HOME, PYSPARK_SUBMIT_ARGS: kafka-mirror has its own Spark"
    ]


def test_the_jvm_has_the_folders_that_python_has(monkeypatch):
    monkeypatch.setattr(session.tempfile, "gettempdir", lambda: "/data/my tmp")
    assert session._folders() == '"-Djava.io.tmpdir=/data/my tmp"'
    monkeypatch.setattr(session, "has_passwd_entry", lambda: False)
    monkeypatch.setenv("HOME", "/data/home")
    assert session._folders() == '"-Djava.io.tmpdir=/data/my tmp" "-Duser.home=/data/home"'


def test_a_read_only_machine_without_a_temporary_folder_is_refused(monkeypatch):
    def missing():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(session.tempfile, "gettempdir", missing)
    with pytest.raises(
        SettingsError, match=r"none of \$TMPDIR, /tmp and /var/tmp can be written\. Mount a folder at /tmp"
    ):
        session._folders()
