//! The client against nginx and the server against curl: both ends against the kernel's TCP. Needs root, iproute2, ethtool,
//! nginx (Debian: nginx-light) and curl.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot run")]

#[path = "tcp/bed.rs"]
mod bed;

use bed::{Bed, PATIENCE};
use measure::shape::IpVersion;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;
use traffic::tcp::{
    Answer, Close, Ends, Engine, Message, Opening, Options, Ports, Side, TcpPhase, TcpPlan, TcpReading,
};

const BODY: usize = 20_000;

/// Client ports of a run that has its own.
const PORTS: u16 = 2_000;

/// nginx in the server's namespace, ended when dropped.
struct Nginx {
    child: Child,
    folder: PathBuf,
}

impl Nginx {
    fn start(bed: &Bed) -> Self {
        let folder = std::env::temp_dir().join(format!("tcp-nginx-{}", bed.server().name()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("page"), "x".repeat(BODY)).unwrap();
        let at = folder.display();
        let conf = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/errors;\nevents {{ worker_connections 8192; }}\n\
             http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; \
             uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen 80 backlog=8192; listen [::]:80 backlog=8192; root {at}; }} }}\n"
        );
        std::fs::write(folder.join("conf"), conf).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", bed.server().name(), "nginx", "-e"])
            .arg(folder.join("errors"))
            .arg("-c")
            .arg(folder.join("conf"))
            .spawn()
            .unwrap();
        let mut made = Self { child, folder };
        while !bed.server().run("ss", &["-Hltn"]).contains(":80 ") {
            let ended = made.child.try_wait().unwrap();
            assert!(ended.is_none(), "nginx (Debian: nginx-light) did not start: {ended:?}");
            std::thread::yield_now();
        }
        made
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn plan(ip: IpVersion) -> TcpPlan {
    TcpPlan {
        ip,
        grace: PATIENCE,
        settle: PATIENCE,
        // Nothing is lost, but a busy machine answers late, and an end that is said again may find no connection any more.
        retry: PATIENCE / 3,
        ..TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(500.0, 0.4)]))
    }
}

/// Client ports that no run before used: what the kernel still holds of one, an end that was lost for instance, answers none of these SYNs.
fn other_ports(clients: &mut Side) {
    *clients = Side { first_port: clients.first_port + PORTS, ports: PORTS.into(), ..*clients };
}

#[test]
fn the_client_fetches_from_nginx() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    bed.give_server_a_stack();
    let _nginx = Nginx::start(&bed);
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Client).unwrap();
    for ip in [IpVersion::V4, IpVersion::V6] {
        let mut clients = plan(ip).clients;
        for (name, options, four_way) in [
            ("Linux's options", Options::LINUX, false),
            ("four-way", Options::LINUX, true),
            // Tuples in the server's TIME-WAIT, where without timestamps only the sequence number tells old from new.
            ("the MSS alone, tuples used again", Options::MSS, false),
        ] {
            let mut plan = plan(ip);
            other_ports(&mut clients);
            (plan.clients, plan.tuples) = (clients, PORTS.into());
            plan.request = Message::http_get("/page");
            plan.answer = Answer::UntilFin;
            plan.close = Close::ServerFin;
            (plan.options, plan.four_way) = (options, four_way);
            if options == Options::MSS {
                // Few open at a time: a client that catches up with its schedule would find no tuple free.
                plan.tuples = 50;
                plan.opening = Opening::KeepOpen(25, vec![TcpPhase::constant(500.0, 2.0)]);
            }
            let reading = if four_way {
                closed_four_way(&mut engine, &ports, plan.clone(), &mut clients)
            } else {
                engine.run(&ports, &plan, &mut ()).unwrap()
            };
            let c = &reading.counts;
            let all = if options == Options::MSS { c.attempted } else { 200 };
            assert!(all > u64::from(plan.tuples.min(60)), "{name}, {ip:?}: {c:?}");
            assert_eq!((c.opened, c.completed, c.closed), (all, all, all), "{name}, {ip:?}: {c:?}");
            assert!(c.bytes_in > all * BODY as u64, "{name}, {ip:?}: {c:?}");
            assert_eq!(c.reset + c.stray + c.strange_reset + c.syn_again, 0, "{name}, {ip:?}: {c:?}");
        }
    }
}

