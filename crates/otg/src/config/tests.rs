//! Configurations as text: what is taken, and what is refused with which place.

use super::{Config, Flow};
use serde_json::{Value, json};
use std::time::Duration;

/// Two ports and a flow between them.
fn whole() -> Value {
    json!({
        "ports": [{ "name": "p1", "location": "eth1" }, { "name": "p2", "location": "eth2" }],
        "flows": [flow("f1")],
    })
}

fn flow(name: &str) -> Value {
    json!({
        "name": name,
        "tx_rx": { "choice": "port", "port": { "tx_name": "p1", "rx_names": ["p2"] } },
        "packet": [{ "choice": "ethernet", "ethernet": {} }, { "choice": "ipv4", "ipv4": {} }, { "choice": "udp", "udp": {} }],
    })
}

/// A flow whose frames have 600,000 pairs of ports.
fn many(name: &str) -> Value {
    let mut made = flow(name);
    made["packet"][2]["udp"] = json!({
        "src_port": { "increment": { "start": 1, "step": 1, "count": 600_000 } },
    });
    made
}

/// The whole configuration with something else at a place, such as `/flows/0/size`.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut made = whole();
    for (place, value) in changes {
        let (above, key) = place.rsplit_once('/').unwrap();
        let above = made.pointer_mut(above).unwrap();
        match above.as_array_mut() {
            Some(list) if key.parse() == Ok(list.len()) => list.push(value.clone()),
            Some(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
            None => above[key] = value.clone(),
        }
    }
    made
}

fn read(changes: &[(&str, Value)]) -> Result<Config, String> {
    Config::read(with(changes), Duration::from_secs(100)).map_err(|refusal| refusal.what)
}

fn first(changes: &[(&str, Value)]) -> Flow {
    read(changes).unwrap_or_else(|refused| panic!("{changes:?}: {refused}")).flows.remove(0)
}

fn ends(flow: &Flow, count: usize) -> Vec<String> {
    let text = |e: &traffic::Ends| {
        format!("{} {} {} {}", e.source, e.source_port, e.destination, e.destination_port)
    };
    flow.packet.ends.iter().take(count).map(text).collect()
}

#[test]
fn what_is_left_out_is_as_the_api_says() {
    let flow = first(&[]);
    assert_eq!((flow.tx, flow.rx, flow.rate, flow.frames), (0, Some(1), 1000.0, None));
    assert_eq!((flow.sizes[0].bytes(), flow.packet.ttl, flow.metrics), (64, 64, false));
    assert_eq!(ends(&flow, 9), ["0.0.0.0 0 0.0.0.0 0"]);
    assert!(Config::read(json!({}), Duration::from_secs(1)).is_ok_and(|config| config.ports.is_empty()));
}

