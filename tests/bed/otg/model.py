"""Prints what the bench knows of the API's protobuf model: crates/otg/src/grpc/model.proto, which a test holds against snappi's model.

Every message that the bench reads or writes is whole, so that what it does not take is refused by its name. Others are messages whose content nobody
reads, because whoever sends one is refused.
"""

import re

from google.protobuf.descriptor import FieldDescriptor as Field
from snappi import otg_pb2

MODEL = otg_pb2.DESCRIPTOR.message_types_by_name
ROOTS = """SetConfigRequest SetConfigResponse GetConfigResponse SetControlStateRequest SetControlStateResponse GetMetricsRequest GetMetricsResponse
GetVersionResponse Data""".split()
READ = re.compile(
    r"""(Config|ConfigOptions|PortOptions|Port|Layer1|Flow|FlowTxRx|FlowPort|FlowHeader|FlowEthernet|FlowIpv[46]|FlowUdp|FlowIpv4Priority|FlowIpv4Dscp
    |FlowSize|FlowSizeIncrement|FlowRate|FlowDuration|FlowFixedPackets|FlowFixedSeconds|FlowContinuous|FlowDelay|FlowMetrics|FlowLatencyMetrics
    |ControlState|StateTraffic|StateTrafficFlowTransmit|StatePort|StatePortLink
    |MetricsRequest|PortMetricsRequest|FlowMetricsRequest|MetricsResponse|PortMetric|FlowMetric|Warning|Version
    |Pattern\w+(?<!MetricTag)(?<!Random))""",
    re.VERBOSE,
)
SCALARS = {
    Field.TYPE_FLOAT: "float",
    Field.TYPE_DOUBLE: "double",
    Field.TYPE_INT32: "int32",
    Field.TYPE_INT64: "int64",
    Field.TYPE_UINT32: "uint32",
    Field.TYPE_UINT64: "uint64",
    Field.TYPE_BOOL: "bool",
    Field.TYPE_STRING: "string",
    Field.TYPE_BYTES: "bytes",
}


def kind(field):
    if field.type == Field.TYPE_MESSAGE:
        name = field.message_type.name
        return name if READ.fullmatch(name) else "Unread"
    if field.type == Field.TYPE_ENUM:
        return f"{field.enum_type.containing_type.name}.{field.enum_type.name}"
    return SCALARS[field.type]


def lines(message):
    yield f"message {message.name} {{"
    for nested in message.nested_types:
        [enum] = nested.enum_types
        yield f"  message {nested.name} {{"
        yield f"    enum {enum.name} {{"
        for value in enum.values:
            yield f"      {value.name} = {value.number};"
        yield "    }"
        yield "  }"
    for field in message.fields:
        label = "repeated " if field.is_repeated else "optional " if field.has_presence else ""
        yield f"  {label}{kind(field)} {field.name} = {field.number};"
    yield "}"


seen, waiting = [], list(ROOTS)
while waiting:
    name = waiting.pop(0)
    if name in seen:
        continue
    seen.append(name)
    waiting += [kind(field) for field in MODEL[name].fields if field.type == Field.TYPE_MESSAGE and kind(field) != "Unread"]

print("// Made by tests/bed/otg/model.py of snappi's model 1.62.0, and not to be edited. Names and numbers are those of the Open Traffic Generator models")
print("// (https://github.com/open-traffic-generator/models, copyright 2021 Open Traffic Generator, MIT).")
print('syntax = "proto3";')
print("package otg;")
print()
print("// What the bench does not take.")
print("message Unread {}")
for name in seen:
    print()
    print("\n".join(lines(MODEL[name])))
