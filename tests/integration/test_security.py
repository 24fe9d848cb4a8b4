"""TLS and logins against real brokers: every kind of client gets in, the others are refused by name, and no secret gets out."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mirror.config.clients import client_options
from mirror.kafka.cluster import Cluster
from mirror.kafka.fetch_request import FetchLimits
from mirror.kafka.fetch_session import FetchPosition
from mirror.kafka.fetcher import Source
from mirror.kafka.target import Target
from mirror.model.record_batches import of_values, records
from tests.integration.appliance import RunningAppliance, descendants
from tests.integration.inspector import PAGES, SOON_MS, launched, needs_chromium, serving, visit
from tests.integration.records import await_replicated, create, differences, end_offset, flows, load, rows, write
from tests.integration.secured import Party, Secured, canary, secured, set_password
from tests.processes import kafka_mirror
from tests.token_endpoint import TokenEndpoint
from tests.waiting import eventually

EVERYTHING = "".join(
    f"{what}.enabled = true\n{what}.interval.seconds = 1\n"
    for what in ("emit.checkpoints", "emit.heartbeats", "sync.group.offsets", "sync.topic.configs")
)
USUAL = "mirror.poll.interval.ms = 5000\nmirror.window.ms = 10000\n"
MOST_ATTEMPTS_A_SECOND = 20  # of a mirror of two slots and two lanes

pytestmark = pytest.mark.kafka
REFUSED = re.compile(r" (?:WARNING|ERROR) .*(?i:authoriz|denied|credential|certificate|handshake|login).*")


@pytest.fixture(scope="module")
def party(tmp_path_factory) -> Iterator[Party]:
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed")
    secrets = {what: canary(what) for what in ("store", "key", "trust", "plain", "scram", "token")}
    with TokenEndpoint("mirror", secrets["token"]) as endpoint:
        yield Party(folder=tmp_path_factory.mktemp("party"), endpoint=endpoint, secrets=secrets)


@pytest.fixture(scope="module")
def primary(party, tmp_path_factory) -> Iterator[Secured]:
    with secured("primary", tmp_path_factory.mktemp("brokers"), party) as running:
        yield running


@pytest.fixture(scope="module")
def backup(party, tmp_path_factory) -> Iterator[Secured]:
    with secured("backup", tmp_path_factory.mktemp("brokers"), party) as running:
        yield running


def both(party: Party, **changes: str) -> dict[str, str]:
    """A login within TLS."""
    return party.trusts() | party.scram(**changes) | {"security.protocol": "SASL_SSL"}


GOOD = {
    "one side, JKS": ("TLS", lambda party: party.tls("trust.jks")),
    "one side, PKCS12": ("TLS", lambda party: party.tls("trust.p12")),
    "both sides, JKS": ("MUTUAL", lambda party: party.mutual("jks")),
    "both sides, PKCS12": ("MUTUAL", lambda party: party.mutual("p12")),
    "both sides, PEM": ("MUTUAL", lambda party: party.mutual("pem")),
    "PLAIN": ("LOGIN", lambda party: party.plain()),
    "SCRAM-SHA-256": ("LOGIN", lambda party: party.scram(256)),
    "SCRAM-SHA-512": ("LOGIN", lambda party: party.scram(512)),
    "SCRAM in TLS": ("BOTH", both),
    "OAUTHBEARER": ("TOKEN", lambda party: party.token()),
    "another host name, unchecked": (
        "STRANGE",
        lambda party: party.tls() | {"ssl.endpoint.identification.algorithm": ""},
    ),
}


@pytest.mark.parametrize("kind", GOOD)
def test_both_clients_get_in(primary, party, topic, kind):
    """The control plane lists topics, the other client writes and reads a batch; the chain is sent with the certificate."""
    listener, properties = GOOD[kind]
    java = {"bootstrap.servers": primary.at(listener), **properties(party)}
    create(primary, topic)
    assert topic in Cluster("primary", java).topics()
    assert asyncio.run(round_trip(java, topic)) == [b"there"]


async def round_trip(java: dict[str, str], topic: str) -> list[bytes]:
    source, target = Source(client_options(java)), Target(client_options(java), request_bytes=1 << 20)
    try:
        await target.open([topic])
        await asyncio.gather(
            *(
                target.send(batch, topic, 0)
                for batch in of_values([(b"k", b"there")], timestamp_ms=int(time.time() * 1000))
            )
        )
        await source.open([topic])
        leader = source.leader(topic, 0)
        assert leader is not None
        (fetched,) = await source.read(leader, {(topic, 0): FetchPosition(0, 1 << 20)}, FetchLimits(500, 1, 1 << 20, 0))
        return [record.value for record in records(memoryview(fetched.records))]
    finally:
        await target.close()
        await source.close()


BAD = {
    "another authority": ("TLS", lambda party: party.tls("wrong.jks"), "certificate could not be verified"),
    "an expired certificate": ("EXPIRED", lambda party: party.tls(), "certificate could not be verified"),
    "another host name": ("STRANGE", lambda party: party.tls(), "certificate could not be verified"),
    "no certificate of its own": ("MUTUAL", lambda party: party.tls(), ""),  # TLS 1.3 does not tell
    "another password": ("BOTH", lambda party: both(party, password=canary("wrong")), "invalid credentials"),
    "another client secret": ("TOKEN", lambda party: party.token(canary("wrong")), "HTTP status 401"),
    "no TLS where there is some": ("TLS", lambda party: {}, ""),
}


def test_authentication_failure_names_the_cluster_alias(primary, backup, party, tmp_path):
    """All at once, each as a user starts it; they end as for a cluster that does not answer."""
    running = {}
    for at, (what, (listener, properties, _)) in enumerate(BAD.items()):
        folder = tmp_path / str(at)
        folder.mkdir()
        appliance = RunningAppliance(
            folder,
            primary=primary.at(listener),
            backup=backup.bootstrap,
            topics="x",
            extra=lines(primary=properties(party)),
        )
        appliance.environment = environment()
        running[what] = (appliance, appliance.launch())
    for what, (appliance, process) in running.items():
        code, text = process.wait(180), appliance.log.read_text()
        assert code == 3, (what, text)
        (line,) = text.strip().splitlines()
        assert "cluster primary (" in line
        assert "no answer" in line
        assert BAD[what][2] in line, (what, line)
        assert "CANARY" not in text


@pytest.mark.spark
def test_a_flow_between_secured_clusters_keeps_every_record_and_every_secret(primary, backup, party, topic, tmp_path):
    """A login within TLS and a JKS at the source; certificates on both sides and a PKCS12 at the target."""
    create(primary, topic, 2)
    for partition in (0, 1):
        write(primary, topic, rows(50, start=partition), partition)
    appliance = RunningAppliance(
        tmp_path,
        primary=primary.at("BOTH"),
        backup=backup.at("MUTUAL"),
        topics=topic,
        extra=EVERYTHING + USUAL + lines(primary=both(party), backup=party.mutual("p12")),
    )
    appliance.arguments.insert(0, "--verbose")
    with appliance:
        for partition in (0, 1):
            await_replicated(appliance, primary, topic, f"primary.{topic}", partition)
        assert differences(primary, backup, topic, f"primary.{topic}") == []
        eventually(
            lambda: "kafka_mirror_last_heartbeat_timestamp_seconds{" in appliance.exposition(),
            within_s=30,
            because="heartbeats are written too",
        )
        keeps_secrets(appliance, party)
        listens_on_loopback_alone(appliance)
        assert not REFUSED.findall(appliance.log.read_text())
        locked_out_and_let_in_again(appliance, primary, party, topic)
        assert differences(primary, backup, topic, f"primary.{topic}") == []
    assert "CANARY" not in appliance.log.read_text()
    log = appliance.logged()
    assert "Traceback" not in log
    assert [line for line in log.splitlines() if " ERROR " in line] == []


@needs_chromium
def test_the_inspector_sends_no_secret_to_a_browser(primary, backup, party, topic, tmp_path):
    """It logs in itself. Nothing that a browser is sent holds a password, of who is let in or is not."""
    create(primary, topic)
    for folder, login in (("in", both(party)), ("out", both(party, password=canary("wrong")))):
        (tmp_path / folder).mkdir()
        file = RunningAppliance(
            tmp_path / folder,
            primary=primary.at("BOTH"),
            backup=backup.at("MUTUAL"),
            topics=topic,
            extra=USUAL + lines(primary=login, backup=party.mutual("p12")),
        ).file
        sent: list[str] = []
        with serving(file, tmp_path / folder / "app.log") as address, launched() as browser:
            page = browser.new_page()
            page.set_default_timeout(SOON_MS)
            page.on(
                "websocket",
                lambda socket, sent=sent: socket.on("framereceived", lambda frame: sent.append(latin(frame))),
            )
            for name in PAGES:
                visit(page, f"{address}/{name}?topic={topic}&partition=0")
                page.get_by_role("heading", level=1).wait_for()
                if name == PAGES[0]:  # the others come with what it has waited for
                    page.get_by_text("This page is read-only").wait_for()
                sent.append(page.content())
        everything = "".join(sent)
        assert ("primary responds" if folder == "in" else "invalid credentials") in everything
        assert "CANARY" not in everything
        assert "CANARY" not in (tmp_path / folder / "app.log").read_text()


def latin(frame: str | bytes) -> str:
    return frame if isinstance(frame, str) else frame.decode("latin-1")


def locked_out_and_let_in_again(appliance: RunningAppliance, primary: Secured, party: Party, topic: str) -> None:
    """A password that is changed under a running flow is reported with the alias; it goes on when it fits again.

    Nobody's account is locked by hundreds of attempts meanwhile.
    """
    set_password(primary, canary("rotated"))
    try:
        primary.link.reset_all()  # ends the connections that were let in
        began, before = time.monotonic(), primary.link.accepted
        eventually(
            lambda: re.search(r"cluster primary \(.*invalid credentials", appliance.log.read_text()),
            within_s=60,
            because="the refusal is logged",
        )
        time.sleep(10)
        attempts_a_second = (primary.link.accepted - before) / (time.monotonic() - began)
        assert 0 < attempts_a_second < MOST_ATTEMPTS_A_SECOND
    finally:
        set_password(primary, party.secrets["scram"])
    write(primary, topic, rows(50, start=50))
    await_replicated(appliance, primary, topic, f"primary.{topic}", within_s=90)


def test_tokens_serve_every_process_and_are_renewed_while_records_flow(primary, backup, party, topic, tmp_path):
    """OAUTHBEARER at the source, PLAIN at the target; the broker ends each connection with its token."""
    create(primary, topic, 2)
    party.endpoint.life_s = 6
    try:
        with RunningAppliance(
            tmp_path,
            primary=primary.at("TOKEN"),
            backup=backup.at("LOGIN"),
            topics=topic,
            extra=lines(primary=party.token(), backup=party.plain()),
        ) as appliance:
            before = len(party.endpoint.asked)
            with load(primary, topic):
                eventually(
                    lambda: len(party.endpoint.asked) > before + 6,
                    within_s=60,
                    because="tokens are over, which end the connections that they opened, and others take over",
                )
            closed = re.findall(r"fetch from node .*(?i:clos|reset|auth).*", appliance.log.read_text())
            assert closed == [], "another connection takes over before a token ends its own"
            for partition in (0, 1):
                await_replicated(appliance, primary, topic, f"primary.{topic}", partition)
            assert differences(primary, backup, topic, f"primary.{topic}") == []
            keeps_secrets(appliance, party)
    finally:
        party.endpoint.life_s = 3600
    log = appliance.log.read_text()
    assert "CANARY" not in log
    assert "Traceback" not in log


def lines(**clusters: dict[str, str]) -> str:
    """Client properties as lines of a file."""
    return "".join(
        f"{alias}.{key} = {value}\n" for alias, properties in clusters.items() for key, value in properties.items()
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


def keeps_secrets(appliance: RunningAppliance, party: Party) -> None:
    """No password is where it can be seen; the plan, which the tasks need, is its owner's alone."""
    assert appliance.process is not None
    plan = appliance.file.parent / "state" / "plan"
    assert any(secret in plan.read_bytes().decode("latin-1") for secret in party.secrets.values())
    assert plan.stat().st_mode & 0o777 == 0o600
    explained = kafka_mirror(
        *("explain", appliance.file, "--json"), check=True, folder=appliance.file.parent, environment=environment()
    )
    shown = {
        "log": appliance.log.read_text(),
        "metrics": appliance.exposition(),
        "explain": explained.stdout + explained.stderr,
    }
    for path in (appliance.file.parent / "state").rglob("*"):
        if path.is_file() and path != plan:
            shown[str(path)] = path.read_bytes().decode("latin-1")
    for pid in (appliance.process.pid, *descendants(appliance.process.pid)):
        for what in ("cmdline", "environ"):
            try:
                shown[f"{what} of {pid}"] = Path(f"/proc/{pid}/{what}").read_bytes().decode("latin-1")
            except (FileNotFoundError, ProcessLookupError):
                continue
    assert len(shown) > 10
    assert [where for where, text in shown.items() if "CANARY" in text] == []
    assert "***" in shown["explain"]