#[test]
fn rates_and_durations_become_frames() {
    let speed = |word: &str| json!([{ "name": "l", "port_names": ["p1"], "speed": word }]);
    type Row<'a> = (&'a [(&'a str, Value)], f64, Option<u64>);
    let rows: [Row<'_>; 10] = [
        (&[("/flows/0/rate", json!({ "choice": "pps", "pps": "2500" }))], 2500.0, None),
        (&[("/flows/0/rate", json!({ "pps": 7 }))], 7.0, None),
        (
            &[
                ("/flows/0/rate", json!({ "choice": "mbps", "mbps": 512 })),
                ("/flows/0/size", json!({ "fixed": 64 })),
            ],
            1e6,
            None,
        ),
        (
            &[("/flows/0/rate", json!({ "percentage": 10.0 })), ("/layer1", speed("speed_1_gbps"))],
            148_809.523_809_523_8,
            None,
        ),
        (
            &[("/flows/0/rate", json!({ "percentage": 100 })), ("/layer1", speed("speed_100_fd_mbps"))],
            148_809.523_809_523_8,
            None,
        ),
        (
            &[(
                "/flows/0/duration",
                json!({ "choice": "fixed_packets", "fixed_packets": { "packets": 12, "gap": 12 } }),
            )],
            1000.0,
            Some(12),
        ),
        (&[("/flows/0/duration", json!({ "fixed_packets": {} }))], 1000.0, Some(1)),
        (
            &[(
                "/flows/0/duration",
                json!({ "fixed_seconds": { "seconds": 2.5, "delay": { "nanoseconds": 0 } } }),
            )],
            1000.0,
            Some(2500),
        ),
        (&[("/flows/0/duration", json!({ "choice": "fixed_seconds" }))], 1000.0, Some(1000)),
        (&[("/flows/0/duration", json!({ "continuous": {} }))], 1000.0, None),
    ];
    for (changes, rate, frames) in rows {
        let flow = first(changes);
        assert!(
            (flow.rate / rate - 1.0).abs() < 1e-9 && flow.frames == frames,
            "{changes:?}: {} {:?}",
            flow.rate,
            flow.frames
        );
    }
}

#[test]
fn fields_go_through_their_values_frame_by_frame() {
    let v4 = first(&[
        (
            "/flows/0/packet/1/ipv4",
            json!({
                "src": { "choice": "increment", "increment": { "start": "10.1.255.254", "count": 1 } },
                "dst": { "choice": "decrement", "decrement": { "start": "10.2.0.9", "step": "0.0.0.4", "count": 2 } },
                "priority": { "choice": "dscp", "dscp": { "phb": { "value": 46 }, "ecn": { "value": 1 } } },
                "time_to_live": { "value": 9 }, "dont_fragment": { "value": 1 },
            }),
        ),
        (
            "/flows/0/packet/2/udp",
            json!({
                "src_port": { "increment": { "start": 65535, "step": 2, "count": 3 } }, "dst_port": { "values": [4, 5] },
            }),
        ),
        (
            "/flows/0/packet/0/ethernet",
            json!({ "src": { "value": "00:AA:00:00:04:00" }, "ether_type": { "value": 2048 } }),
        ),
    ]);
    let packet = &v4.packet;
    assert_eq!((packet.traffic_class, packet.ttl, packet.dont_fragment), (0xb9, 9, true));
    assert_eq!(packet.source_mac, [0, 0xaa, 0, 0, 4, 0]);
    assert_eq!(
        ends(&v4, 99),
        [
            "10.1.255.254 65535 10.2.0.9 4",
            "10.1.255.254 1 10.2.0.5 5",
            "10.1.255.254 3 10.2.0.9 4",
            "10.1.255.254 65535 10.2.0.5 5",
            "10.1.255.254 1 10.2.0.9 4",
            "10.1.255.254 3 10.2.0.5 5",
        ]
    );
    let v6 = first(&[
        ("/flows/0/size", json!({ "increment": { "start": 84, "end": 100, "step": 10 } })),
        (
            "/flows/0/packet/1",
            json!({ "choice": "ipv6", "ipv6": {
            "src": { "values": ["2001:db8::1", "2001:db8::ffff"] }, "flow_label": { "value": 0xfffff }, "hop_limit": { "value": 255 },
            "traffic_class": { "value": 255 },
        } }),
        ),
    ]);
    assert_eq!(v6.sizes.iter().map(|size| size.bytes()).collect::<Vec<_>>(), [84, 94]);
    assert_eq!((v6.packet.flow_label, v6.packet.ttl, v6.packet.traffic_class), (0xf_ffff, 255, 255));
    assert_eq!(ends(&v6, 9), ["2001:db8::1 0 :: 0", "2001:db8::ffff 0 :: 0"]);
}

#[test]
fn what_the_generator_cannot_send_is_refused_with_its_place() {
    let ipv4 = |key: &str, value: Value| vec![("/flows/0/packet/1/ipv4", json!({ key: value }))];
    let udp = |key: &str, value: Value| vec![("/flows/0/packet/2/udp", json!({ key: value }))];
    let at = |place: &'static str, value: Value| vec![(place, value)];
    let v6 = json!({ "choice": "ipv6", "ipv6": {} });
    let mut six = flow("six");
    (six["packet"][1], six["size"]) = (v6.clone(), json!({ "fixed": 100 }));
    let more = |count: usize| {
        let flows: Vec<Value> = (0..count).map(|number| flow(&format!("f{number}"))).collect();
        vec![("/flows", json!(flows))]
    };
    type Refused<'a> = (Vec<(&'a str, Value)>, &'a str);
    let rows: Vec<Refused<'_>> = vec![
        (at("/captures", json!([{}])), "captures: not supported"),
        (at("/devices", json!([{}])), "devices: not supported"),
        (
            at("/options", json!({ "port_options": { "data_integrity": true } })),
            "options.port_options.data_integrity: ",
        ),
        (
            at("/ports/1/location", json!("10.0.0.1;1;2")),
            "ports[1].location: the bench's ports are interfaces",
        ),
        (at("/ports/1/location", json!("eth1")), "ports[1].location: another port has this interface"),
        (at("/ports/1/name", json!("p1")), "ports[1].name: each port has a name of its own"),
        (at("/ports/1", json!({ "name": "p2" })), "ports[1].location: it is missing"),
        (
            vec![
                ("/ports/2", json!({ "name": "c", "location": "c" })),
                ("/ports/3", json!({ "name": "d", "location": "d" })),
            ],
            "ports[3]: the bench has 3 ports",
        ),
        (
            at("/layer1", json!([{ "name": "l", "port_names": ["p9"] }])),
            "layer1[0].port_names[0]: there is no port called `p9`",
        ),
        (
            at("/layer1", json!([{ "name": "l", "speed": "speed_10_hd_mbps" }])),
            "layer1[0].speed: `speed_10_hd_mbps` is no full-duplex speed",
        ),
        (at("/layer1", json!([{ "name": "l", "media": "fiber" }])), "layer1[0].media: not supported"),
        (at("/flows/0/payload", json!({})), "flows[0].payload: not supported; the bench knows name, tx_rx"),
        (at("/flows/0/egress_packet", json!([{}])), "flows[0].egress_packet: not supported"),
        (
            at("/flows/0/tx_rx", json!({ "choice": "device", "device": {} })),
            "flows[0].tx_rx: `device` is not supported; the bench has port",
        ),
        (
            at("/flows/0/tx_rx/port/tx_name", json!("p3")),
            "flows[0].tx_rx.port.tx_name: there is no port called `p3`",
        ),
        (
            at("/flows/0/tx_rx/port/rx_names", json!(["p1", "p2"])),
            "flows[0].tx_rx.port: a flow has one receiving port",
        ),
        (
            at("/flows/0/packet/1", json!({ "choice": "vlan", "vlan": {} })),
            "flows[0].packet[1]: `vlan` is not supported",
        ),
        (
            at("/flows/0/packet/2", json!({ "choice": "tcp", "tcp": {} })),
            "flows[0].packet[2]: `tcp` is not supported",
        ),
        (
            at("/flows/0/packet", json!([{ "choice": "ethernet", "ethernet": {} }])),
            "flows[0].packet: the generator sends ethernet, ipv4 or ipv6, and udp",
        ),
        (
            at(
                "/flows/0/packet/0/ethernet",
                json!({ "src": { "values": ["02:00:00:00:00:01", "02:00:00:00:00:02"] } }),
            ),
            "flows[0].packet[0].ethernet.src: it must be one value",
        ),
        (
            at("/flows/0/packet/0/ethernet", json!({ "dst": { "choice": "auto" } })),
            "flows[0].packet[0].ethernet.dst: `auto` is not supported",
        ),
        (
            at("/flows/0/packet/0/ethernet", json!({ "dst": { "value": "2:0:0:0:0:1" } })),
            "flows[0].packet[0].ethernet.dst.value: it must be an Ethernet address",
        ),
        (
            ipv4("src", json!({ "values": ["10.0.0.1", "10.1.0.1"] })),
            "flows[0].packet[1].ipv4.src: addresses of a flow may differ in their last two bytes only",
        ),
        (
            ipv4("src", json!({ "value": "10.0.0" })),
            "flows[0].packet[1].ipv4.src.value: it must be an IPv4 address",
        ),
        (ipv4("src", json!({ "value": "10.0.0.1", "metric_tags": [{}] })), "flows[0].packet[1].ipv4.src"),
        (
            ipv4("dst", json!({ "choice": "random", "random": {} })),
            "flows[0].packet[1].ipv4.dst: `random` is not supported",
        ),
        (ipv4("options", json!([{}])), "flows[0].packet[1].ipv4.options: not supported"),
        (
            ipv4("protocol", json!({ "value": 6 })),
            "flows[0].packet[1].ipv4.protocol: the generator writes this field itself: leave it out, or write 17",
        ),
        (
            ipv4("identification", json!({ "value": 1 })),
            "flows[0].packet[1].ipv4.identification: the generator writes",
        ),
        (
            ipv4("header_checksum", json!({ "generated": "bad" })),
            "flows[0].packet[1].ipv4.header_checksum: the generator writes good",
        ),
        (
            ipv4("total_length", json!({ "value": 46 })),
            "flows[0].packet[1].ipv4.total_length: `value` is not supported",
        ),
        (
            ipv4("time_to_live", json!({ "value": 256 })),
            "flows[0].packet[1].ipv4.time_to_live.value: it must be a whole number from 0 to 255",
        ),
        (ipv4("priority", json!({ "tos": {} })), "flows[0].packet[1].ipv4.priority: `tos` is not supported"),
        (
            udp("checksum", json!({ "choice": "custom", "custom": 1 })),
            "flows[0].packet[2].udp.checksum: `custom` is not supported",
        ),
        (
            udp("src_port", json!({ "increment": { "count": 2_000_000 } })),
            "flows[0].packet[2].udp.src_port.increment.count: it must be a whole number",
        ),
        (
            vec![(
                "/flows/0/packet/2/udp",
                json!({
            "src_port": { "increment": { "count": 1_048_575 } }, "dst_port": { "increment": { "count": 1_048_574 } } }),
            )],
            "flows[0].packet[2].udp: addresses and ports together begin again after more than 1048576 frames",
        ),
        (
            udp("src_port", json!({ "choice": "values", "values": [] })),
            "flows[0].packet[2].udp.src_port.values: it must be 1 to",
        ),
        (
            at("/flows/0/size", json!({ "fixed": 63 })),
            "flows[0].size.fixed: a frame of 63 bytes: with these headers",
        ),
        (at("/flows/0/size", json!({ "fixed": 9000 })), "flows[0].size.fixed: a frame of 9000 bytes"),
        (at("/flows/0/size", json!({ "increment": {} })), "flows[0].size.increment: 1455 sizes"),
        (
            at("/flows/0/size", json!({ "choice": "weight_pairs" })),
            "flows[0].size: `weight_pairs` is not supported",
        ),
        (
            at("/flows/0/packet/1", v6),
            "flows[0]: a frame of 64 bytes: with these headers, a stamp of 18 bytes and the FCS, 84",
        ),
        (at("/flows/0/rate", json!({ "percentage": 1 })), "flows[0].rate: a share of what?"),
        (at("/flows/0/rate", json!({ "pps": 0 })), "flows[0].rate: 0 frames a second"),
        (
            at("/flows/0/rate", json!({ "choice": "pps", "bps": 1 })),
            "flows[0].rate.bps: not supported; the bench knows choice, pps",
        ),
        (
            at("/flows/0/duration", json!({ "choice": "burst", "burst": {} })),
            "flows[0].duration: `burst` is not supported",
        ),
        (
            at("/flows/0/duration", json!({ "fixed_packets": { "packets": 100_002 } })),
            "flows[0].duration: this takes 100 s at 1000 frames a second: flows are sent for up to 100 s",
        ),
        (
            at("/flows/0/duration", json!({ "fixed_seconds": { "seconds": 101 } })),
            "flows[0].duration.fixed_seconds: 101 seconds",
        ),
        (
            at("/flows/0/duration", json!({ "fixed_packets": { "gap": 13 } })),
            "flows[0].duration.fixed_packets.gap: frames follow each other as the rate says",
        ),
        (
            at("/flows/0/duration", json!({ "continuous": { "delay": { "microseconds": 1 } } })),
            "flows[0].duration.continuous.delay.microseconds: flows begin together",
        ),
        (
            at("/flows/0/metrics", json!({ "latency": { "enable": true } })),
            "flows[0].metrics.latency: latency is not part",
        ),
        (
            at("/flows/0/metrics", json!({ "enable": "yes" })),
            "flows[0].metrics.enable: it must be true or false",
        ),
        (at("/flows/0", json!([])), "flows[0]: it must be an object"),
        (at("/flows", json!({})), "flows: it must be a list"),
        (at("/flows/1", flow("f1")), "flows[1].name: another flow has this name"),
        (at("/flows/1", six), "flows[1].packet: all flows of a configuration have one IP version"),
        (more(8), "flows: 8 flows: the generator sends 7 at once"),
        // Nothing is made of flows that are too many.
        ([more(8), at("/flows/7", json!([]))].concat(), "flows: 8 flows: the generator sends 7 at once"),
        (
            [more(3), at("/flows/0", many("a")), at("/flows/1", many("b")), at("/flows/2", json!([]))]
                .concat(),
            "flows: 1200000 combinations of addresses and ports in the flows up to flows[1]: the generator has room for 1048576",
        ),
    ];
    for (changes, said) in rows {
        let Err(found) = read(&changes) else { panic!("{changes:?} is taken") };
        assert!(found.starts_with(said), "{changes:?}\n  says {found}\n  not  {said}");
    }
    assert!(read(&more(7)).is_ok());
    let list = Config::read(json!([]), Duration::from_secs(1)).unwrap_err();
    assert_eq!((list.status, list.what.as_str()), (400, "the request: it must be an object"));
}
