#!/bin/sh
# Run Python for Spark's JVM, with the path that we want. Spark puts its own pyspark.zip before all else: there is no
# bytecode in it, so each process would compile a second and more of it again (docs/adr/0034). All of Spark's processes do
# without pandas and numpy, also those that only plan.
if [ "$1" = -m ]; then
    shift
    set -- -m mirror.runtime.without_pandas "$@"
fi
PYTHONPATH=$KAFKA_MIRROR_PYTHONPATH exec "$KAFKA_MIRROR_PYTHON" "$@"
