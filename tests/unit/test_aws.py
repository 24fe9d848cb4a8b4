"""AWS_MSK_IAM: what a file may say, and tokens of AWS's own signer. No AWS is asked."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs, urlsplit

import pytest

from mirror.config import clients, oauth
from mirror.config.oauth import NoToken
from tests.unit.test_clients import refused_by_key_without_secrets

pytest.importorskip("aws_msk_iam_sasl_signer")

MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
BROKERS = "b-1.orders.x1y2z3.c2.kafka.eu-central-1.amazonaws.com:9098,b-2.orders.x1y2z3.c2.kafka.eu-central-1.amazonaws.com:9098"


def java(options="", brokers=BROKERS, **changes):
    return {
        "bootstrap.servers": brokers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{MODULE} required {options};",
        "sasl.client.callback.handler.class": HANDLER,
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


@pytest.fixture(autouse=True)
def account(monkeypatch, tmp_path):
    """Credentials in the environment and a profile in a file; nothing is looked for elsewhere."""
    (tmp_path / "config").write_text(
        "[profile mirror]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = hunter2\n"
    )
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIAENVIRONMENT",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    oauth.aws_tokens.cache_clear()


def url_of(token):
    return urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())


@pytest.mark.parametrize(("options", "who"), [("", "AKIAENVIRONMENT"), ('awsProfileName="mirror"', "AKIAPROFILE")])
def test_both_clients_get_one_provider_of_tokens_signed_for_the_brokers_region(options, who):
    made = clients.client_options(java(options))
    provider = made.login.tokens
    assert made.login.mechanism == "OAUTHBEARER", "which is what these brokers call it, too"
    confluent = clients.confluent_options(java(options))
    assert (confluent["sasl.mechanism"], confluent["oauth_cb"].__self__) == ("OAUTHBEARER", provider)
    value, ends_s, _, _ = confluent["oauth_cb"]("")
    url = url_of(value)
    signed = parse_qs(url.query)
    assert url.hostname == "kafka.eu-central-1.amazonaws.com"
    assert signed["Action"] == ["kafka-cluster:Connect"]
    assert signed["X-Amz-Credential"][0].startswith(f"{who}/")
    assert "/eu-central-1/kafka-cluster/aws4_request" in signed["X-Amz-Credential"][0]
    assert provider.current().renew_s < ends_s
    assert "hunter2" not in repr(made)


@pytest.mark.parametrize(
    ("brokers", "region"),
    [
        ("boot-x1.c3.kafka-serverless.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("b-1.o.x.c2.kafka.us-gov-west-1.amazonaws.com:9098", "us-gov-west-1"),
        ("b-1.o.x.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.internal:9098", None),
        ("b.kafka.us-east-1.amazonaws.com:1,b.kafka.us-west-2.amazonaws.com:1", None),
        ("b.kafka.us-east-1.amazonaws.com.evil.example:1", None),
    ],
)
def test_the_region_is_in_the_brokers_names(brokers, region):
    assert oauth.region_of(brokers.split(",")) == region


def test_for_a_custom_host_name_the_region_is_from_the_environment(monkeypatch):
    refused_by_key_without_secrets(java(brokers="kafka.internal:9098"), "sasl.mechanism", "contain an AWS region")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    made = clients.client_options(java(brokers="kafka.internal:9098"))
    assert url_of(made.login.tokens.current().value).hostname == "kafka.ap-south-1.amazonaws.com"


@pytest.mark.parametrize(
    ("given", "key", "named"),
    [
        (java('awsProfileName="a" awsRoleArn="b"'), "sasl.jaas.config", "both awsProfileName and awsRoleArn"),
        (java('awsDebugCreds="true"'), "sasl.jaas.config", "awsDebugCreds is not supported"),
        (java(sasl_client_callback_handler_class="a.B"), "sasl.client.callback.handler.class", '"a.B"'),
        (java(sasl_mechanism="PLAIN"), "sasl.client.callback.handler.class", "IAMClientCallbackHandler"),
    ],
)
def test_a_refused_setting_is_named(given, key, named):
    refused_by_key_without_secrets(given, key, named)


def test_missing_credentials_raise_no_token(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(NoToken, match="no credentials"):
        clients.client_options(java()).login.tokens.current()


def test_a_profile_that_does_not_exist_is_named():
    with pytest.raises(NoToken, match="nowhere"):
        clients.client_options(java('awsProfileName="nowhere"')).login.tokens.current()
