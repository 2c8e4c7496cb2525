//! Whoever gives a policy over SSH is not locked out by it.

use crate::bed::{Bed, Outcome};
use std::process::Command;

/// A session from the host inside to the firewall, without the port.
const SESSION: &str = "SSH_CONNECTION=10.81.1.2 50122 10.81.1.1";
const SSH: &str =
    "[[rules]]\nname = 'ssh'\nfrom = 'inside'\nto = 'self'\nservice = 'ssh'\naction = 'allow'\n";

/// `rampart` in the session, or as `sudo` starts it, without the variable and below a shell that has it.
fn in_session(bed: &Bed, below_sudo: bool, arguments: &[&str]) -> (i32, String) {
    in_session_to(bed, "22", below_sudo, arguments)
}

/// The same in a session to another port.
fn in_session_to(bed: &Bed, port: &str, below_sudo: bool, arguments: &[&str]) -> (i32, String) {
    let session = format!("{SESSION} {port}");
    let program = env!("CARGO_BIN_EXE_rampart");
    let namespace = bed.namespace("fw");
    // The shell stays the parent because it has something to do afterwards.
    let hidden = if below_sudo { "env -u SSH_CONNECTION \"$@\"; exit $?" } else { "\"$@\"; exit $?" };
    let shell = ["netns", "exec", &namespace, "env", &session, "sh", "-c", hidden, "sh", program];
    let done = Command::new("ip").args([&shell, arguments].concat()).output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn needs_root_a_policy_that_would_cut_the_session_it_is_given_in_is_refused() {
    let bed = Bed::new();
    let open = bed.policy("open.toml", SSH);
    let closed = bed.policy("closed.toml", "");
    let why = "closed.toml: this policy would cut the SSH session that the command is given in, from 10.81.1.2:50122 to 10.81.1.1:22 \
        on e1: no rule matches, and the default from `inside` to `self` is deny";
    for below_sudo in [false, true] {
        let (status, text) = in_session(&bed, below_sudo, &["up", &closed]);
        assert!(status == 2 && text.contains(why), "sudo {below_sudo}: {status}: {text}");
    }
    let port = bed.listen_on_the_firewall();
    bed.expect_of_the_firewall(port, Outcome::Answered, "nothing was changed");
    let _firewall = bed.up(&open, "auto");
    for below_sudo in [false, true] {
        let (status, text) = in_session(&bed, below_sudo, &["apply", &closed]);
        assert!(status == 2 && text.contains(why), "sudo {below_sudo}: {status}: {text}");
        let (status, text) = in_session(&bed, below_sudo, &["apply", &open]);
        assert_eq!(status, 0, "sudo {below_sudo}: {text}");
    }
    assert_eq!(bed.json(&["status"])["policy"]["file"], open.as_str());
    let (status, text) = in_session(&bed, false, &["apply", "--force", &closed]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(bed.json(&["status"])["policy"]["file"], closed.as_str());
    // The other ways by which a policy comes.
    let generation = || bed.json(&["status"])["policy"]["generation"].as_u64().unwrap();
    let (status, text) = in_session(&bed, false, &["rollback", "1"]);
    assert_eq!(status, 0, "{text}");
    let before = generation();
    let (status, text) = in_session(&bed, true, &["rollback", "2"]);
    assert!(status == 2 && text.contains(why), "{status}: {text}");
    let (status, text) = in_session_to(&bed, "2222", true, &["factory-reset", "--yes"]);
    assert!(
        status == 2 && text.contains("factory-reset: this policy would cut the SSH session"),
        "{status}: {text}"
    );
    assert_eq!(generation(), before, "nothing was changed");
    let (status, text) = in_session(&bed, true, &["factory-reset", "--yes"]);
    assert_eq!(status, 0, "{text}");
}
