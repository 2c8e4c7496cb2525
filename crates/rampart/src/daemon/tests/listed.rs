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
    assert!(
        why.contains("second.toml:")
            && why.contains(":8: the list `bad`: ")
            && why.contains("cannot be read"),
        "{why}"
    );
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

/// Looks at the clock, and reads what has changed.
fn look(running: &Running, seconds: u32) {
    assert!(running.daemon.refresh_lists(running.at(seconds)));
}

#[test]
fn a_file_that_changes_is_read_again_and_what_fails_leaves_the_last_good_one() {
    let running = Running::new();
    running.file("bad.txt", "192.0.2.1\n");
    running.apply(&listed("block = 'both'\nrefresh = '10s'"), None, 1).unwrap();
    let on = || [1, 2, 3].map(|end| on_lists(&running, &format!("192.0.2.{end}")));
    let generation = || running.daemon.status().unwrap().policy.generation;
    look(&running, 2);
    let first = generation();
    running.file("bad.txt", "192.0.2.2\n192.0.2.3\n");
    look(&running, 11);
    assert_eq!(on(), [Some(1), Some(0), Some(0)], "not looked at yet");
    look(&running, 12);
    assert_eq!((on(), generation()), ([Some(0), Some(1), Some(1)], first + 1));
    look(&running, 22);
    assert_eq!(generation(), first + 1, "a file that has not changed is not read");
    // Broken, then gone, then as good as before.
    let troubles = |seconds| {
        running.daemon.tick(running.at(seconds));
        running.daemon.status().unwrap().troubles.join("; ")
    };
    running.file("bad.txt", "192.0.2.1\n<html>\n");
    look(&running, 32);
    assert!(
        troubles(32).contains("stay as they were") && troubles(33).contains("line 2"),
        "{}",
        troubles(33)
    );
    fs::remove_file(running.folder.path().join("bad.txt")).unwrap();
    look(&running, 42);
    look(&running, 52);
    assert!(troubles(52).contains("cannot be read"), "{}", troubles(52));
    assert_eq!((on(), generation()), ([Some(0), Some(1), Some(1)], first + 1));
    // Each when it begins, and when it is over.
    let said = |event: &str, what: &str| {
        running.log().lines().filter(|line| line.contains(event) && line.contains(what)).count()
    };
    assert_eq!(said(" trouble: ", "stay as they were"), 2, "{}", running.log());
    running.file("bad.txt", "192.0.2.3\n");
    look(&running, 62);
    assert_eq!((on(), generation()), ([Some(0), Some(0), Some(1)], first + 2));
    assert!(!troubles(62).contains("stay as they were"), "{}", troubles(62));
    assert_eq!(
        (said(" over: ", "stay as they were"), said(" refreshed: ", "has changed")),
        (2, 2),
        "{}",
        running.log()
    );
}

#[test]
fn only_lists_that_say_so_are_read_again_and_none_of_a_policy_that_is_gone() {
    let running = Running::new();
    running.file("bad.txt", "192.0.2.1\n");
    running.apply(&listed("block = 'both'"), None, 1).unwrap();
    look(&running, 2);
    running.file("bad.txt", "192.0.2.2\n");
    look(&running, 100_000);
    assert_eq!(on_lists(&running, "192.0.2.1"), Some(1));
    running.apply(&listed("block = 'both'\nrefresh = '10s'"), None, 100_001).unwrap();
    look(&running, 100_002);
    running.file("bad.txt", "192.0.2.3\n");
    running.apply(&usual(), None, 100_003).unwrap();
    look(&running, 100_020);
    assert_eq!(on_lists(&running, "192.0.2.3"), None);
    running.daemon.down(running.at(100_021).wall, &"a test".into()).unwrap();
    assert!(
        !running.daemon.refresh_lists(running.at(100_022)),
        "nothing is looked after when the firewall is down"
    );
}

