"""Run `kafka-mirror import`: write a properties file from connectors of MirrorMaker 2."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from mirror.commands.options import describe
from mirror.config.imports.connect_rest import Access, is_address, read_connect
from mirror.config.imports.connectors import Connectors, Item, State
from mirror.config.imports.documents import read_documents
from mirror.config.imports.properties_file import properties_text, tried
from mirror.config.imports.translation import translate
from mirror.errors import SettingsError
from mirror.runtime.text_columns import aligned

PASSWORD = "KAFKA_MIRROR_CONNECT_PASSWORD"  # noqa: S105 - the name of a variable
NEEDS_A_HAND = 1
LARGEST_FILE = 64 << 20  # bytes
INDENT = "  "
_HEADS = {
    State.TRANSLATED: ("setting", "written as", "found in"),
    State.LEFT_OUT: ("setting", "found in", "why"),
    State.BY_HAND: ("setting", "written as", "found in", "why"),
}

DESCRIPTION = """\
Write a connect-mirror-maker.properties that replaces connectors of MirrorMaker 2. SOURCE is a file with Strimzi's
KafkaMirrorMaker2 (v1beta2 or v1) or KafkaConnector, a file with connectors as JSON, or the address of a running Kafka Connect.
Several sources become one file, and connectors of one flow are merged. Prints the result of each setting. Secrets are written
as references if the source has references, and never printed. Changes nothing on Connect or on a cluster."""
EXAMPLES = f"""\
examples:
  kubectl get kmm2 my-mirror -o yaml > mm2.yaml; kafka-mirror import mm2.yaml
  kafka-mirror import source.json checkpoint.json heartbeat.json -o mirror.properties
  kafka-mirror import http://connect:8083 --offsets-topic connect-offsets
  {PASSWORD}=... kafka-mirror import https://connect:8083 --user admin --cacert ca.pem
prints, for example:
  translated: 1
    setting  written as              found in
    topics   primary->backup.topics  source.json: my-source

  needs manual work: 1
    setting     written as                  found in                why
    transforms  primary->backup.transforms  source.json: my-source  is not supported: it changes records
