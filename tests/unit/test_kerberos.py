"""GSSAPI: what a file may say of tickets. No center is asked."""

from __future__ import annotations

import pytest

from mirror.config import clients, sasl
from mirror.config.sasl import Kerberos, Login
from mirror.config.values import ClientError
from tests.unit.test_clients import refused_by_key_without_secrets

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
KEYTAB = 'useKeyTab=true storeKey=true keyTab="/keys/mirror" principal="mirror@REALM"'
JAAS, SERVICE = "sasl.jaas.config", "sasl.kerberos.service.name"


def java(options=KEYTAB, **changes):
    given = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        SERVICE: "kafka",
        JAAS: f"{MODULE} required {options};",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    return {key: value for key, value in given.items() if value is not None}


@pytest.fixture
def installed(monkeypatch):
    """Have the package there, whether it is or not."""
    monkeypatch.setattr(sasl, "find_spec", lambda _: object())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (java(), Kerberos("kafka", "mirror@REALM", keytab="/keys/mirror")),
        (java("useTicketCache=true"), Kerberos("kafka")),
        (java('useTicketCache="TRUE" ticketCache="/c" doNotPrompt=true'), Kerberos("kafka", cache="/c")),
        (
            java(f"{KEYTAB} serviceName=brokers", sasl_kerberos_service_name=None),
            Kerberos("brokers", "mirror@REALM", keytab="/keys/mirror"),
        ),
        (java(f"{KEYTAB} useTicketCache=true"), Kerberos("kafka", "mirror@REALM", keytab="/keys/mirror")),
    ],
)
def test_a_keytab_or_a_ticket_cache_logs_in_and_gssapi_is_the_default_as_in_java(installed, given, expected):
    assert clients.client_options(given).login == Login("GSSAPI", kerberos=expected)
    named = clients.client_options(given | {"sasl.mechanism": "GSSAPI"})
    assert named.login == clients.client_options(given).login


@pytest.mark.parametrize(
    ("given", "key", "named"),
    [
        (java(sasl_kerberos_service_name=None), SERVICE, "is not set"),
        (java(f"{KEYTAB} serviceName=other"), SERVICE, "differ"),
        (java("useKeyTab=true principal=mirror"), JAAS, "without keyTab or without principal"),
        (java("useKeyTab=true keyTab=/keys/mirror"), JAAS, "without keyTab or without principal"),
        (java("useKeyTab=false"), JAAS, "neither useKeyTab=true nor useTicketCache=true"),
        (java(f"{KEYTAB} renewTGT=true"), JAAS, "renewTGT is not supported"),
        (java(f"{KEYTAB} isInitiator=false"), JAAS, "isInitiator is not supported"),
    ],
)
def test_a_setting_that_would_use_another_login_is_refused(installed, given, key, named):
    refused_by_key_without_secrets(given, key, named)


def test_a_missing_package_is_named_with_how_to_get_it(monkeypatch):
    monkeypatch.setattr(sasl, "find_spec", lambda _: None)
    for translate in (clients.client_options, clients.confluent_options):
        with pytest.raises(ClientError, match=r"needs the package gssapi.*pip install '\.\[kerberos\]'"):
            translate(java())