/// By the clock alone: nobody applies anything, the file has no `refresh`, and in the end it is gone.
#[test]
fn entries_end_without_a_reload_also_when_their_file_is_gone() {
    let state = tempfile::tempdir().unwrap();
    let start = |at| {
        Running::prepared(&usual(), at, |daemon| {
            daemon.keep_in(crate::state::State::at(state.path()), &"a test".into())
        })
    };
    let running = start("2026-11-20T10:00:00Z");
    let text = "192.0.2.1\n192.0.2.2 until 2026-11-20T10:01:00Z\n192.0.2.3 until 2026-11-20T10:01:01Z\n\
                2001:db8::/64 until 2026-11-20T10:02:00Z\n192.0.2.4 until 2026-11-20T09:59:59Z\n";
    running.file("bad.txt", text);
    running.apply(&listed("block = 'both'"), None, 1).unwrap();
    let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::9", "192.0.2.4"];
    let on = |running: &Running| addresses.map(|address| on_lists(running, address).unwrap());
    let step = |seconds: u32| {
        assert!(running.daemon.refresh_lists(running.at(seconds)));
        running.daemon.tick(running.at(seconds));
        on(&running)
    };
    assert_eq!(step(59), [1, 1, 1, 1, 0]);
    assert!(running.command("lists").1.contains("the next entry ends at 2026-11-20T10:01:00Z"));
    assert_eq!(step(60), [1, 0, 1, 1, 0]);
    assert!(running.log().contains("lists were read again, because entries have ended"), "{}", running.log());
    // All lists are read for it, so that comes ten seconds later at the earliest.
    assert_eq!((step(61), step(69)), ([1, 0, 1, 1, 0], [1, 0, 1, 1, 0]));
    assert_eq!(step(70), [1, 0, 0, 1, 0]);
    fs::remove_file(running.folder.path().join("bad.txt")).unwrap();
    assert_eq!(step(119), [1, 0, 0, 1, 0]);
    assert_eq!(step(120), [1, 0, 0, 0, 0], "{}", running.log());
    let troubles = running.daemon.status().unwrap().troubles.join("; ");
    assert!(troubles.contains("as it was read last, because"), "{troubles}");
    let generation = running.daemon.status().unwrap().policy.generation;
    step(4_000);
    assert_eq!(running.daemon.status().unwrap().policy.generation, generation, "nothing ends any more");
    // While no daemon ran, the rest has ended.
    let later = start("2026-11-20T10:01:30Z");
    later.file("bad.txt", text);
    later.apply(&listed("block = 'both'"), None, 1).unwrap();
    assert_eq!(on(&later), [1, 0, 0, 1, 0]);
}

/// By the clock alone, and with what the policy itself writes. Nobody looks at its file then.
#[test]
fn a_list_expires_as_a_whole() {
    let running = Running::with(&usual(), "2026-11-20T10:00:00Z");
    running.file("bad.txt", "192.0.2.1\n192.0.2.2 until 2026-11-20T12:00:00Z\n");
    let more =
        "block = 'both'\nrefresh = '10s'\nentries = '192.0.2.3'\nexpires = '2026-11-20T11:01:00+01:00'";
    running.apply(&listed(more), None, 1).unwrap();
    let step = |seconds: u32| {
        assert!(running.daemon.refresh_lists(running.at(seconds)));
        running.daemon.tick(running.at(seconds));
        [1, 2, 3].map(|end| on_lists(&running, &format!("192.0.2.{end}")).unwrap())
    };
    assert_eq!(step(59), [1, 1, 1]);
    assert_eq!(running.ask("GET", "/v1/lists", "").1["lists"][0]["expires"], json!("2026-11-20T10:01:00Z"));
    fs::remove_file(running.folder.path().join("bad.txt")).unwrap();
    assert_eq!(step(60), [0, 0, 0], "{}", running.log());
    let generation = running.daemon.status().unwrap().policy.generation;
    assert_eq!(step(600), [0, 0, 0]);
    let status = running.daemon.status().unwrap();
    assert_eq!((status.policy.generation, status.troubles.join("; ").as_str()), (generation, ""));
    assert!(running.command("lists").1.contains(" at 2026-11-20T10:01:00Z"));
    running.apply(&listed(more), None, 601).unwrap();
    assert_eq!(step(602), [0, 0, 0], "applied again");
}

/// Without a copy, an end that cannot be carried out is a trouble, and is tried again.
#[test]
fn an_end_that_cannot_be_carried_out_is_tried_again() {
    let running = Running::with(&usual(), "2026-11-20T10:00:00Z");
    running.file("bad.txt", "192.0.2.1 until 2026-11-20T10:01:00Z\n");
    running.apply(&listed("require = 'source'"), None, 1).unwrap();
    fs::remove_file(running.folder.path().join("bad.txt")).unwrap();
    let step = |seconds: u32| {
        assert!(running.daemon.refresh_lists(running.at(seconds)));
        running.daemon.tick(running.at(seconds));
    };
    step(60);
    let troubles = || running.daemon.status().unwrap().troubles.join("; ");
    assert!(troubles().contains("the lists could not be read again"), "{}", troubles());
    assert_eq!(on_lists(&running, "192.0.2.1"), Some(1));
    running.file("bad.txt", "192.0.2.1 until 2026-11-20T10:01:00Z\n");
    step(69);
    assert_eq!(on_lists(&running, "192.0.2.1"), Some(1), "not yet");
    step(70);
    assert_eq!((on_lists(&running, "192.0.2.1"), troubles().as_str()), (Some(0), ""), "nobody is on it");
}