settings that need manual work are in the file unchanged, below the reason; kafka-mirror refuses them until you have decided.
exit codes: 0 written, 1 some settings need manual work, 2 a source or an option is refused, 3 Connect does not respond"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a YAML or JSON file, or http(s)://HOST:PORT of a Connect"
    )
    parser.add_argument(
        "-o",
        dest="file",
        type=Path,
        default=Path("mirror.properties"),
        metavar="FILE",
        help="default mirror.properties",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--offsets-topic", default="", metavar="TOPIC", help="offset.storage.topic of Connect's worker")
    parser.add_argument(
        "--user", default="", metavar="NAME", help=f"login of the Connect; password: {PASSWORD}, or a file"
    )
    parser.add_argument("--password-file", type=Path, metavar="FILE", help="file with only the password")
    parser.add_argument(
        "--cacert", type=Path, metavar="FILE", help="PEM file of the certificate authority of Connect's TLS"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: Namespace) -> int:
    """Write the file; return the exit code."""
    if not parsed.force and parsed.file.exists():
        raise SettingsError(
            f"{parsed.file}: exists already and is not overwritten. Name another file, or give --force."
        )
    access = Access(user=parsed.user, password=_password(parsed), authorities=parsed.cacert)
    found = Connectors()
    for source in parsed.sources:
        found += read_connect(source, access) if is_address(source) else read_documents(_text(Path(source)), source)
    if not found.connectors:
        others = ", ".join(item.found for item in found.others) or "none at all"
        raise SettingsError(
            f"{', '.join(parsed.sources)}: no connector of MirrorMaker 2; found {others}. Check the source."
        )
    translation = translate(found, parsed.offsets_topic)
    items = tried(translation.items, parsed.file)
    advice = f"Before the first start: kafka-mirror plan {parsed.file.name}"
    write_private(parsed.file, properties_text(items, ", ".join(parsed.sources), advice), force=parsed.force)
    further = next_steps(parsed.file, found)
    if parsed.json:
        print(as_json(parsed.file, items, translation.notes, further))
    else:
        print(as_text(parsed.file, items, translation.notes, further))
    return NEEDS_A_HAND if any(item.state is State.BY_HAND for item in items) else 0


def as_text(file: Path, items: Sequence[Item], notes: Sequence[str], further: Sequence[str]) -> str:
    """Return a table of settings per state, manual work last, and the next steps."""
    width = shutil.get_terminal_size().columns - len(INDENT) if sys.stdout.isatty() else None
    parts = []
    for state in State:
        rows = [_cells(item) for item in items if item.state is state]
        if rows:
            table = aligned([_HEADS[state], *rows], right=(), width=width)
            parts.append(f"{state.value}: {len(rows)}\n{textwrap.indent(table, INDENT)}")
    parts += [f"written: {file}"]
    parts += ["\n".join(f"note: {note}" for note in notes)] if notes else []
    return "\n\n".join([*parts, "next:\n" + "\n".join(f"{INDENT}{step}" for step in further)])


def _cells(item: Item) -> tuple[str, ...]:
    if item.state is State.TRANSLATED:
        return (item.found, _written(item), item.where)
    if item.state is State.LEFT_OUT:
        return (item.found, item.where, item.why)
    return (item.found, _written(item), item.where, item.why)


def as_json(file: Path, items: Sequence[Item], notes: Sequence[str], further: Sequence[str]) -> str:
    """Return the result as JSON."""
    settings = [
        {
            "setting": item.found,
            "found_in": item.where,
            "written_as": _written(item) or None,
            "state": item.state.value,
            "why": item.why or None,
        }
        for item in items
    ]
    return json.dumps({"file": str(file), "settings": settings, "notes": list(notes), "next": list(further)}, indent=2)


def next_steps(file: Path, found: Connectors) -> list[str]:
    """Return the next steps with the file."""
    flows = dict.fromkeys(f"{source}->{target}" for source, target in (each.flow for each in found.connectors))
    return [
        f"kafka-mirror plan {file}: what it would replicate; changes nothing",
        "stop the connectors, which keep their positions: PUT /connectors/NAME/stop; under Strimzi delete the resource",
        f"kafka-mirror run {file}: resumes at their positions",
        *(f"kafka-mirror positions show {file} '{flow}': its positions" for flow in flows),
    ]


def write_private(file: Path, text: str, *, force: bool) -> None:
    """Write a file completely or not at all; only its owner may read it.

    Raises:
        SettingsError: the file exists already, or cannot be written.
    """
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(4)}") if force else file
    try:
        descriptor = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as written:  # noqa: PTH123 - of a descriptor
                written.write(text)
            fresh.replace(file)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
    except FileExistsError:
        raise SettingsError(f"{file}: exists already and is not overwritten. Give --force.") from None
    except OSError as error:
        raise SettingsError(
            f"{file}: cannot be written ({error.strerror}). Name a folder that can be written to."
        ) from None


def _written(item: Item) -> str:
    return item.key if item.is_line else ""


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SettingsError(
                f"{path}: has more than {LARGEST_FILE >> 20} MiB; expected connectors. Name another file."
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not UTF-8 text; expected YAML or JSON. Name another file.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise SettingsError(
            f"{path}: cannot be read ({reason}). Name a file, or http://HOST:PORT of a Connect."
        ) from None


def _password(parsed: Namespace) -> str:
    """Return the login's password. It is no option, because other users could see it on the command line."""
    if not parsed.user:
        if parsed.password_file:
            raise SettingsError("import: --password-file is given without --user. Give both.")
        return ""
    if parsed.password_file:
        return _text(parsed.password_file).rstrip("\r\n")
    if PASSWORD not in os.environ:
        raise SettingsError(f"import: --user is given without a password. Set {PASSWORD}, or give --password-file.")
    return os.environ[PASSWORD]
