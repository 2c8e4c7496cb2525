"""One flow, as snappi's introduction has it: 10,000 frames of 128 bytes from one port to another; done when all have arrived.

The place of the API, the IP version and the Ethernet address that frames are sent to come from the command line.
"""

import sys
import time

from api import api_at

location, version, gateway = sys.argv[1:]
api = api_at(location)
config = api.config()
tx, rx = config.ports.port(name="tx", location="left").port(name="rx", location="right")

flw = config.flows.flow(name="flw")[-1]
flw.tx_rx.port.tx_name = tx.name
flw.tx_rx.port.rx_name = rx.name
flw.size.fixed = 128
flw.rate.pps = 20000
flw.duration.fixed_packets.packets = 10000
flw.metrics.enable = True
flw.metrics.loss = True

eth = flw.packet.ethernet()[-1]
eth.src.value, eth.dst.value = "02:00:00:00:01:02", gateway
if version == "4":
    ip = flw.packet.ipv4()[-1]
    ip.src.value = "10.0.1.2"
    ip.dst.increment.start, ip.dst.increment.step, ip.dst.increment.count = "10.0.2.2", "0.0.0.1", 5
else:
    ip = flw.packet.ipv6()[-1]
    ip.src.value = "2001:db8:1::2"
    ip.dst.values = ["2001:db8:2::2", "2001:db8:2::3"]
udp = flw.packet.udp()[-1]
udp.src_port.value, udp.dst_port.value = 5000, 6000

api.set_config(config)
assert api.get_config().serialize() == config.serialize()
state = api.control_state()
state.traffic.flow_transmit.state = state.traffic.flow_transmit.START
api.set_control_state(state)

request = api.metrics_request()
request.flow.flow_names = [flw.name]
last, seen = time.monotonic(), None
while True:
    metric = api.get_metrics(request).flow_metrics[0]
    if metric.frames_tx == 10000 == metric.frames_rx and metric.transmit == metric.STOPPED:
        break
    now = (metric.frames_tx, metric.frames_rx)
    if now != seen:
        last, seen = time.monotonic(), now
    assert time.monotonic() - last < 15, metric
    time.sleep(0.02)
assert metric.bytes_tx == metric.bytes_rx == 10000 * 128, metric
assert (metric.port_tx, metric.port_rx, metric.loss) == ("tx", "rx", 0), metric
