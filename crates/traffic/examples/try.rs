use measure::{frame::*, shape::*, trial::*};
use traffic::*;
fn mac(s: &str) -> [u8; 6] {
    let v: Vec<u8> = s.split(':').map(|x| u8::from_str_radix(x, 16).unwrap()).collect();
    v.try_into().unwrap()
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    // try nsA ifA macA nhA nsB ifB macB nhB size flows cores rate secs twoway
    let p = |i: usize, z, pre: u32| Port {
        zone: z,
        namespace: Some(format!("/run/netns/{}", a[i]).into()),
        ifindex: a[i + 1].parse().unwrap(),
        mac: mac(&a[i + 2]),
        next_hop_mac: mac(&a[i + 3]),
        v4_prefix: pre,
        v6_prefix: [0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    };
    let mut e = Engine::load(4_000_000).unwrap();
    let ports = e.attach(&[p(1, Zone::Private, 0xc6120000), p(5, Zone::Hostile, 0xc6130000)]).unwrap();
    let size: u16 = a[9].parse().unwrap();
    let flows: u32 = a[10].parse().unwrap();
    let cores: usize = a[11].parse().unwrap();
    let t = TrafficShape {
        frame: if size == 1 {
            FrameMix::sequence(
                "imix",
                [64, 64, 570, 64, 64, 570, 64, 570, 64, 570, 64, 1518]
                    .map(|x| FrameSize::new(x).unwrap())
                    .to_vec(),
            )
            .unwrap()
        } else {
            FrameMix::fixed(FrameSize::new(size).unwrap())
        },
        ip: if std::env::var("V6").is_ok() { IpVersion::V6 } else { IpVersion::V4 },
        flows,
        clients: 20,
        servers: 20,
        directions: Directions::OneWay,
        udp_checksum: if std::env::var("CSUM").is_ok() { UdpChecksum::Valid } else { UdpChecksum::Zero },
        cores: 1,
        seed: 1,
    };
    e.set_traffic(&t).unwrap();
    let rate: f64 = a[12].parse().unwrap();
    let secs: f64 = a[13].parse().unwrap();
    let l = Lane { from: Zone::Private, to: Zone::Hostile };
    let r = Lane { from: Zone::Hostile, to: Zone::Private };
    let lanes: Vec<_> = if a.len() > 14 { vec![(l, 0.5), (r, 0.5)] } else { vec![(l, 1.0)] };
    let cores: Vec<usize> = (0..cores).collect();
    for i in 0..4 {
        let dc = if i == 3 { Some(e.count_drops().unwrap()) } else { None };
        let phases = [Phase {
            load: if rate == 0.0 { Load::Maximum } else { Load::FramesPerSecond(rate) },
            seconds: secs,
        }];
        let o = e
            .run(
                &ports,
                &TrialPlan {
                    phases: &phases,
                    lanes: &lanes,
                    placement: Placement::Inline,
                    cores: &cores,
                    settle: SETTLE,
                    times_matter: std::env::var("TIMES").is_ok(),
                },
                |_, _| {},
                &|| false,
            )
            .unwrap();
        let s = &o.reading.streams[0];
        let t = &o.reading.times[0];
        println!(
            "{:.4}s offered {} sent {} recv {} = {:.3} Mpps dup {} reord {} corrupt {} lag {:.1}us late {} lat min {} mean {:.0} max {} n {} p50 {:?} foreign {} stale {}",
            o.seconds,
            o.offered,
            o.sent(),
            o.reading.streams.iter().map(|s| s.received).sum::<u64>(),
            o.reading.streams.iter().map(|s| s.received).sum::<u64>() as f64 / o.seconds / 1e6,
            s.duplicated,
            s.reordered,
            s.corrupted,
            o.reading.largest_lag as f64 / 1e3 / 1048576.0,
            o.reading.late,
            t.latency_min_ns,
            t.latency_sum_ns as f64 / t.latency_count.max(1) as f64,
            t.latency_max_ns,
            t.latency_count,
            {
                let v = t.latency();
                let n: u64 = v.iter().map(|x| x.1).sum();
                let mut c = 0;
                v.iter()
                    .find(|x| {
                        c += x.1;
                        c >= n / 2
                    })
                    .map(|x| x.0)
            },
            o.reading.foreign,
            o.reading.stale
        );
        if let Some(d) = &dc {
            println!("{:?}", e.drops(d).unwrap());
        }
    }
    e.detach(ports);
    let (a1, b1) = (p(1, Zone::Private, 0xc6120000), p(5, Zone::Hostile, 0xc6130000));
    for w in [false, true] {
        for _ in 0..2 {
            println!(
                "bare w={w} {:.3} Mpps",
                e.run_bare(&BareLoop {
                    from: &a1,
                    to: &b1,
                    writes_header: w,
                    bytes_without_fcs: 60,
                    cores: &cores,
                    duration: std::time::Duration::from_millis(400)
                })
                .unwrap()
                    / 1e6
            );
        }
    }
}
