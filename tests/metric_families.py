"""Read Prometheus' protocol buffers (io.prometheus.client) with the protobuf package: no generated module is needed for that.

Only the fields that tests look at; the reader skips others, but counts them as unknown.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "double": Field.TYPE_DOUBLE,
    "uint64": Field.TYPE_UINT64,
    "uint32": Field.TYPE_UINT32,
    "sint32": Field.TYPE_SINT32,
    "sint64": Field.TYPE_SINT64,
    "int32": Field.TYPE_INT32,
    "string": Field.TYPE_STRING,
}
# name: number, type; "[]" for a repeated field
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "LabelPair": {"name": (1, "string"), "value": (2, "string")},
    "Gauge": {"value": (1, "double")},
    "Exemplar": {"label": (1, "LabelPair[]"), "value": (2, "double"), "timestamp": (3, "Timestamp")},
    "Counter": {"value": (1, "double"), "exemplar": (2, "Exemplar"), "created_timestamp": (3, "Timestamp")},
    "Untyped": {"value": (1, "double")},
    "Bucket": {"cumulative_count": (1, "uint64"), "upper_bound": (2, "double"), "exemplar": (3, "Exemplar")},
    "BucketSpan": {"offset": (1, "sint32"), "length": (2, "uint32")},
    "Histogram": {
        "sample_count": (1, "uint64"),
        "sample_sum": (2, "double"),
        "bucket": (3, "Bucket[]"),
        "schema": (5, "sint32"),
        "zero_threshold": (6, "double"),
        "zero_count": (7, "uint64"),
        "negative_span": (9, "BucketSpan[]"),
        "negative_delta": (10, "sint64[]"),
        "positive_span": (12, "BucketSpan[]"),
        "positive_delta": (13, "sint64[]"),
        "created_timestamp": (15, "Timestamp"),
    },
    "Metric": {
        "label": (1, "LabelPair[]"),
        "gauge": (2, "Gauge"),
        "counter": (3, "Counter"),
        "untyped": (5, "Untyped"),
        "histogram": (7, "Histogram"),
    },
    "MetricFamily": {"name": (1, "string"), "help": (2, "string"), "type": (3, "int32"), "metric": (4, "Metric[]")},
}


def _family_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="metrics.proto", package="io.prometheus.client", dependency=["google/protobuf/timestamp.proto"]
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            single = kind.removesuffix("[]")
            made = message.field.add(name=field, number=number)
            made.label = Field.LABEL_REPEATED if kind.endswith("[]") else Field.LABEL_OPTIONAL
            made.type = _SCALARS.get(single, Field.TYPE_MESSAGE)
            if made.type == Field.TYPE_MESSAGE:
                package = ".google.protobuf" if single == "Timestamp" else ".io.prometheus.client"
                made.type_name = f"{package}.{single}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("io.prometheus.client.MetricFamily"))


_FAMILY = _family_class()


def families(body: bytes) -> dict[str, Any]:
    """Read messages, each behind its length as a varint; return them by name."""
    found, at = {}, 0
    while at < len(body):
        length = shift = 0
        while True:
            byte, at = body[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        family = _FAMILY.FromString(body[at : at + length])
        assert family.ByteSize() == length  # nothing was written twice, or longer than it need be
        assert family.name not in found
        found[family.name] = family
        at += length
    return found


def labels(metric: Any) -> dict[str, str]:
    """The labels of a metric or an exemplar."""
    return {pair.name: pair.value for pair in metric.label}