def listens_on_loopback_alone(appliance: RunningAppliance) -> None:
    assert appliance.process is not None
    found = set(listening((appliance.process.pid, *descendants(appliance.process.pid))))
    assert f"127.0.0.1:{appliance.port}" in found
    assert [address for address in found if not address.startswith("127.0.0.1:")] == []


def listening(pids: Iterable[int]) -> Iterator[str]:
    """Yield the addresses on which processes listen for TCP, as far as they are of IPv4 or mapped to it."""
    sockets = set()
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended since listens on nothing
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):
                    sockets.add(os.readlink(link))  # noqa: PTH115 - "socket:[7]" is no path
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[at] for at in (1, 3, 9))
            if state == "0A" and f"socket:[{inode}]" in sockets:
                address, _, port = local.rpartition(":")
                # Four bytes of IPv4 in the machine's order; mapped ones behind ::ffff.
                is_ipv4 = len(address) == 8 or address.startswith("0000000000000000FFFF0000")
                host = ".".join(str(byte) for byte in bytes.fromhex(address[-8:])[::-1]) if is_ipv4 else address
                yield f"{host}:{int(port, 16)}"


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["", "backup.exactly.once.source.support = enabled\n"], ids=["at least once", "once"])
def test_a_password_changes_without_a_restart(primary, backup, party, topic, tmp_path, mode):
    """Brokers and files get another password, and every connection is cut. All clients log in again, and both logs are equal."""
    create(primary, topic, 2)
    file, properties = tmp_path / "secrets.properties", party.scram() | {"security.protocol": "SASL_SSL"}
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    extra = lines(primary=properties | party.trusts("trust.pem"), backup=properties | party.trusts("trust.pem"))
    extra = re.sub(r"sasl\.jaas\.config = .*", f"sasl.jaas.config = ${{file:{file}:jaas}}", extra)
    extra += "".join(f"{key} = {value}\n" for key, value in providers.items()) + EVERYTHING + mode
    file.write_text(f"jaas = {properties['sasl.jaas.config']}\n")
    where = {"primary": primary.at("BOTH"), "backup": backup.at("BOTH")}
    with RunningAppliance(tmp_path, topics=topic, extra=extra, **where) as appliance:
        try:
            with load(primary, topic):
                eventually(lambda: end_offset(backup, f"primary.{topic}", 0) > 100, 60, "records flow")
                for cluster in (primary, backup):
                    set_password(cluster, "another")
                file.write_text(f"jaas = {party.scram(password='another')['sasl.jaas.config']}\n")
                for cluster in (primary, backup):
                    cluster.link.reset_all()
                flows(backup, f"primary.{topic}", more=300, within_s=60, because="records flow again")
                cut_s = time.time()
                heartbeat = "kafka_mirror_last_heartbeat_timestamp_seconds"
                eventually(lambda: (appliance.gauge(heartbeat) or 0) > cut_s, 30, "heartbeats are written again")
                create(primary, f"{topic}-late")
                assert appliance.slots()
            for partition in (0, 1):
                await_replicated(appliance, primary, topic, f"primary.{topic}", partition)
            assert differences(primary, backup, topic, f"primary.{topic}") == []
        finally:
            for cluster in (primary, backup):
                set_password(cluster, party.secrets["scram"])
            file.write_text(f"jaas = {properties['sasl.jaas.config']}\n")
    assert "CANARY" not in appliance.log.read_text()
