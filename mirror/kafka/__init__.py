"""Talk to one Kafka cluster: its control plane, its groups, record batches from it and to it."""

import sys

# kio registers its types with hypothesis where that is installed: half a second, and 14 MiB, in every process of a developer's.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # as if it were not
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules["hypothesis"]
