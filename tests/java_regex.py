"""Run Java's regular expressions, and write the tables that the unit tests read: python -m tests.java_regex."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from mirror.policy.java_regex import RegexError, compiled
from mirror.runtime.java import java

TABLE = Path(__file__).parent / "data" / "java_regex.json"
GENERATED = TABLE.with_name("java_regex_generated.json")
EXAMPLES = 500  # generated patterns, before those are left out that kafka-mirror refuses
Answer = list[str] | None  # the names that a pattern matches; None when Java refuses the pattern


@contextmanager
def java_regex() -> Iterator[Callable[[str, Sequence[str]], Answer]]:
    """Start a JVM; yields a function that tells which names Java's engine matches as a whole."""
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, token = launch_gateway(jarpath=str(py4j), java_path=java(), die_on_exit=True, enable_auth=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))

    def matched(pattern: str, names: Sequence[str]) -> Answer:
        try:
            compiled = gateway.jvm.java.util.regex.Pattern.compile(pattern)
        except Py4JJavaError:
            return None
        return [name for name in names if compiled.matcher(name).matches()]

    try:
        yield matched
    finally:
        gateway.shutdown()


def table() -> tuple[list[str], dict[str, Answer]]:
    """Return the names, and by pattern which of them Java matches, as they were written last."""
    found = json.loads(TABLE.read_text())
    return found["names"], found["matched"]


def text(names: Sequence[str], matched: Mapping[str, Answer]) -> str:
    """Return a table as it is kept, a pattern to a line."""
    lines = [f"  {json.dumps(pattern)}: {json.dumps(found)}" for pattern, found in matched.items()]
    return f'{{"names": {json.dumps(names)},\n"matched": {{\n' + ",\n".join(lines) + "\n}}\n"


def generated_table() -> dict[str, tuple[list[str], Answer]]:
    """Return the generated patterns, each with its names and those that Java matches."""
    return {pattern: (names, found) for pattern, names, found in json.loads(GENERATED.read_text())}


def generated() -> dict[str, list[str]]:
    """Generate patterns that kafka-mirror accepts, each with ten names; every call returns the same ones."""
    from tests.integration.test_java_regex import expressions, names

    made: dict[str, list[str]] = {}

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None)
    @given(pattern=expressions, given_names=st.lists(names, min_size=10, max_size=10, unique=True))
    def add(pattern: str, given_names: list[str]) -> None:
        try:
            compiled(pattern)
        except RegexError:
            return
        if r"\b" in pattern.lower():  # a word has all letters before Java 19, and ASCII letters since
            given_names = [name for name in given_names if name.isascii()]
        made.setdefault(pattern, given_names)

    add()
    return made


def main() -> None:
    """Run Java for the patterns of TABLE, where a new one is written with null, and for generated patterns."""
    names, patterns = table()
    with java_regex() as matched:
        TABLE.write_text(text(names, {pattern: matched(pattern, names) for pattern in patterns}))
        rows = [json.dumps([pattern, of_it, matched(pattern, of_it)]) for pattern, of_it in generated().items()]
    GENERATED.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
