//! A rule and a gateway that say nothing beyond what they must: tests say what theirs have besides.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use gateway::config::{Addresses, Gateway, Limits, Mode, Protocol, Rule};
use gateway::hosts::HostSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn rule(name: &str, allow: bool) -> Rule {
    Rule {
        name: name.to_owned(),
        allow,
        source: None,
        hosts: Vec::new(),
        host_sets: Vec::new(),
        paths: Vec::new(),
        methods: Vec::new(),
        users: Vec::new(),
        largest_request: None,
        largest_answer: None,
        content_types: Vec::new(),
        server_name: false,
        private_answers: false,
        log: false,
    }
}

#[allow(dead_code, reason = "some tests have no lists")]
pub(crate) fn hosts(hosts: &[&str]) -> Arc<HostSet> {
    Arc::new(hosts.iter().map(|host| (*host).to_owned()).collect())
}

/// Of HTTP, named by clients, and without rules.
pub(crate) fn gateway() -> Gateway {
    Gateway {
        name: "web".to_owned(),
        protocol: Protocol::Http,
        listen: SocketAddr::new("10.0.0.1".parse().unwrap(), 3128),
        mode: Mode::Explicit,
        rules: Vec::new(),
        host_sets: Vec::new(),
        reach: Addresses::default(),
        ports: vec![80],
        connect_ports: vec![443],
        resolvers: Vec::new(),
        look_up: true,
        client_names: false,
        decisions: Duration::ZERO,
        forwarded_for: false,
        users: None,
        limits: Limits::default(),
    }
}
