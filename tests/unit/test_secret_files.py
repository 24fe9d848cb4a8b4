"""Secrets that files have are read again after the files have changed."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from mirror.config.clients import client_options, confluent_options
from mirror.config.load import load
from mirror.config.secret_files import SecretFiles, fresh
from tests.certificates import identity

FILE = """\
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
security.protocol = SASL_SSL
sasl.mechanism = PLAIN
ssl.truststore.type = PEM
ssl.truststore.location = {folder}/ca.pem
config.providers = file, dir, env
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
A.sasl.jaas.config = ${{file:{folder}/secrets.properties:jaas}}
B.sasl.jaas.config = {module} required username="u" password="${{dir:{folder}:word}}";
"""
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'jaas = {MODULE} required username="u" password="{{}}";\n'


def replaced(file: Path, text: str) -> None:
    """Replace a file as a rotation does: a new file is renamed."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


@pytest.fixture
def flow(tmp_path):
    (tmp_path / "ca.pem").write_text(identity("one", is_authority=True).pem)
    (tmp_path / "secrets.properties").write_text(JAAS.format("first"))
    (tmp_path / "word").write_text("first")
    (tmp_path / "m.properties").write_text(FILE.format(folder=tmp_path, module=MODULE))
    (found,) = load(tmp_path / "m.properties").flows
    return pickle.loads(pickle.dumps(found))  # as workers get it


def test_a_new_connection_uses_the_password_that_the_file_has_now(flow, tmp_path):
    options = [client_options(flow.consumer), client_options(flow.producer)]
    assert [one.renewed().login.password for one in options] == ["first", "first"]
    replaced(tmp_path / "secrets.properties", JAAS.format("second"))
    replaced(tmp_path / "word", "second")
    assert [one.renewed().login.password for one in options] == ["second", "second"]
    assert [one.renewed().login.password for one in options] == ["second", "second"]


def test_a_new_client_of_librdkafka_does_too(flow, tmp_path):
    replaced(tmp_path / "secrets.properties", JAAS.format("second"))
    assert confluent_options(flow.source_admin)["sasl.password"] == "second"


def test_a_new_connection_trusts_what_the_store_has_now(flow, tmp_path):
    options = client_options(flow.consumer)
    before = options.tls.get_ca_certs()
    replaced(tmp_path / "ca.pem", identity("two", is_authority=True).pem)
    assert options.renewed().tls.get_ca_certs() != before


@pytest.mark.parametrize("text", ["other = x\n", "jaas = nonsense\n"])
def test_a_file_that_cannot_be_used_changes_nothing_and_is_logged_without_a_secret(flow, tmp_path, caplog, text):
    caplog.set_level(logging.INFO, "mirror")
    options = client_options(flow.consumer)
    replaced(tmp_path / "secrets.properties", text)
    assert options.renewed().login.password == "first"
    assert "nonsense" not in caplog.text
    replaced(tmp_path / "secrets.properties", JAAS.format("third"))
    assert options.renewed().login.password == "third"
    assert "third" not in caplog.text


def test_a_changed_file_is_reported_once(flow, tmp_path):
    files = SecretFiles(flow.consumer)
    assert not files.changed()
    replaced(tmp_path / "secrets.properties", JAAS.format("second"))
    assert files.changed()
    assert not files.changed()
    (tmp_path / "ca.pem").unlink()
    assert files.changed()


def test_values_of_the_environment_stay(monkeypatch, tmp_path):
    text = FILE.format(folder=tmp_path, module=MODULE).replace(f"${{dir:{tmp_path}:word}}", "${env:WORD}")
    (tmp_path / "ca.pem").write_text(identity("one", is_authority=True).pem)
    (tmp_path / "secrets.properties").write_text(JAAS.format("first"))
    (tmp_path / "m.properties").write_text(text)
    monkeypatch.setenv("WORD", "first")
    (flow,) = load(tmp_path / "m.properties").flows
    assert flow.producer.templates == {}
    assert fresh(flow.producer) == flow.producer
