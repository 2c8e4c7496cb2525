//! The text of a first policy. Pure.

use super::machine::Machine;
use super::{Plan, Role};
use crate::own_rules::{self, LEARN, Rule, strings};
use ipnet::IpNet;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Writes the policy of a plan.
pub(super) fn write(plan: &Plan, machine: &Machine) -> String {
    let mut text = String::new();
    match plan.role {
        Role::Host => host(plan, machine, &mut text),
        Role::HomeGateway | Role::OfficeDmz => gateway(plan, machine, &mut text),
        Role::Bridge => bridge(plan, machine, &mut text),
    }
    text
}

fn zone(text: &mut String, name: &str, interfaces: &[String], networks: &[IpNet], comment: &str) {
    let _ = write!(text, "\n# {comment}\n[zones.{name}]\ninterfaces = {}\n", strings(interfaces));
    if !networks.is_empty() {
        let _ = writeln!(text, "networks = {}", strings(networks));
    }
}

/// What the ports of SSH are called.
fn ssh(machine: &Machine) -> Vec<String> {
    machine
        .ssh
        .iter()
        .map(|port| if *port == 22 { "ssh".to_owned() } else { format!("tcp/{port}") })
        .collect()
}

fn host(plan: &Plan, machine: &Machine, text: &mut String) {
    text.push_str("# A host, written by `rampart init`: SSH and pings come in, everything goes out, and the answers to it come back.\n");
    zone(
        text,
        "network",
        &plan.wan,
        &[],
        "Every interface of this machine but the loopback interface, which is always open.",
    );
    let ssh = ssh(machine);
    let ssh: Vec<&str> = ssh.iter().map(String::as_str).collect();
    own_rules::write(&["network"], &ssh, text);
    text.push_str("\n# A service of this machine gets a rule like this one.\n# [[rules]]\n# name = \"web\"\n# from = \"network\"\n");
    text.push_str("# to = \"self\"\n# service = [\"http\", \"https\"]\n# action = \"allow\"\n");
}

fn gateway(plan: &Plan, machine: &Machine, text: &mut String) {
    let has_dmz = plan.role == Role::OfficeDmz;
    text.push_str(if has_dmz {
        "# An office with servers in a DMZ, written by `rampart init`: who is inside goes out and to the servers, the servers go out for updates,\n\
         # and nobody outside gets in before a rule below lets them.\n"
    } else {
        "# A home gateway, written by `rampart init`: who is inside goes out, and nobody outside gets in.\n"
    });
    text.push_str("# The firewall forwards by the kernel's routes, and gives out no addresses: DHCP and DNS for the inside are other programs' work.\n");
    zone(text, "outside", &plan.wan, &[], "The way out. Its address may change at any time.");
    let inside = machine.networks(&plan.lan);
    zone(
        text,
        "inside",
        &plan.lan,
        &inside,
        "The network inside. Packets from elsewhere that claim its addresses are dropped.",
    );
    let dmz = machine.networks(&plan.dmz);
    if has_dmz {
        zone(text, "dmz", &plan.dmz, &dmz, "The servers.");
    }
    translations(has_dmz, &dmz, text);
    gateway_rules(plan, machine, text);
    let near: &[&str] = if has_dmz { &["outside", "dmz", "self"] } else { &["outside", "self"] };
    let _ = write!(
        text,
        "\n# Inside, what is refused gets an answer at once: programs give up instead of waiting.\n[[defaults]]\nfrom = \"inside\"\nto = {}\n\
         action = \"reject\"\n",
        strings(near.iter())
    );
    if has_dmz {
        text.push_str(
            "\n# A server that tries something else is worth a look.\n[[defaults]]\nfrom = \"dmz\"\n",
        );
        text.push_str("to = [\"outside\", \"inside\", \"self\"]\naction = \"deny\"\nlog = true\n");
    }
}

