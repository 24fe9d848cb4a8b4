"""OAUTHBEARER: what a file may say, and tokens from an endpoint, one provider for both clients."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from mirror.config import clients, oauth
from mirror.config.oauth import Tokens
from tests.token_endpoint import TokenEndpoint, unsigned
from tests.unit.test_clients import refused_by_key_without_secrets

pytestmark = pytest.mark.usefixtures("standing_clock")

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
URL = "sasl.oauthbearer.token.endpoint.url"


JAAS = "sasl.jaas.config"
JNDI = "com.sun.security.auth.module.JndiLoginModule"


def java(url="https://idp.example/token", options='clientId="me" clientSecret="hunter2"', **changes):
    return {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} required {options};",
        URL: url,
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def with_option(option):
    return java(options=f'clientId="me" clientSecret="hunter2" {option}')


@pytest.fixture
def endpoint():
    with TokenEndpoint("me", "hunter2") as running:
        yield running


def given(endpoint, secret="hunter2", scope="", extensions=None):
    return oauth.Tokens(oauth.Endpoint(endpoint.url, "me", secret, scope).asked, extensions)


@pytest.mark.parametrize(
    "url", ["https://idp.example/t", "http://127.0.0.1:1/t", "http://localhost/t", "http://[::1]/t"]
)
def test_both_clients_get_one_provider(url):
    made = clients.client_options(java(url))
    provider = made.login.tokens
    assert made.login.mechanism == "OAUTHBEARER"
    assert isinstance(provider, Tokens)
    confluent = clients.confluent_options(java(url))
    assert confluent["oauth_cb"].__self__ is provider
    assert confluent["sasl.mechanism"] == "OAUTHBEARER"


def test_kafka_4s_own_keys_replace_the_login_modules_options_and_beat_them(endpoint):
    keys = {
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "write",
    }
    for options in ("", 'clientId="other" clientSecret="wrong" scope="read"'):
        made = clients.client_options(java(endpoint.url, options) | keys)
        assert made.login.tokens.current().value
        assert endpoint.asked[-1]["scope"] == ["write"]
    assert "hunter2" not in repr(clients.client_options(java(endpoint.url, "") | keys))


@pytest.mark.parametrize("package", ["oauthbearer", "oauthbearer.secured"])
def test_kafkas_own_handler_is_accepted(package):
    handler = f"org.apache.kafka.common.security.{package}.OAuthBearerLoginCallbackHandler"
    clients.client_options(java(sasl_login_callback_handler_class=handler))


@pytest.mark.parametrize(
    ("given", "key", "named"),
    [
        (java("file:///etc/passwd"), URL, '"file:" is not supported'),
        (java("ftp://h/t"), URL, '"ftp:" is not supported'),
        (java("http://idp.example/t"), URL, "would send the client's secret in the clear"),
        (java("http://127.0.0.1.example/t"), URL, "in the clear"),
        (java("http://10.0.0.1/t"), URL, "in the clear"),
        (java("https://user:hunter2@h/t"), URL, "is not an address of only a host and a path"),
        (java("https:///t"), URL, "is not an address"),
        (java("https://h:x/t"), URL, "is not an address"),
        (java("https://[::1/t"), URL, "is not an address"),
        (java("https://h/t x"), URL, "is not an address"),
        (java(""), URL, "is not set"),
        (java(sasl_login_callback_handler_class="com.x.Mine"), "sasl.login.callback.handler.class", '"com.x.Mine"'),
        (java(options='clientId="me"'), JAAS, 'has no clientSecret. Write: <module> required clientId="'),
        (with_option('username="x"'), JAAS, "option username"),
        (
            with_option('unsecuredLoginStringClaim_sub="x"'),
            JAAS,
            "option unsecuredLoginStringClaim_sub is not supported",
        ),
        (with_option('extension_auth="x"'), JAAS, "option extension_auth"),
        (with_option('extension_a="x\1auth=y"'), JAAS, "an extension whose"),
        (java() | {"sasl.mechanism": "PLAIN"}, JAAS, "does not fit sasl.mechanism PLAIN"),
        (java() | {JAAS: f"{JNDI} required x=y;"}, JAAS, f"{JNDI} is not supported"),
    ],
)
def test_a_refused_setting_is_named_without_secrets(given, key, named):
    refused_by_key_without_secrets(given, key, named)


def test_a_token_is_asked_for_once_and_handed_to_both(endpoint):
    tokens = given(endpoint, scope="read write", extensions={"logicalCluster": "x"})
    value, expires_s, principal, extensions = tokens.for_librdkafka("")
    assert asyncio.run(tokens.token()) == value
    assert time.time() + 3590 < expires_s < time.time() + 3601
    assert (principal, extensions, tokens.extensions()) == ("", {"logicalCluster": "x"}, {"logicalCluster": "x"})
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["read write"]}]


def test_a_token_is_renewed_before_it_ends_and_kept_where_that_fails(endpoint, monkeypatch):
    tokens = given(endpoint)
    first = tokens.current()
    now = time.time()
    monkeypatch.setattr(oauth.time, "time", lambda: now + 2800)
    endpoint.answers.append((503, {}, b""))
    assert tokens.current() is first
    assert tokens.current() is first
    monkeypatch.setattr(oauth, "AGAIN_S", 0.0)
    tokens._ask_s = 0.0
    assert tokens.current() is not first
    assert len(endpoint.asked) == 3


def test_a_refused_token_request_is_not_repeated_at_once(endpoint):
    tokens = given(endpoint, secret="hunter3")
    for _ in range(3):
        with pytest.raises(oauth.NoToken, match=r"no token from http://127\.0\.0\.1:\d+: HTTP status 401$"):
            tokens.current()
    assert len(endpoint.asked) == 1


def test_a_redirection_is_not_followed(endpoint):
    endpoint.answers.append((302, {"Location": endpoint.url.replace("/token", "/elsewhere")}, b""))
    with pytest.raises(oauth.NoToken, match="HTTP status 302"):
        given(endpoint).current()
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"no json",
        b'{"access_token": 1}',
        b'{"access_token": ""}',
        b'{"access_token": "a\\u0001b"}',
        b'{"access_token": "a", "expires_in": "x"}',
    ],
)
def test_an_answer_without_a_token_is_a_refusal(endpoint, body):
    endpoint.answers.append((200, {}, body))
    with pytest.raises(oauth.NoToken, match="its response has no token"):
        given(endpoint).current()


def test_extensions_of_the_login_reach_both_clients(endpoint):
    made = java(endpoint.url, 'clientId="me" clientSecret="hunter2" scope="all" extension_logicalCluster="lkc 1"')
    assert clients.client_options(made).login.tokens.extensions() == {"logicalCluster": "lkc 1"}
    assert clients.confluent_options(made)["oauth_cb"]("")[3] == {"logicalCluster": "lkc 1"}
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["all"]}]


def test_a_missing_token_endpoint_is_reported_as_refused():
    with TokenEndpoint("me", "hunter2") as gone:
        pass
    with pytest.raises(oauth.NoToken, match="refused"):
        given(gone).current()


def test_the_life_of_a_token_is_its_own_where_the_answer_does_not_tell(endpoint):
    for token, life_s in ((unsigned("me", life_s=500), 500), ("opaque", 60)):
        endpoint.answers.append((200, {}, json.dumps({"access_token": token}).encode()))
        assert given(endpoint).current().expires_s - time.time() == pytest.approx(life_s, abs=2)


def test_nothing_shows_a_token_or_a_secret(endpoint):
    tokens = given(endpoint)
    assert tokens.current().value not in repr(tokens.current())
    assert "hunter2" not in repr(tokens)
