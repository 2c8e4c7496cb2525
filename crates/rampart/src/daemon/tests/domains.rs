//! Domains as the daemon takes them: what gateways tell comes into force under the policy that names it, and what the kernel refuses is tried again.

use super::*;
use gateway::event::Learned;

const DOMAIN: &str = "[domains]\ngrace = '10s'\n[gateways.names]\nprotocol = 'dns'\nlisten = '127.0.0.1:53'\n\
    [[gateways.names.rules]]\nname = 'all'\naction = 'allow'\n\
    [[rules]]\nname = 'by-name'\nfrom = 'in'\nto = 'out'\ndestination = 'domain:www.test'\naction = 'allow'\n";

fn learned(name: &str, address: &str, lifetime: u32) -> (String, Learned) {
    let addresses = vec![address.parse().unwrap()];
    ("names".to_owned(), Learned { number: 7, name: name.to_owned(), addresses, lifetime })
}

/// Whether the domain has an address, for new flows and for known ones; `None` without domains.
fn has(running: &Running, address: &str) -> Option<(bool, bool)> {
    let address = address.parse().unwrap();
    let inside = running.plane.inside();
    inside.domains.as_ref().map(|it| (it.now.look_up(address) != 0, it.known.look_up(address) != 0))
}

#[test]
fn what_gateways_announce_comes_into_force_without_another_generation() {
    let running = Running::new();
    let learn = |at: u32, heard: &[(String, Learned)]| assert!(running.daemon.learn(heard, running.at(at)));
    learn(0, &[learned("www.test", "198.51.100.1", 60)]);
    assert_eq!(has(&running, "198.51.100.1"), None, "no policy names it");
    let policy = format!("{}{DOMAIN}", usual());
    let generation = running.apply(&policy, None, 1).unwrap();
    assert_eq!(
        has(&running, "198.51.100.1"),
        Some((false, false)),
        "and what was announced before is not known"
    );
    learn(
        2,
        &[
            learned("www.test", "198.51.100.1", 60),
            learned("www.test", "10.0.0.1", 60),
            learned("x.test", "198.51.100.3", 60),
        ],
    );
    assert_eq!(has(&running, "198.51.100.1"), Some((true, true)));
    assert_eq!(
        (has(&running, "10.0.0.1"), has(&running, "198.51.100.3")),
        (Some((false, false)), Some((false, false)))
    );
    assert_eq!(running.plane.inside().generation, generation);
    let shown = running.command("lists").1;
    assert!(shown.contains("1 addresses not taken") && shown.contains("198.51.100.1"), "{shown}");
    assert!(
        running.log().contains("1 addresses of domains were not taken, the last of `www.test`"),
        "{}",
        running.log()
    );
    // The kernel has no room: it is tried again, and a restart of the policy brings it along.
    running.plane.inside().broken = Some("no memory".to_owned());
    learn(3, &[learned("www.test", "198.51.100.2", 60)]);
    running.plane.inside().broken = None;
    assert_eq!(has(&running, "198.51.100.2"), Some((false, false)));
    running.daemon.tick(running.at(4));
    assert!(running.command("status").1.contains("what domains stand for could not be put in force"));
    learn(5, &[]);
    assert_eq!(has(&running, "198.51.100.2"), Some((true, true)));
    // Another policy with the domain begins with what is known, and one that nobody confirms leaves it for the one before.
    running.apply(&format!("{policy}# another\n"), None, 6).unwrap();
    assert_eq!(has(&running, "198.51.100.1"), Some((true, true)));
    running.apply(&usual(), Some(10), 7).unwrap();
    assert_eq!(has(&running, "198.51.100.1"), None);
    running.daemon.tick(running.at(18));
    assert_eq!(has(&running, "198.51.100.1"), Some((true, true)));
    learn(71, &[]);
    assert_eq!(has(&running, "198.51.100.1"), Some((true, true)));
    learn(72, &[]);
    assert_eq!(has(&running, "198.51.100.1"), Some((false, true)), "its lifetime and the grace are over");
}
