//! The way back of a firewall as it runs: with the rights that its daemon has, and whatever ends it meanwhile.

use crate::WEB;
use crate::bed::{Bed, Outcome, until};
use nix::sys::signal::Signal;

/// The policy that is in force, by its file's name, and the entries of the history: how they came and what came of them.
fn state(bed: &Bed) -> (String, Vec<String>) {
    let file = bed.json(&["status"])["policy"]["file"].as_str().unwrap().to_owned();
    let history = bed.json(&["history"]);
    let entry = |it: &serde_json::Value| {
        format!("{} {}", it["way"].as_str().unwrap(), it["outcome"].as_str().unwrap())
    };
    (
        file.rsplit('/').next().unwrap().to_owned(),
        history["entries"].as_array().unwrap().iter().map(entry).collect(),
    )
}

#[test]
fn needs_root_a_policy_that_nobody_confirms_goes_back_whoever_is_killed() {
    let bed = Bed::new();
    bed.serve(8080);
    let (open, closed) = (bed.policy("open.toml", WEB), bed.policy("closed.toml", ""));
    let backup = bed.folder.path().join("backup").display().to_string();
    let ok = |arguments: &[&str]| {
        let (status, text) = bed.rampart(arguments);
        assert_eq!(status, 0, "{arguments:?}: {text}");
        text
    };
    // The first policy of all, confirmed in time.
    let mut firewall = bed.up_with(&[&open, "--confirm", "86400"]);
    assert!(firewall.start.contains(", to be confirmed until "), "{}", firewall.start);
    ok(&["confirm"]);
    ok(&["backup", &backup]);
    ok(&["apply", &closed, "--confirm", "86400"]);
    assert_eq!(state(&bed).1, ["up confirmed", "apply waiting"]);
    firewall.signal(Signal::SIGKILL);
    firewall.end();
    // The next daemon, without a file and before anybody has confirmed.
    let mut firewall = bed.up_with(&[]);
    let expected = ["up confirmed", "apply rolled-back"].map(str::to_owned).to_vec();
    assert_eq!(state(&bed), ("open.toml".to_owned(), expected));
    bed.expect(8080, Outcome::Answered, "the confirmed policy is in force");
    let by = &bed.json(&["history"])["entries"][1]["by"];
    assert_eq!((&by["uid"], &by["user"]), (&0.into(), &"root".into()), "{by}");
    // Back and forth, with what the daemon may still do.
    ok(&["rollback", "2"]);
    assert_eq!(state(&bed).0, "closed.toml");
    ok(&["restore", &backup]);
    assert_eq!(state(&bed).0, "open.toml");
    assert!(ok(&["diff", "2"]).contains("+ web"));
    // A policy by standard input.
    let given = |arguments: &[&str]| {
        let (status, text) = bed.rampart_given(&closed, arguments);
        assert_eq!(status, 0, "{arguments:?}: {text}");
        text
    };
    assert!(given(&["diff", "-"]).contains("- web"));
    assert!(given(&["apply", "-"]).contains("<stdin> is in force"));
    assert_eq!(state(&bed).0, "<stdin>");
    ok(&["factory-reset", "--yes"]);
    assert_eq!(state(&bed).0, "factory-reset");
    bed.expect_of_the_firewall(bed.listen_on_the_firewall(), Outcome::Silence, "SSH and ping alone are open");
    ok(&["rollback", "1"]);
    firewall.signal(Signal::SIGTERM);
    firewall.end();
    // The disk is read without a daemon.
    let kept = ok(&["export", "--kept", "--state", &bed.state().display().to_string()]);
    assert_eq!(kept, std::fs::read_to_string(&open).unwrap());
    // A daemon that comes up with another policy, and nobody is let in to confirm it.
    let _firewall = bed.up_with(&[&closed, "--confirm", "2"]);
    // The history says so once the policy is in force.
    until("the policy goes back", || {
        let (file, history) = state(&bed);
        file == "open.toml" && history.last().unwrap() == "up rolled-back"
    });
    bed.expect(8080, Outcome::Answered, "the confirmed policy is in force again");
}

#[test]
fn needs_root_a_first_policy_that_nobody_confirms_takes_the_firewall_down() {
    let bed = Bed::new();
    let port = bed.listen_on_the_firewall();
    let mut firewall = bed.start_up(&[&bed.policy("closed.toml", ""), "--confirm", "1"]);
    firewall.until("was not confirmed, and there was no firewall before it");
    assert_eq!(firewall.end(), Some(0));
    bed.expect_of_the_firewall(port, Outcome::Answered, "the machine is as it was");
}

/// What is in force and could not be written down says so in the answer, because another policy comes up after a restart.
#[test]
fn needs_root_apply_says_that_a_full_disk_keeps_nothing() {
    let bed = Bed::new();
    let firewall = bed.up_on_a_disk_of(1 << 18, &bed.policy("first.toml", ""));
    let second = bed.policy("second.toml", WEB);
    // As the daemon sees it.
    let disk = format!("/proc/{}/root{}/filler", firewall.child.id(), bed.state().display());
    let full = std::fs::write(&disk, vec![0; 1 << 19]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let (status, text) = bed.rampart(&["apply", &second]);
    assert_eq!(status, 0, "{text}");
    let said = "warning: the policy in force could not be written down (";
    assert!(text.contains("is in force as generation ") && text.contains(said), "{text}");
    let answer = bed.json(&["apply", &bed.policy("third.toml", WEB)]);
    let not_kept: Vec<&str> =
        answer["not_kept"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(
        matches!(not_kept[..], [written, recorded] if written.contains("after a restart the one before it comes up")
            && recorded.contains("the history of policies cannot be written")),
        "{answer}"
    );
    std::fs::remove_file(&disk).unwrap();
    let answer = bed.json(&["apply", &second]);
    assert_eq!(answer["not_kept"], serde_json::json!([]), "there is room again");
}
