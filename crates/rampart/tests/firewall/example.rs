//! An example policy, as it is in the repository, between two of the hosts that it was written for.

use crate::bed::{Bed, Outcome};
use crate::hits;

const TOLLY: &str = include_str!("../../../../examples/policies/tolly.toml");
const SERVER: &str = "172.16.2.2";

/// A private and a public network of the report's, and cards to which nobody is connected in place of the others.
fn tolly_bed() -> Bed {
    let bed = Bed::unjoined();
    bed.join("in", "eth1", "10.1.1", "1");
    bed.join("out", "eth0", "172.16.2", "2");
    for card in ["eth2", "eth3", "eth4", "eth5", "eth6", "eth7"] {
        bed.ip("fw", &["link", "add", card, "type", "veth", "peer", "name", &format!("of-{card}")]);
    }
    bed
}

fn judge(hook: &str) {
    let bed = tolly_bed();
    for port in [80, 8080] {
        bed.serve_at(SERVER, port);
    }
    let policy = bed.folder.path().join("tolly.toml");
    std::fs::write(&policy, TOLLY).unwrap();
    let _firewall = bed.up(&policy.display().to_string(), hook);
    let status = bed.json(&["status"]);
    let interfaces = status["interfaces"].as_array().unwrap();
    assert!(interfaces.len() == 8 && interfaces.iter().all(|at| at["hook"] == hook), "{status}");
    bed.expect_at(SERVER, 80, Outcome::Answered, hook);
    bed.expect_at(SERVER, 8080, Outcome::Silence, hook);
    let rules = bed.json(&["rules"]);
    assert_eq!((hits(&rules, "http-test"), hits(&rules, "not-this-9")), (1, 0), "{rules}");
    let drops = bed.json(&["drops"]);
    let denied = drops["drops"].as_array().unwrap().iter().any(|drop| drop["reason"] == "default-deny");
    assert!(denied, "{drops}");
}

#[test]
fn needs_root_an_example_judges_by_tc() {
    judge("tc");
}

#[test]
fn needs_root_an_example_judges_by_xdp() {
    judge("xdp");
}
