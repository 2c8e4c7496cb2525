//! Lists of addresses as the daemon reads them: what cannot be read changes nothing.

use super::*;
use std::net::IpAddr;

fn listed(binding: &str) -> String {
    format!("{}[lists.bad]\nfile = 'bad.txt'\n{binding}\n", usual())
}

fn on_lists(running: &Running, address: &str) -> Option<u32> {
    let address: IpAddr = address.parse().unwrap();
    running.plane.inside().lists.as_ref().map(|lists| lists.look_up(address))
}

#[test]
fn a_list_that_cannot_be_read_leaves_the_one_before_in_force() {
    let running = Running::new();
    let policy = listed("block = 'both'");
    let why = running.apply(&policy, None, 1).unwrap_err();
    assert!(why.contains("second.toml: the list `bad`: ") && why.contains("cannot be read"), "{why}");
    assert_eq!(on_lists(&running, "192.0.2.1"), None);
    running.file("bad.txt", "192.0.2.1\n");
    running.apply(&policy, None, 2).unwrap();
    assert_eq!((on_lists(&running, "192.0.2.1"), on_lists(&running, "192.0.2.2")), (Some(1), Some(0)));
    // A feed that broke.
    running.file("bad.txt", "192.0.2.2\n<html>\n");
    let why = running.apply(&policy, None, 3).unwrap_err();
    assert!(why.contains("line 2"), "{why}");
    assert_eq!((on_lists(&running, "192.0.2.1"), on_lists(&running, "192.0.2.2")), (Some(1), Some(0)));
    running.file("bad.txt", "192.0.2.2\n");
    running.apply(&policy, None, 4).unwrap();
    assert_eq!((on_lists(&running, "192.0.2.1"), on_lists(&running, "192.0.2.2")), (Some(0), Some(1)));
    running.apply(&usual(), None, 5).unwrap();
    assert_eq!(on_lists(&running, "192.0.2.2"), None, "no list any more");
}

/// Until it can be read, what nobody confirmed stays, and the daemon says so.
#[test]
fn a_policy_that_comes_back_comes_with_its_lists_and_a_schedule_leaves_them() {
    let running = Running::with(&usual(), "2026-11-20T07:59:00Z");
    running.file("bad.txt", "192.0.2.1\n");
    running.apply(&listed("block = 'both'"), None, 1).unwrap();
    // Read once: the schedule of `lessons` begins with the lists as they are.
    running.file("bad.txt", "192.0.2.9\n");
    running.daemon.tick(running.at(61));
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert_eq!((on_lists(&running, "192.0.2.1"), on_lists(&running, "192.0.2.9")), (Some(1), Some(0)));
    running.apply(&usual(), Some(60), 100).unwrap();
    assert_eq!(on_lists(&running, "192.0.2.1"), None);
    running.file("bad.txt", "");
    running.daemon.tick(running.at(161));
    assert!(running.log().contains("could not be put in force, and is tried again"), "{}", running.log());
    assert_eq!(on_lists(&running, "192.0.2.1"), None);
    running.file("bad.txt", "192.0.2.9\n");
    running.daemon.tick(running.at(222));
    assert_eq!(on_lists(&running, "192.0.2.9"), Some(1), "{}", running.log());
}

#[test]
fn lists_are_shown_with_what_they_refused() {
    let running = Running::new();
    assert_eq!(running.command("lists").1, "the policy has no lists\n");
    running.file("bad.txt", "192.0.2.0/24\n2001:db8::/32\nx\n");
    let policy = listed("require = 'source'\nbroken = 'skip'");
    running.apply(&policy, None, 1).unwrap();
    running.plane.inside().hits = [("list:bad".to_owned(), 1_234)].into();
    let (status, text) = running.command("lists");
    assert_eq!(status, 0, "{text}");
    for words in ["1,234", "bad", "not on it: source", "256", "1 broken lines left out", "KiB in the kernel"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (status, lists) = running.ask("GET", "/v1/lists", "");
    assert_eq!(status, 200);
    let list = &lists["lists"][0];
    assert_eq!(
        (&list["hits"], &list["ipv4_addresses"], &list["ipv6_ranges"]),
        (&json!(1_234), &json!(256), &json!(1))
    );
    assert_eq!((&list["require"], &list["block"]), (&json!("source"), &Value::Null));
    assert_eq!(list["file"], json!(running.folder.path().join("bad.txt")));
}