/// While Linux closes a connection, it may lose a FIN that comes right behind the acknowledgement of its own ("we still can lose it now":
/// `tcp_rcv_state_process`), one in ten here, and it answers only the next one. So that one is sent soon. Where a busy machine was so late
/// that a handshake was said again too, or given up, the run is made again with the patience of the others, and from
/// other ports: the server may wait for the last acknowledgement of a connection that was given up.
fn closed_four_way(engine: &mut Engine, ports: &Ports, mut plan: TcpPlan, clients: &mut Side) -> TcpReading {
    let patient = std::mem::replace(&mut plan.retry, Duration::from_secs(2));
    let reading = engine.run(ports, &plan, &mut ()).unwrap();
    let c = &reading.counts;
    if c.closed == c.attempted && c.syn_again + c.reset + c.stray + c.strange_reset == 0 {
        return reading;
    }
    plan.retry = patient;
    other_ports(clients);
    plan.clients = *clients;
    engine.run(ports, &plan, &mut ()).unwrap()
}

#[test]
fn an_answer_other_than_expected_is_wrong_data() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    bed.give_server_a_stack();
    let _nginx = Nginx::start(&bed);
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Client).unwrap();
    // As long as a first segment of nginx's, up to the status line's last letter, or not at all like it.
    for expected in ["HTTP/1.1 200 OJ".to_owned() + &"x".repeat(3000), "y".repeat(3000), "HTTP".to_owned()] {
        let mut plan = plan(IpVersion::V4);
        plan.request = Message::http_get("/page");
        plan.answer = Answer::Exactly(Message::new(expected.clone()).unwrap());
        let c = engine.run(&ports, &plan, &mut ()).unwrap().counts;
        assert_eq!((c.established, c.wrong_data, c.completed), (200, 200, 0), "{expected:.20}: {c:?}");
    }
}

#[test]
fn a_closed_port_of_the_kernel_refuses() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    bed.give_server_a_stack();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Client).unwrap();
    for ip in [IpVersion::V4, IpVersion::V6] {
        let c = engine.run(&ports, &plan(ip), &mut ()).unwrap().counts;
        assert_eq!((c.opened, c.refused, c.established), (200, 200, 0), "{ip:?}: {c:?}");
    }
}

#[test]
fn curl_fetches_from_the_server() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    bed.give_client_a_stack();
    let mut engine = Engine::load(1).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Server).unwrap();
    for (ip, address) in [(IpVersion::V4, "198.19.1.0"), (IpVersion::V6, "[fd00:2::100]")] {
        for (name, body, close, four_way, how) in [
            ("one byte, curl closes", 1, Close::ClientFin, false, "--http1.1"),
            ("one byte, curl closes, four-way", 1, Close::ClientFin, true, "--http1.1"),
            ("one byte, the server closes", 1, Close::ServerFin, false, "--http1.0"),
            ("a segment", 1300, Close::ServerFin, false, "--http1.1"),
            ("several segments", 20_000, Close::ServerFin, false, "--http1.1"),
            ("several segments, curl closes", 20_000, Close::ClientFin, false, "--http1.1"),
        ] {
            let mut plan = plan(ip);
            plan.clients.first_host = 1;
            plan.tuples = 1;
            plan.answer = Answer::Exactly(Message::http_answer(body));
            (plan.close, plan.four_way) = (close, four_way);
            let mut fetched = String::new();
            let fetch = || {
                fetched =
                    bed.client().run("curl", &["-sg", how, "--max-time", "10", &format!("http://{address}/")])
            };
            let reading = engine.serve(&ports, &plan, fetch).unwrap();
            let expected: String = (0..body).map(|i| (b'a' + (i % 26) as u8) as char).collect();
            assert_eq!(fetched.len(), body, "{name}, {ip:?}: {:?}", reading.counts);
            assert_eq!(fetched, expected, "{name}, {ip:?}");
            let c = reading.counts;
            assert_eq!(
                (c.server_request, c.server_wrong_data),
                (1, 1),
                "curl asks otherwise than the plan: {c:?}"
            );
        }
    }
}
