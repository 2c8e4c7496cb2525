//! Interfaces that belong to zones by patterns: as they come, go and change their names.

use super::*;

const PATTERNS: &str =
    "[zones]\nguests = { interfaces = ['veth*', 'e9'] }\nvpn = { interfaces = ['ppp*', 'veth7'] }\n";

fn running() -> Running {
    let running = Running::with(
        &format!("{PATTERNS}{}", rule("x", "").replace("'in'", "'guests'").replace("'out'", "'vpn'")),
        "2026-11-20T10:00:00Z",
    );
    running.log.0.lock().unwrap().clear();
    running
}

/// The interfaces with their zones, as the status shows them.
fn zones(running: &Running) -> Vec<(String, String)> {
    let status = running.daemon.status().unwrap();
    let mut found: Vec<_> = status.interfaces.into_iter().map(|it| (it.name, it.zone)).collect();
    found.sort();
    found
}

#[test]
fn interfaces_of_patterns_are_followed() {
    let running = running();
    assert_eq!(running.plane.inside().closed, ["veth*", "e9", "ppp*", "veth7"], "before they come");
    let named = [("e9", "guests"), ("veth7", "vpn")];
    // What is there: number, name, whether it is ready; which went; what the zones are then, besides those that are named; what is reported.
    type Row<'r> = (&'r [(u32, &'r str, bool)], &'r [u32], &'r [(&'r str, &'r str)], &'r [&'r str]);
    let rows: &[Row<'_>] = &[
        (&[(1, "lo", false)], &[], &[], &[]),
        (&[(5, "veth1", false)], &[], &[], &[]),
        (&[(5, "veth1", true)], &[], &[("veth1", "guests")], &["attached: veth1: zone guests, tc"]),
        (&[(5, "veth1", true)], &[], &[("veth1", "guests")], &[]),
        // Another name in the same zone, in another zone, in none, and back.
        (
            &[(5, "veth2", true)],
            &[],
            &[("veth2", "guests")],
            &["attached: veth2: zone guests, tc, called veth1 before"],
        ),
        (
            &[(5, "ppp0", true)],
            &[],
            &[("ppp0", "vpn")],
            &["attached: ppp0: zone vpn, tc, called veth2 before"],
        ),
        (&[(5, "other", true)], &[], &[], &["detached: ppp0: it is called other now, which is of no zone"]),
        (&[(5, "ppp0", true)], &[], &[("ppp0", "vpn")], &["attached: ppp0: zone vpn, tc"]),
        // Down it stays attached: it was taken before.
        (&[(5, "ppp0", false)], &[], &[("ppp0", "vpn")], &[]),
        // Another one has its number, or its name and its number.
        (
            &[(5, "veth3", true)],
            &[5],
            &[("veth3", "guests")],
            &["attached: veth3: zone guests, tc", "detached: ppp0: it is gone from zone vpn"],
        ),
        (&[(5, "veth3", true)], &[5], &[("veth3", "guests")], &["attached: veth3: zone guests, tc"]),
        (
            &[(5, "veth3", true), (6, "ppp1", true)],
            &[],
            &[("ppp1", "vpn"), ("veth3", "guests")],
            &["attached: ppp1: zone vpn, tc"],
        ),
        (
            &[],
            &[5, 6],
            &[],
            &["detached: veth3: it is gone from zone guests", "detached: ppp1: it is gone from zone vpn"],
        ),
    ];
    for (at, (present, gone, expected, reported)) in rows.iter().enumerate() {
        let list = present.iter().map(|(index, name, ready)| (*index, ((*name).to_owned(), *ready)));
        running.plane.inside().present = list.collect();
        running.daemon.links_changed(gone, running.at(1));
        let mut expected: Vec<_> =
            expected.iter().chain(&named).map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        expected.sort();
        assert_eq!(zones(&running), expected, "row {at}");
        let log = std::mem::take(&mut *running.log.0.lock().unwrap());
        let log = String::from_utf8(log).unwrap();
        let lines: Vec<_> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(lines, *reported, "row {at}");
        assert_eq!(
            running.plane.inside().attached.len(),
            expected.len(),
            "row {at}: nothing is attached twice, nothing left"
        );
    }
}

#[test]
fn what_cannot_be_attached_stays_closed_and_is_a_trouble_until_it_can() {
    let running = running();
    running.plane.inside().present = [(5, ("ppp0".to_owned(), true))].into();
    running.plane.inside().missing = vec!["ppp0".to_owned()];
    running.daemon.tick(running.at(1));
    let troubles = running.daemon.status().unwrap().troubles;
    assert!(
        troubles[0].starts_with("the interface `ppp0` matches a pattern of zone `vpn` and stays closed"),
        "{troubles:?}"
    );
    running.plane.inside().missing.clear();
    running.daemon.tick(running.at(2));
    assert_eq!(running.daemon.status().unwrap().troubles, [""; 0]);
    assert!(zones(&running).contains(&("ppp0".to_owned(), "vpn".to_owned())));
}

#[test]
fn a_policy_that_names_what_a_pattern_took_moves_it_to_its_zone() {
    let running = running();
    running.plane.inside().present = [(5, ("veth1".to_owned(), true))].into();
    running.daemon.tick(running.at(1));
    let rules = rule("x", "").replace("'in'", "'guests'").replace("'out'", "'vpn'");
    let moved = PATTERNS.replace("'veth7'", "'veth7', 'veth1'");
    let of_veth1 = || zones(&running).into_iter().find(|(name, _)| name == "veth1").unwrap().1;
    running.plane.inside().broken = Some("no room".to_owned());
    running.apply(&format!("{moved}{rules}"), None, 2).unwrap_err();
    running.plane.inside().broken = None;
    assert_eq!(of_veth1(), "guests");
    assert_eq!(running.plane.inside().closed, ["veth*", "e9", "ppp*", "veth7"], "as before");
    running.apply(&format!("{moved}{rules}"), Some(60), 2).unwrap();
    assert_eq!(running.plane.inside().moved, [("veth1".to_owned(), "vpn".to_owned())]);
    assert_eq!(of_veth1(), "vpn");
    running.daemon.tick(running.at(70));
    assert_eq!(running.plane.inside().moved, [("veth1".to_owned(), "guests".to_owned())], "and back");
    assert_eq!(of_veth1(), "guests");
    let same = PATTERNS.replace("'e9'", "'e9', 'veth1'");
    running.apply(&format!("{same}{rules}"), None, 3).unwrap();
    let without = PATTERNS.replace("'veth*', ", "");
    running.apply(&format!("{without}{rules}"), None, 4).unwrap();
    assert_eq!(zones(&running).len(), 2, "what no pattern takes any more is given up");
}
