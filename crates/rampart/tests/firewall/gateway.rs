//! What `rampart init` writes for a home gateway, on one: the provider gives it its address, whoever is inside uses what is outside, and nobody
//! outside gets in.

use crate::bed::{Bed, Outcome, expect_from, serve, until};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

/// What the client of DHCP calls when it has an address (udhcpc(8)).
const CONFIGURE: &str = "#!/bin/sh\n\
    [ \"$1\" = bound ] || exit 0\n\
    ip address add \"$ip/$mask\" dev \"$interface\"\n\
    ip route add default via \"$router\"\n";

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn start(bed: &Bed, host: &str, words: &[&str]) -> Self {
        let namespace = bed.namespace(host);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace]).args(words).stdin(Stdio::null());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A provider that gives one address out, and names.
fn provider(bed: &Bed) -> Running {
    let words = [
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--pid-file=",
        "--user=root",
        "--leasefile-ro",
        "--no-hosts",
        "--no-resolv",
        "--interface=x",
        "--bind-interfaces",
        "--dhcp-range=10.81.2.77,10.81.2.77,5m",
        "--address=/server.test/10.81.2.2",
    ];
    Running::start(bed, "out", &words)
}

#[test]
fn needs_root_a_home_gateway_made_by_init_works_and_lets_nobody_in() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        let policy = bed.folder.path().join("home.toml").display().to_string();
        let script = bed.folder.path().join("configure");
        std::fs::write(bed.folder.path().join("text"), CONFIGURE).unwrap();
        testkit::namespace::run(
            "install",
            &[
                "-m",
                "755",
                &bed.folder.path().join("text").display().to_string(),
                &script.display().to_string(),
            ],
        );
        // The way out has no address before the provider gives it one.
        bed.ip("fw", &["address", "flush", "dev", "e0"]);
        let options = ["init", "--role", "home-gateway", "--wan", "e0", "--lan", "e1", "--output", &policy];
        let (status, said) = bed.rampart(&options);
        assert_eq!(status, 0, "{said}");
        assert_eq!(bed.rampart(&options).0, 2, "a file is not replaced");
        let (status, said) = bed.rampart(&["check", "--strict", &policy]);
        assert_eq!(status, 0, "{said}");
        let _firewall = bed.up(&policy, hook);
        let _provider = provider(&bed);
        let script = script.display().to_string();
        let _client =
            Running::start(&bed, "fw", &["udhcpc", "-f", "-i", "e0", "-t", "100", "-T", "1", "-s", &script]);
        until(&format!("{hook}: an address comes"), || {
            bed.host("fw").run("ip", &["-4", "address", "show", "dev", "e0"]).contains("10.81.2.77")
        });
        // The other side knows it by the card that it was given to.
        bed.ip("out", &["neighbour", "replace", "10.81.2.77", "lladdr", "02:00:00:00:02:01", "dev", "x"]);
        let (sender, callers) = channel();
        let server = bed.inside("out", || TcpListener::bind("10.81.2.2:8080").unwrap());
        std::thread::spawn(move || {
            let addresses = server.incoming().flatten().map(|caller| caller.peer_addr().unwrap().ip());
            addresses.map_while(|address| sender.send(address).ok()).count()
        });
        until(&format!("{hook}: who is inside gets out"), || bed.connect(8080).is_ok());
        assert_eq!(callers.recv().unwrap().to_string(), "10.81.2.77", "{hook}: by the gateway's address");
        until(&format!("{hook}: names"), || {
            let namespace = bed.namespace("in");
            let dig = ["netns", "exec", &namespace, "dig", "+short", "+time=2", "@10.81.2.2", "server.test"];
            Command::new("ip").args(dig).output().unwrap().stdout == b"10.81.2.2\n"
        });
        for port in [22, 8080] {
            serve(bed.inside("fw", || TcpListener::bind(("0.0.0.0", port)).unwrap()));
        }
        bed.expect_at("10.81.1.1", 22, Outcome::Answered, &format!("{hook}: management from inside"));
        bed.expect_at("10.81.1.1", 8080, Outcome::Refused, &format!("{hook}: nothing else"));
        bed.ip("out", &["route", "replace", "10.81.1.0/24", "via", "10.81.2.77"]);
        for to in ["10.81.2.77:22", "10.81.2.77:8080", "10.81.1.1:22", "10.81.1.2:80"] {
            expect_from(bed.host("out"), to, Outcome::Silence, &format!("{hook}: nobody gets in"));
        }
    }
}
