//! What happens by the clock, and at the start.

use super::*;

#[test]
fn a_policy_that_nobody_confirms_goes_and_one_that_is_confirmed_stays() {
    let running = Running::new();
    let only = |name: &str| format!("{ZONES}{}", rule(name, ""));
    assert_eq!(running.apply(&only("a"), Some(60), 0), Ok(2));
    running.daemon.tick(running.at(59));
    assert_eq!(running.rows(), ["a"]);
    running.daemon.tick(running.at(60));
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert!(
        running
            .log()
            .contains("second.toml was not confirmed: first.toml is in force again, as generation 3")
    );
    // What was not confirmed is not what a later one goes back to.
    assert_eq!(running.apply(&only("a"), Some(60), 61), Ok(4));
    assert_eq!(running.apply(&only("b"), Some(60), 62), Ok(5));
    running.daemon.tick(running.at(121));
    assert_eq!(running.rows(), ["b"]);
    running.daemon.tick(running.at(122));
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert_eq!(running.apply(&only("c"), Some(60), 130), Ok(7));
    running.daemon.confirm(None, running.at(131).wall, &"a test".into()).unwrap();
    running.daemon.tick(running.at(300));
    assert_eq!(running.rows(), ["c"]);
    assert!(running.daemon.confirm(None, running.at(301).wall, &"a test".into()).is_err());
}

#[test]
fn a_policy_that_cannot_go_back_is_tried_again_and_reported() {
    let running = Running::new();
    running.apply(&format!("{ZONES}{}", rule("a", "")), Some(60), 0).unwrap();
    running.plane.inside().broken = Some("no memory".to_owned());
    running.daemon.tick(running.at(60));
    running.plane.inside().broken = None;
    running.daemon.tick(running.at(61));
    assert_eq!(running.rows(), ["a"], "not before its time");
    assert!(running.log().contains(
        "trouble: the policy before could not be put in force, and is tried again in 60 s: no memory"
    ));
    running.daemon.tick(running.at(120));
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert_eq!(running.ask("GET", "/v1/status", "").1["troubles"], json!([]));
}

#[test]
fn schedules_begin_and_end_by_the_clock_even_when_it_is_set_back() {
    let running = Running::with(&usual(), "2026-11-20T17:59:00Z");
    running.daemon.tick(running.at(59));
    assert_eq!(running.rows(), ["web", "lessons"]);
    running.daemon.tick(running.at(60));
    assert_eq!(running.rows(), ["web"]);
    assert!(running.log().contains("scheduled: generation 2: `day` ended"), "{}", running.log());
    let early = Moment { wall: "2026-11-20T09:00:00Z".parse::<Timestamp>().unwrap(), ..running.at(61) };
    running.daemon.tick(early);
    assert_eq!(running.rows(), ["web", "lessons"]);
    assert!(running.log().contains("generation 3: `day` began"), "{}", running.log());
    running.daemon.tick(Moment { wall: early.wall + SignedDuration::from_secs(1), ..running.at(62) });
    assert_eq!(running.plane.inside().generation, 3);
    assert_eq!(running.plane.inside().swept, 4);
}

#[test]
fn what_cannot_be_taken_leaves_nothing_attached() {
    let (plane, log) = (Memory::default(), Kept::default());
    plane.inside().missing = vec!["e0".to_owned()];
    let about = About { pid: 1, namespace: "test".to_owned(), since: Moment::now().wall };
    let policy = Policy::parse("p.toml", &usual()).unwrap();
    let events = Log::new(false, Box::new(log));
    let refused =
        Daemon::start(about, events, policy, Box::new(plane.clone()), Hook::Xdp, None, None).err().unwrap();
    assert_eq!(
        (refused.status, refused.to_string().as_str()),
        (500, "zone `out`: there is no interface `e0`")
    );
    assert!(plane.inside().attached.is_empty());
}

#[test]
fn interfaces_come_and_go_with_the_policy_or_not_at_all() {
    let running = Running::new();
    let held = || running.plane.inside().attached.clone();
    assert_eq!(held(), ["e1", "e0", "e2"]);
    let other = usual().replace("'e2'", "'e3'").replace("out = {", "dmz = { interfaces = 'e4' }\nout = {");
    running.plane.inside().missing = vec!["e3".to_owned()];
    assert_eq!(running.apply(&other, None, 0), Err("zone `out`: there is no interface `e3`".to_owned()));
    assert_eq!(held(), ["e1", "e0", "e2"], "e4 is not kept");
    running.plane.inside().missing.clear();
    let logging = format!("{other}{}", rule("late", "log = true"));
    assert!(running.apply(&logging, None, 0).is_err());
    assert_eq!(held(), ["e1", "e0", "e2"]);
    assert_eq!(running.apply(&other, Some(60), 0), Ok(2));
    assert_eq!(held(), ["e1", "e0", "e4", "e3"]);
    running.daemon.tick(running.at(60));
    assert_eq!(held(), ["e1", "e0", "e2"]);
}
