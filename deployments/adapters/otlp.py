"""Metrics of the OpenTelemetry protocol over HTTP: bytes in protobuf or JSON to data points.

https://opentelemetry.io/docs/specs/otlp/ and opentelemetry-proto 1.x (metrics/v1/metrics.proto).
Only the fields that are read are described here, in a pool of their own: the package of the whole
protocol and the gateway's `xds-protos`, which brings an older one, own the same files.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, Message

from console.errors import Invalid, TooLarge
from deployments.rules.telemetry.sent import SentPoint, Shape

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MOST_BYTES: Final = 4 * 1024**2
MOST_INFLATED: Final = 16 * 1024**2
MOST_POINTS: Final = 10_000
_MOST_PARTS: Final = 100_000
"""Resources, scopes, metrics and data points with or without a value: each takes time to read,
and millions of empty ones are a few kilobytes of gzip."""
_MOST_ATTRIBUTES: Final = 64
_LONGEST_TEXT: Final = 200
_CUMULATIVE: Final = 2
_NO_VALUE: Final = 1

_PACKAGE = "covenant.otlp"
_NUMBER = "start_time_unix_nano 2 fixed64; time_unix_nano 3 fixed64; "
_SCHEMA: Final = {
    "AnyValue": "string_value 1 string; bool_value 2 bool; int_value 3 int64; "
    "double_value 4 double",
    "KeyValue": "key 1 string; value 2 AnyValue",
    "Resource": "attributes 1 *KeyValue",
    "Scope": "name 1 string",
    "Number": _NUMBER
    + "as_double 4 double; as_int 6 sfixed64; attributes 7 *KeyValue; flags 8 uint32",
    "Buckets": _NUMBER + "count 4 fixed64; sum 5 double; attributes 9 *KeyValue; flags 10 uint32; "
    "min 11 double; max 12 double",
    "Exponential": _NUMBER
    + "count 4 fixed64; sum 5 double; attributes 1 *KeyValue; flags 10 uint32; "
    "min 12 double; max 13 double",
    "Quantiles": _NUMBER + "count 4 fixed64; sum 5 double; attributes 7 *KeyValue; flags 8 uint32",
    "Gauge": "data_points 1 *Number",
    "Sum": "data_points 1 *Number; aggregation_temporality 2 int32; is_monotonic 3 bool",
    "Histogram": "data_points 1 *Buckets; aggregation_temporality 2 int32",
    "ExponentialHistogram": "data_points 1 *Exponential; aggregation_temporality 2 int32",
    "Summary": "data_points 1 *Quantiles",
    "Metric": "name 1 string; unit 3 string; gauge 5 Gauge; sum 7 Sum; histogram 9 Histogram; "
    "exponential_histogram 10 ExponentialHistogram; summary 11 Summary",
    "ScopeMetrics": "scope 1 Scope; metrics 2 *Metric",
    "ResourceMetrics": "resource 1 Resource; scope_metrics 2 *ScopeMetrics",
    "Request": "resource_metrics 1 *ResourceMetrics",
    "PartialSuccess": "rejected_data_points 1 int64; error_message 2 string",
    "Response": "partial_success 1 PartialSuccess",
    "Status": "code 1 int32; message 2 string",
}
"""Message → its fields as `name number type`; * is a list."""


def read(body: bytes, *, content_type: str, encoding: str = "") -> list[SentPoint]:
    """The data points of an export request, those without a value left out.

    Raises Invalid (`bad_otlp`, `bad_content_type`, `bad_encoding`), TooLarge (`otlp_too_large`).
    """
    data = _inflated(body, encoding)
    request = _MESSAGES["Request"]()
    try:
        if content_type == JSON:
            text = json.dumps(_without_exemplars(json.loads(data)))
            json_format.Parse(text, request, ignore_unknown_fields=True)
        elif content_type == PROTOBUF:
            request.ParseFromString(data)
        else:
            raise Invalid(
                f"{content_type[:60] or 'No content type'} is not read here.",
                code="bad_content_type",
                hint=f"Send {PROTOBUF} or {JSON}.",
            )
    except (DecodeError, json_format.ParseError, ValueError, RecursionError) as error:
        raise Invalid(
            f"This is no export request of OTLP metrics: {str(error)[:200]}",
            code="bad_otlp",
            hint="Send an ExportMetricsServiceRequest to /otlp/v1/metrics.",
        ) from error
    found: list[SentPoint] = []
    for point in _points(request):
        if len(found) == MOST_POINTS:
            raise TooLarge(
                f"The request has more than {MOST_POINTS} data points.",
                code="otlp_too_large",
                hint="Send fewer at once.",
            )
        found.append(point)
    return found


def response(*, rejected: int, message: str, content_type: str) -> bytes:
    """An export response; empty where all was taken."""
    answer = _MESSAGES["Response"]()
    if rejected or message:
        answer.partial_success.rejected_data_points = rejected  # type: ignore[attr-defined]
        answer.partial_success.error_message = message  # type: ignore[attr-defined]
    return _written(answer, content_type)


def status(*, code: int, message: str, content_type: str) -> bytes:
    """A google.rpc.Status, as a sender expects it with each refusal."""
    answer = _MESSAGES["Status"](code=code, message=message)
    return _written(answer, content_type)


def request_bytes(document: Any) -> bytes:
    """A request's document (as in JSON) in protobuf."""
    return json_format.ParseDict(document, _MESSAGES["Request"]()).SerializeToString()


