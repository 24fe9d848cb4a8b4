"""Have a broker's JVM write its class archive, so that the hundreds of brokers that tests start need not read their jars.

Run by `./test`; it writes nothing where there is one already.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer

from mirror.embedded import jars
from mirror.embedded.broker import Broker

WRITTEN_WITHIN_S = 300.0  # after its stop
ANSWERS_S = 60.0


def main() -> None:
    """Write the archive, where there is none."""
    jars.resolve()
    archive = jars.class_archive(is_asked_for=True)
    if archive.is_there:
        return
    print("writing the class archive of Kafka's brokers, about fifteen seconds ...", flush=True)
    options = archive.jvm_option().split()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker.start("rehearsal", Path(folder), jvm_options=options)
        try:
            _use(broker)
        finally:
            broker.stop(timeout_s=WRITTEN_WITHIN_S)
    archive.keep()


def _use(broker: Broker) -> None:
    """Have it load what tests need: a transaction, a group, its offsets."""
    client = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer({**client, "transactional.id": "rehearsal"})
    producer.init_transactions(ANSWERS_S)
    producer.begin_transaction()
    producer.produce("rehearsal", b"value", b"key")
    producer.commit_transaction(ANSWERS_S)
    consumer = Consumer({**client, "group.id": "rehearsal", "auto.offset.reset": "earliest"})
    consumer.subscribe(["rehearsal"])
    read = consumer.poll(ANSWERS_S)
    assert read is not None, f"no record within {ANSWERS_S} s"
    assert read.error() is None, read.error()
    consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()
