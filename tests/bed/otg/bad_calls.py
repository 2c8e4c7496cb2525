"""Calls of gRPC that are refused, each in the API's words, on one connection that goes on; and calls that come at once."""

import json
import sys

import grpc
from snappi import otg_pb2

place = sys.argv[1].partition("://")[2]
channel = grpc.insecure_channel(place)


def ask(channel, name, message, **options):
    method = f"/otg.Openapi/{name}"
    same = bytes
    return channel.unary_unary(method, same, same).future(message, timeout=30, **options)


def is_refused(call, code, said):
    assert call.code() == code, (call.code(), call.details(), said)
    error = json.loads(call.details())
    assert said in error["errors"][0], error


device = otg_pb2.SetConfigRequest(config=otg_pb2.Config(devices=[otg_pb2.Device(name="d")])).SerializeToString()
pause = otg_pb2.SetControlStateRequest()
pause.control_state.traffic.flow_transmit.state = 3
name = "x" * 60000
ports = otg_pb2.SetConfigRequest(config=otg_pb2.Config(layer1=[otg_pb2.Layer1(name="l", port_names=[name])])).SerializeToString()
wrong, unknown, large = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED
for call, message, code, said in [
    ("SetConfig", b"\x0a\x05", wrong, "is no SetConfigRequest"),
    ("SetConfig", b"\x7a\x00", wrong, "SetConfigRequest has no field 15 in the API's model"),
    ("SetConfig", device, wrong, "devices: not supported; the bench knows ports, layer1, flows, options here"),
    ("SetConfig", ports, wrong, "layer1[0].port_names[0]: there is no port called `xxx"),
    ("SetControlState", pause.SerializeToString(), wrong, "`pause` is not supported; the bench has start, stop"),
    ("UpdateConfig", b"anything", wrong, "set the whole configuration"),
    ("GetStates", b"", wrong, "no devices"),
    ("Nosuch", b"", unknown, "there is no call"),
    ("SetConfig", bytes(17 << 20), large, "16777216 bytes at most"),
]:
    is_refused(ask(channel, call, message), code, said)
is_refused(ask(channel, "SetConfig", bytes(100), compression=grpc.Compression.Gzip), wrong, "compressed")
foreign = grpc.insecure_channel(place, options=[("grpc.default_authority", "evil.example")])
is_refused(ask(foreign, "GetVersion", b""), wrong, "only to its address")
for call in [ask(channel, "GetVersion", b"") for _ in range(50)]:
    version = otg_pb2.GetVersionResponse.FromString(call.result()).version
    assert version.api_spec_version == "1.62.0", version