def _written(message: Message, content_type: str) -> bytes:
    if content_type == JSON:
        return json_format.MessageToJson(message, indent=None).encode()
    return message.SerializeToString()


def _inflated(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Invalid(
            f"The encoding {encoding[:40]} is not read here.",
            code="bad_encoding",
            hint="Send gzip, or no encoding.",
        )
    reader = zlib.decompressobj(wbits=31)
    try:
        data = reader.decompress(body, MOST_INFLATED)
    except zlib.error as error:
        raise Invalid("The body is no gzip.", code="bad_encoding", hint="Send gzip.") from error
    if reader.unconsumed_tail:
        raise TooLarge(
            f"The body has more than {MOST_INFLATED // 1024**2} MiB when it is unpacked.",
            code="otlp_too_large",
            hint="Send fewer data points at once.",
        )
    if not reader.eof:
        raise Invalid("The gzip ends too early.", code="bad_encoding", hint="Send all of it.")
    return data


def _without_exemplars(value: Any) -> Any:
    """Nobody reads them, and OTLP's JSON has their ids in another form than protobuf's own."""
    if isinstance(value, dict):
        return {key: _without_exemplars(one) for key, one in value.items() if key != "exemplars"}
    return [_without_exemplars(one) for one in value] if isinstance(value, list) else value


class _Room:
    """How many parts of a request may still be read."""

    def __init__(self) -> None:
        self._left = _MOST_PARTS

    def of(self, parts: Any) -> Any:
        """The parts, unless they are too many. Raises TooLarge."""
        self._left -= len(parts)
        if self._left < 0:
            raise TooLarge(
                f"The request has more than {_MOST_PARTS} resources, scopes, metrics and points.",
                code="otlp_too_large",
                hint="Send fewer at once.",
            )
        return parts


def _points(request: Any) -> Iterator[SentPoint]:
    room = _Room()
    for resource_metrics in room.of(request.resource_metrics):
        resource = _attributes(resource_metrics.resource.attributes)
        text = json.dumps(resource, sort_keys=True)
        for scope_metrics in room.of(resource_metrics.scope_metrics):
            source = hashlib.sha256(f"{text}\n{scope_metrics.scope.name}".encode()).hexdigest()
            for metric in room.of(scope_metrics.metrics):
                yield from _of_metric(metric, resource, source, room)


def _of_metric(
    metric: Any, resource: dict[str, str], source: str, room: _Room
) -> Iterator[SentPoint]:
    kind = next((name for name in _KINDS if metric.HasField(name)), None)
    if kind is None:
        return
    data = getattr(metric, kind)
    temporality = getattr(data, "aggregation_temporality", _CUMULATIVE)
    for one in room.of(data.data_points):
        if one.flags & _NO_VALUE:
            continue
        own = _attributes(one.attributes)
        shape, value, count = _value(kind, one)
        yield SentPoint(
            name=metric.name,
            unit=metric.unit.replace("\0", "")[:20],
            shape=shape,
            attributes={**resource, **own},
            own=own,
            source=source,
            start_ns=min(one.start_time_unix_nano, 2**63 - 1),
            time_ns=min(one.time_unix_nano, 2**63 - 1),
            value=value,
            cumulative=temporality == _CUMULATIVE,
            monotonic=kind == "sum" and data.is_monotonic,
            count=count,
            minimum=_optional(one, "min"),
            maximum=_optional(one, "max"),
        )


_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


def _value(kind: str, one: Any) -> tuple[Shape, float, int]:
    if kind in ("gauge", "sum"):
        value = one.as_int if one.HasField("as_int") else one.as_double
        return Shape(kind), float(value), 0
    return Shape.HISTOGRAM, float(one.sum), min(int(one.count), 2**62)


def _optional(one: Any, name: str) -> float | None:
    if name not in one.DESCRIPTOR.fields_by_name or not one.HasField(name):
        return None
    return float(getattr(one, name))


def _attributes(given: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given[:_MOST_ATTRIBUTES]:
        fields = one.value.ListFields()
        if fields:
            value = fields[0][1]
            word = str(value).lower() if isinstance(value, bool) else str(value)
            key = one.key.replace("\0", "")[:_LONGEST_TEXT]
            found[key] = word.replace("\0", "")[:_LONGEST_TEXT]
    return found


def _classes() -> dict[str, type[Message]]:
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="covenant/otlp.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for text in fields.split(";"):
            field_name, number, kind = text.split()
            field = message.field.add(name=field_name, number=int(number))
            many, kind = kind.startswith("*"), kind.removeprefix("*")
            field.label = types.LABEL_REPEATED if many else types.LABEL_OPTIONAL
            if kind in _SCHEMA:
                field.type, field.type_name = types.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
                continue
            field.type = types.Type.Value(f"TYPE_{kind.upper()}")
            # Each knows whether it was set, as a member of a oneof or an optional one does.
            message.oneof_decl.add(name=f"_{field_name}")
            field.oneof_index = len(message.oneof_decl) - 1
            field.proto3_optional = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _SCHEMA
    }


_MESSAGES = _classes()