fn bridge(plan: &Plan, machine: &Machine, text: &mut String) {
    text.push_str(
        "# A bridge that nobody sees, written by `rampart init`: who is inside gets out, and nobody outside gets in. Hosts on both sides are of one\n\
         # network, and need no change. Both interfaces must have the same MTU, and need no address.\n",
    );
    zone(text, "outside", &plan.wan, &[], "Towards the router.");
    zone(text, "inside", &plan.lan, &[], "Towards the hosts that are protected.");
    let bridged = [&plan.wan, &plan.lan];
    let others: Vec<String> = machine
        .links
        .iter()
        .map(|link| link.name.clone())
        .filter(|name| !bridged.iter().any(|side| side.contains(name)))
        .collect();
    if !others.is_empty() {
        zone(
            text,
            "management",
            &others,
            &[],
            "How this machine is reached; nothing is forwarded from or to here.",
        );
    }
    let ends = [&plan.lan[..], &plan.wan[..]].concat();
    let _ = write!(
        text,
        "\n# One wire. ARP, neighbour discovery and spanning tree cross as they are.\n[bridges.wire]\ninterfaces = {}\n",
        strings(ends.iter())
    );
    Rule::new("Who is inside may go out.", "inside-out", &["inside"], &["outside"], &[]).write(text);
    let comment = "What the network tells its hosts: addresses by DHCP and router advertisements.";
    Rule::new(comment, "addresses", &["outside"], &["inside"], &LEARN).write(text);
    if others.is_empty() {
        text.push_str("\n# This machine has no other interface: it is managed at its console.\n");
        return;
    }
    let ssh = ssh(machine);
    let ssh: Vec<&str> = ssh.iter().map(String::as_str).collect();
    own_rules::write(&["management"], &ssh, text);
}

fn is_private(net: &IpNet) -> bool {
    matches!(net.addr(), IpAddr::V4(address) if address.is_private() || address.is_link_local())
}

/// Networks of their own addresses are not translated, and IPv6 never is.
fn translations(has_dmz: bool, dmz: &[IpNet], text: &mut String) {
    let translates_dmz = has_dmz && !dmz.iter().any(|net| net.addr().is_ipv4() && !is_private(net));
    let from: &[&str] = if translates_dmz { &["inside", "dmz"] } else { &["inside"] };
    let _ = write!(
        text,
        "\n# IPv4 goes out with the address of the interface that it leaves by. IPv6 needs no translation.\n[[nat]]\nname = \"out\"\nfrom = {}\n\
         to = \"outside\"\nmasquerade = true\n",
        strings(from.iter())
    );
    let server = dmz.iter().find_map(|net| net.addr().is_ipv4().then(|| net.hosts().nth(1)).flatten());
    let server = server.map_or_else(|| "192.168.1.10".to_owned(), |address| address.to_string());
    let zone = if has_dmz { "dmz" } else { "inside" };
    text.push_str("\n# A server that is to be reached from outside needs a port forwarding and a rule, which names its true address.\n");
    for line in [
        "[[nat]]",
        "name = \"web\"",
        "from = \"outside\"",
        "destination = \"198.51.100.7\"    # your address outside",
        "service = \"https\"",
        &format!("destination_to = \"{server}\""),
        "[[rules]]",
        "name = \"web\"",
        "from = \"outside\"",
        &format!("to = \"{zone}\""),
        &format!("destination = \"{server}\""),
        "service = \"https\"",
        "action = \"allow\"",
    ] {
        let _ = writeln!(text, "# {line}");
    }
}

fn gateway_rules(plan: &Plan, machine: &Machine, text: &mut String) {
    let has_dmz = plan.role == Role::OfficeDmz;
    let ssh = ssh(machine);
    let ssh: Vec<&str> = ssh.iter().map(String::as_str).collect();
    let to: &[&str] = if has_dmz { &["outside", "dmz"] } else { &["outside"] };
    Rule::new("Who is inside may go out.", "inside-out", &["inside"], to, &[]).write(text);
    if has_dmz {
        let services: &[&str] = &["dns", "ntp", "http", "https", "ping"];
        Rule::new(
            "Servers ask for names, the time and updates.",
            "servers-out",
            &["dmz"],
            &["outside"],
            services,
        )
        .write(text);
    }
    let near: &[&str] = if has_dmz { &["inside", "dmz"] } else { &["inside"] };
    let services: &[&str] = &["dns", "ntp", "dhcp", "dhcpv6", "ping", "neighbour-discovery"];
    let comment = "What this machine may be asked by those it serves: names, the time, addresses.";
    Rule::new(comment, "names-and-addresses", near, &["self"], services).write(text);
    Rule::manage(&["inside"], &ssh).write(text);
    // Whoever sets the machine up may sit on the other side of it.
    if let Some((client, _)) = machine.session.as_ref().filter(|(_, by)| plan.wan.contains(by)) {
        let comment = "This policy was written in an SSH session from here. Take the rule out when you manage the machine from inside.";
        let source = Some(client.to_string());
        let rule = Rule::new(comment, "manage-from-outside", &["outside"], &["self"], &ssh);
        Rule { source, ..rule }.write(text);
    }
    Rule::learn(&["outside"]).write(text);
    let all: &[&str] = if has_dmz { &["outside", "inside", "dmz"] } else { &["outside", "inside"] };
    Rule::ask(all).write(text);
}
