"""Envoy's message of a composite cluster, which the published messages for Python do not hold yet.

Importing it registers the type, so that it may travel inside Any fields as the others do.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool

PACKAGE = "envoy.extensions.clusters.composite.v3"
CONFIG = f"{PACKAGE}.ClusterConfig"

_Field = descriptor_pb2.FieldDescriptorProto


def _file() -> descriptor_pb2.FileDescriptorProto:
    entry = descriptor_pb2.DescriptorProto(
        name="ClusterEntry",
        field=[_Field(name="name", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)],
    )
    clusters = _Field(
        name="clusters",
        number=1,
        type=_Field.TYPE_MESSAGE,
        label=_Field.LABEL_REPEATED,
        type_name=f".{CONFIG}.ClusterEntry",
    )
    config = descriptor_pb2.DescriptorProto(
        name="ClusterConfig", field=[clusters], nested_type=[entry]
    )
    return descriptor_pb2.FileDescriptorProto(
        name="envoy/extensions/clusters/composite/v3/cluster.proto",
        package=PACKAGE,
        syntax="proto3",
        message_type=[config],
    )


DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_file().SerializeToString())
