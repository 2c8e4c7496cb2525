//! Metrics of a firewall as it runs, over TCP, with the rights that its daemon has.

use crate::WEB;
use crate::bed::{Bed, Outcome};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

#[test]
fn needs_root_prometheus_reads_what_the_firewall_counts() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.ip("fw", &["link", "set", "lo", "up"]);
    let policy = bed.policy("p.toml", WEB);
    let (status, text) = bed.rampart(&["up", &policy, "--metrics", "10.81.1.1:9469"]);
    assert!(status == 2 && text.contains("no rule lets anybody read metrics at 10.81.1.1:9469"), "{text}");
    let _firewall = bed.up_with(&[&policy, "--metrics", "127.0.0.1:9469"]);
    bed.expect(8080, Outcome::Answered, "a hit");
    let answer = bed.inside("fw", || {
        let mut stream = TcpStream::connect("127.0.0.1:9469").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9469\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{answer:.200}"
    );
    for line in [
        "\nrampart_rule_hits_total{rule=\"web\",action=\"allow\"} 1\n",
        "\nrampart_interface_attached{interface=\"e0\",zone=\"outside\",hook=\"tc\"} 1\n",
        "\nrampart_flows_open 1\n",
        "\nrampart_counted_total{counter=\"forwarded\"} ",
    ] {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    let on_the_socket = bed.rampart(&["metrics"]).1;
    assert!(on_the_socket.contains("\nrampart_policy_rules 1\n"), "{on_the_socket}");
}
