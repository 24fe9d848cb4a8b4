"""Ask Java what its regular expressions match; fill in the table that the unit tests read: python -m tests.java_regex."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from mirror.runtime.java import java

TABLE = Path(__file__).parent / "data" / "java_regex.json"
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


def main() -> None:
    """Ask Java again for the patterns and names of the table; new ones are written there with null."""
    names, patterns = table()
    with java_regex() as matched:
        TABLE.write_text(text(names, {pattern: matched(pattern, names) for pattern in patterns}))


if __name__ == "__main__":
    main()
