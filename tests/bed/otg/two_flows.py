"""Two flows at once, as snappi's greeting has them: 1,000 frames each way, of different sizes, done when both ports have counted all.

The place of the API, the IP version and the Ethernet addresses that frames are sent to from each port come from the command line.
"""

import sys
import time

from api import api_at

location, version, left_gateway, right_gateway = sys.argv[1:]
api = api_at(location)
cfg = api.config()
p1, p2 = cfg.ports.port(name="p1", location="left").port(name="p2", location="right")
ly = cfg.layer1.layer1(name="ly")[-1]
ly.port_names = [p1.name, p2.name]
ly.speed = ly.SPEED_1_GBPS

f1, f2 = cfg.flows.flow(name="flow p1->p2").flow(name="flow p2->p1")
f1.tx_rx.port.tx_name, f1.tx_rx.port.rx_names = p1.name, [p2.name]
f2.tx_rx.port.tx_name, f2.tx_rx.port.rx_names = p2.name, [p1.name]
f1.size.fixed, f2.size.fixed = 128, 256
for flow in cfg.flows:
    flow.duration.fixed_packets.packets = 1000
    flow.rate.pps = 2000
    flow.metrics.enable = True

if version == "4":
    eth1, ip1, udp1 = f1.packet.ethernet().ipv4().udp()
    eth2, ip2, udp2 = f2.packet.ethernet().ipv4().udp()
    left, right = "10.0.1.2", "10.0.2.2"
else:
    eth1, ip1, udp1 = f1.packet.ethernet().ipv6().udp()
    eth2, ip2, udp2 = f2.packet.ethernet().ipv6().udp()
    left, right = "2001:db8:1::2", "2001:db8:2::2"
eth1.src.value, eth1.dst.value = "02:00:00:00:01:02", left_gateway
eth2.src.value, eth2.dst.value = "02:00:00:00:02:02", right_gateway
ip1.src.value, ip1.dst.value = left, right
ip2.src.value, ip2.dst.value = right, left
udp1.src_port.increment.start = 5000
udp1.src_port.increment.step = 2
udp1.src_port.increment.count = 10
udp2.src_port.decrement.start = 6000
udp2.src_port.decrement.step = 4
udp2.src_port.decrement.count = 10
udp1.dst_port.values = [4000, 4044, 4060, 4074]
udp2.dst_port.values = [8000, 8044, 8060, 8074, 8082, 8084]

api.set_config(cfg)
cs = api.control_state()
cs.traffic.flow_transmit.state = cs.traffic.flow_transmit.START
api.set_control_state(cs)

req = api.metrics_request()
req.port.port_names = [p.name for p in cfg.ports]
req.port.column_names = [req.port.FRAMES_TX, req.port.FRAMES_RX]
last, seen = time.monotonic(), None
while True:
    metrics = api.get_metrics(req).port_metrics
    now = [(m.name, m.frames_tx, m.frames_rx) for m in metrics]
    if now == [("p1", 1000, 1000), ("p2", 1000, 1000)]:
        break
    if now != seen:
        last, seen = time.monotonic(), now
    assert time.monotonic() - last < 15, now
    time.sleep(0.02)

req = api.metrics_request()
req.flow.flow_names = []
flows = api.get_metrics(req).flow_metrics
assert [(m.name, m.frames_tx, m.frames_rx, m.bytes_rx) for m in flows] == [
    ("flow p1->p2", 1000, 1000, 128000),
    ("flow p2->p1", 1000, 1000, 256000),
], flows

# What the bench does not have is refused in words.
capture = api.capture_request()
capture.port_name = p1.name
try:
    api.get_capture(capture)
    raise AssertionError("a capture was given")
except Exception as refused:
    error = api.from_exception(refused)
    assert error is not None and error.code == 400 and error.kind == error.VALIDATION, refused
    assert "captures no frames" in error.errors[0], error
