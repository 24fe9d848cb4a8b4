"""Java client properties become what both clients take, or are refused by name."""

from __future__ import annotations

import pickle
import shutil
import ssl
import subprocess

import pytest
from confluent_kafka.admin import AdminClient

from mirror.config import clients
from mirror.config.clients import ClientOptions, FetchOptions, ProduceOptions
from mirror.config.sasl import Login
from mirror.config.values import ClientError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BOOTSTRAP = {"bootstrap.servers": "H1:9092, h2:9093"}


def sasl(mechanism="PLAIN", module=PLAIN, options='username="alice" password="hunter2"', protocol="SASL_PLAINTEXT"):
    return BOOTSTRAP | {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required {options};",
    }


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """A self-signed certificate and its encrypted key, made by openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("pem")
    command = "req -x509 -newkey rsa:2048 -passout pass:hunter2 -subj /CN=test -days 2 -keyout key.pem -out cert.pem"
    subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    store = folder / "store.pem"
    store.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return folder


def tls(folder, **changes):
    java = BOOTSTRAP | {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "cert.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "store.pem"),
        "ssl.key.password": "hunter2",
    }
    return java | {key.replace("_", "."): value for key, value in changes.items()}


def test_defaults_are_javas():
    assert clients.client_options(BOOTSTRAP) == ClientOptions(
        bootstrap=("h1:9092", "h2:9093"),
        client_id="kafka-mirror",
        request_timeout_s=30.0,
        metadata_max_age_s=300.0,
        retry_backoff_s=0.1,
        idle_s=540.0,
        tls=None,
        login=None,
    )


def test_times_and_client_id_reach_both_libraries():
    java = BOOTSTRAP | {
        "request.timeout.ms": "900000",
        "metadata.max.age.ms": "5000",
        "retry.backoff.ms": "0",
        "connections.max.idle.ms": "-1",
        "client.id": "me",
    }
    options = clients.client_options(java)
    assert (options.request_timeout_s, options.metadata_max_age_s, options.retry_backoff_s) == (900.0, 5.0, 0.0)
    assert (options.idle_s, options.client_id) == (None, "me")
    assert clients.confluent_options(java) == {
        "bootstrap.servers": "h1:9092,h2:9093",
        "security.protocol": "PLAINTEXT",
        "socket.timeout.ms": 300_000,
        "metadata.max.age.ms": 5000,
        "retry.backoff.ms": 1,
        "connections.max.idle.ms": 0,
        "client.id": "me",
    }


def test_localhost_keeps_its_name_for_certificates():
    options = clients.client_options({"bootstrap.servers": "SSL://localhost:1,[::1]:2"})
    assert options.bootstrap == ("localhost:1", "[::1]:2")


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_sasl_user_and_password_come_from_jaas(mechanism, module):
    java = sasl(mechanism, module)
    made = clients.client_options(java)
    assert (made.login, made.tls) == (Login(mechanism, "alice", "hunter2"), None)
    assert "hunter2" not in repr(made)
    options = clients.confluent_options(java)
    assert (options["sasl.mechanism"], options["sasl.username"], options["sasl.password"]) == (
        mechanism,
        "alice",
        "hunter2",
    )


@pytest.mark.parametrize(
    ("options", "password"),
    [
        ('username="a" password="p;= \\"q\\\\"', 'p;= "q\\'),
        ("username='a'\n password='x y'", "x y"),
        ("password=bare username=a", "bare"),
    ],
)
def test_jaas_quoting(options, password):
    assert clients.client_options(sasl(options=options)).login.password == password


@pytest.mark.parametrize(
    ("java", "key", "named"),
    [
        (sasl("NTLM"), "sasl.mechanism", '"NTLM" is not supported'),
        (sasl("GSSAPI"), "sasl.jaas.config", "does not fit sasl.mechanism GSSAPI"),
        (BOOTSTRAP | {"security.protocol": "SASL_SSL"}, "sasl.mechanism", "is not set"),
        (sasl("OAUTHBEARER"), "sasl.jaas.config", "does not fit sasl.mechanism OAUTHBEARER"),
        (
            sasl(module="com.ibm.security.auth.module.Krb5LoginModule"),
            "sasl.jaas.config",
            "ibm.security.auth.module.Krb5",
        ),
        (sasl(module="hunter2"), "sasl.jaas.config", "names no login module"),
        (sasl(module=SCRAM), "sasl.jaas.config", "does not fit sasl.mechanism PLAIN"),
        (sasl(options='username="a"'), "sasl.jaas.config", "has no password"),
        (sasl(options='username="a" password="hunter2'), "sasl.jaas.config", "is not one login module"),
        (sasl(options='username="a" password="hunter2"; x.Y required'), "sasl.jaas.config", "is not one login module"),
        (sasl(options='username="a" password="hunter2" tokenauth="true"'), "sasl.jaas.config", "tokenauth"),
        (BOOTSTRAP | {"security.protocol": "TLS"}, "security.protocol", '"TLS"'),
        (BOOTSTRAP | {"request.timeout.ms": "1s"}, "request.timeout.ms", '"1s"'),
        (BOOTSTRAP | {"request.timeout.ms": "0"}, "request.timeout.ms", "at least 1"),
        ({"bootstrap.servers": "h1"}, "bootstrap.servers", '"h1" is not host:port'),
        ({"bootstrap.servers": "h1:0"}, "bootstrap.servers", '"h1:0"'),
        ({}, "bootstrap.servers", "is not set"),
    ],
)
def test_an_unsupported_client_setting_is_refused_by_key_without_secrets(java, key, named):
    refused_by_key_without_secrets(java, key, named)


def refused_by_key_without_secrets(java: dict[str, str], key: str, named: str) -> None:
    """Neither client is made of these properties."""
    for translate in (clients.client_options, clients.confluent_options):
        with pytest.raises(ClientError) as caught:
            translate(java)
        assert caught.value.key == key
        assert named in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_client_error_survives_pickling():
    copy = pickle.loads(pickle.dumps(ClientError("acks", "bad")))
    assert (str(copy), copy.key) == ("acks: bad", "acks")


def test_pem_files_become_a_context_with_own_certificate_and_one_authority(pem):
    context = clients.client_options(tls(pem)).tls
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert [dict(item[0] for item in ca["subject"]) for ca in context.get_ca_certs()] == [{"commonName": "test"}]


def test_pem_on_one_line_is_understood(pem):
    """A properties value joined over continuation lines has no line breaks."""
    inline = {
        "ssl.truststore.certificates": (pem / "cert.pem").read_text().replace("\n", " "),
        "ssl.keystore.key": (pem / "key.pem").read_text().replace("\n", ""),
        "ssl.keystore.certificate.chain": (pem / "cert.pem").read_text().replace("\n", ""),
    }
    java = {key: value for key, value in tls(pem).items() if not key.endswith(".location")} | inline
    assert len(clients.client_options(java).tls.get_ca_certs()) == 1
    assert clients.confluent_options(java)["ssl.certificate.pem"] == (pem / "cert.pem").read_text()


def test_librdkafka_accepts_the_pem_and_scram_options(pem):
    AdminClient(clients.confluent_options(tls(pem)))
    AdminClient(clients.confluent_options(sasl("SCRAM-SHA-512", SCRAM, protocol="SASL_SSL")))


def test_an_empty_identification_algorithm_skips_the_host_name_check(pem):
    java = tls(pem) | {"ssl.endpoint.identification.algorithm": ""}
    context = clients.client_options(java).tls
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert clients.confluent_options(java)["ssl.endpoint.identification.algorithm"] == "none"
    assert clients.confluent_options(tls(pem))["ssl.endpoint.identification.algorithm"] == "https"


@pytest.mark.parametrize(
    ("changes", "key", "named"),
    [
        (
            {"ssl.truststore.type": "JKS"},
            "ssl.truststore.location",
            "is a PEM file, expected JKS or PKCS12. Set ssl.trust",
        ),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.password", "is not set"),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": "hunter2"},
            "ssl.keystore.location",
            "Set ssl.keystore.type=PEM",
        ),
        ({"ssl.truststore.location": "absent.pem"}, "ssl.truststore.location", "cannot be read"),
        ({"ssl.key.password": "hunter3"}, "ssl.keystore.location", "ssl.key.password"),
        ({"ssl.key.password": ""}, "ssl.keystore.location", "ssl.key.password"),
        ({"ssl.truststore.certificates": "hunter2"}, "ssl.truststore.location", "are both set"),
        ({"ssl.keystore.location": "", "ssl.keystore.key": "hunter2"}, "ssl.keystore.key", "holds no PEM private key"),
        ({"ssl.endpoint.identification.algorithm": "x"}, "ssl.endpoint.identification.algorithm", '"x"'),
    ],
)
def test_stores_that_cannot_be_used_are_refused(pem, changes, key, named):
    java = tls(pem) | changes
    with pytest.raises(ClientError) as caught:
        clients.client_options({k: v for k, v in java.items() if not (k == "ssl.keystore.location" and not v)})
    if changes.get("ssl.keystore.key"):
        assert caught.value.key in (key, "ssl.keystore.certificate.chain")
    else:
        assert caught.value.key == key
        assert named in str(caught.value)
    assert "hunter" not in str(caught.value)


def test_a_certificate_file_that_holds_only_the_key_is_refused(pem):
    with pytest.raises(ClientError, match="holds no PEM certificate"):
        clients.client_options(tls(pem, ssl_truststore_location=str(pem / "key.pem")))


def test_a_type_left_out_is_javas_jks(pem):
    java = tls(pem)
    del java["ssl.truststore.type"]
    with pytest.raises(ClientError, match=r"is a PEM file, expected JKS or PKCS12\. Set ssl\.truststore\.type=PEM\."):
        clients.confluent_options(java)


def test_fetch_defaults_and_values():
    assert clients.fetch_options({}) == FetchOptions(
        min_bytes=1,
        max_wait_ms=500,
        idle_wait_ms=2_000,
        max_bytes=52_428_800,
        max_partition_bytes=1_048_576,
        isolation_level=0,
        from_earliest=True,
    )
    java = {
        "fetch.min.bytes": "2",
        "fetch.max.wait.ms": "3",
        "fetch.max.bytes": "4",
        "max.partition.fetch.bytes": "5",
        "isolation.level": "read_committed",
        "auto.offset.reset": "latest",
    }
    assert clients.fetch_options(java) == FetchOptions(
        min_bytes=2,
        max_wait_ms=3,
        idle_wait_ms=3,
        max_bytes=4,
        max_partition_bytes=5,
        isolation_level=1,
        from_earliest=False,
    )


@pytest.mark.parametrize("java", [{"fetch.max.wait.ms": "500"}, {"fetch.min.bytes": "2"}])
def test_a_fetch_of_idle_partitions_waits_no_longer_than_the_file_says(java):
    assert clients.fetch_options(java).idle_wait_ms == 500


def test_produce_defaults_and_values():
    assert clients.produce_options({}) == ProduceOptions(
        compression=None,
        batch_size=1_048_576,
        linger_s=0.005,
        max_request_size=1_048_576,
        largest_batch=None,
        transaction_timeout_ms=60_000,
    )
    java = {
        "compression.type": "zstd",
        "batch.size": "7",
        "linger.ms": "20",
        "max.request.size": "8",
        "acks": "-1",
        "transaction.timeout.ms": "9",
    }
    assert clients.produce_options(java) == ProduceOptions(
        compression="zstd", batch_size=7, linger_s=0.02, max_request_size=8, largest_batch=8, transaction_timeout_ms=9
    )
    assert clients.produce_options({"acks": "all", "compression.type": "none"}).compression == "none"
    levels = {"compression.lz4.level": "12", "compression.zstd.level": "-5"}
    for codec, level in (("lz4", 12), ("zstd", -5), ("gzip", None), ("snappy", None)):
        assert clients.produce_options({"compression.type": codec, **levels}).level == level
    with pytest.raises(ClientError, match='"18" found, expected 1 to 17'):
        clients.produce_options({"compression.lz4.level": "18"})


@pytest.mark.parametrize(
    ("translate", "java", "named"),
    [
        (clients.fetch_options, {"auto.offset.reset": "none"}, '"none"'),
        (clients.fetch_options, {"isolation.level": "x"}, "read_committed"),
        (clients.fetch_options, {"fetch.max.bytes": "99999999999"}, "99999999999"),
        (clients.produce_options, {"acks": "1"}, 'acks: "1"'),
        (clients.produce_options, {"acks": "0"}, 'acks: "0"'),
        (clients.produce_options, {"compression.type": "brotli"}, "brotli"),
    ],
)
def test_bad_fetch_and_produce_values_are_refused(translate, java, named):
    with pytest.raises(ClientError, match=named):
        translate(java)


def test_unmapped_keys_are_listed_per_role():
    java = BOOTSTRAP | {"acks": "all", "fetch.min.bytes": "1", "max.block.ms": "5", "enable.idempotence": "False"}
    assert clients.unmapped("producer", java) == ("fetch.min.bytes", "max.block.ms", "enable.idempotence")
    assert clients.unmapped("consumer", java) == ("acks", "max.block.ms", "enable.idempotence")
    assert clients.unmapped("producer", {"enable.idempotence": "true"}) == ()
