//! The program as it is typed: what it prints, and how it ends.

use crate::bed::Bed;
use std::process::{Command, Stdio};

/// The status of a command, and what it says as messages, if it prints to `out`.
fn run(words: &[&str], out: Stdio) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-web"));
    let done = command.args(words).stdout(out).stderr(Stdio::piped()).spawn().unwrap();
    let done = done.wait_with_output().unwrap();
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

/// What is wrong with a name or a folder is said before anybody types a password (here there is none), and nothing is left behind.
#[test]
fn mistakes_are_said_before_a_password_is_asked_for() {
    let bed = Bed::new();
    let state = bed.folder.path().to_str().unwrap();
    let missing = bed.folder.path().join("missing");
    let no_folder = missing.to_str().unwrap();
    for (words, said) in [
        (vec!["user", "add", "anna", "--state", state], "there is a user anna already"),
        (vec!["user", "add", "Anna", "--state", state], "small letters"),
        (vec!["user", "passwd", "nobody", "--state", state], "there is no user \"nobody\""),
        (vec!["user", "add", "anna", "--state", no_folder], "a password has 12 characters or more"),
        (vec!["user", "list", "--state", no_folder], "there is no folder"),
        (vec!["user", "passwd", "anna", "--state", no_folder], "name the one of the server with --state"),
        (vec!["certificate", "--state", no_folder], "there is no folder"),
        (
            vec!["serve", "--listen", "192.0.2.1:8443", "--user", "nobody", "--state", no_folder],
            "this machine has no such address",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-web"));
        let done = command.args(&words).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && text.contains(said), "{words:?}: {text}");
    }
    assert!(!missing.exists(), "a command that failed has made a folder");
}

#[test]
fn output_that_finds_no_room_is_an_error_and_a_reader_that_went_away_is_none() {
    let bed = Bed::new();
    let state = bed.folder.path().to_str().unwrap();
    for words in [&["completion", "bash"][..], &["user", "list", "--state", state]] {
        let (status, said) = run(words, std::fs::File::create("/dev/full").unwrap().into());
        assert_eq!(status, Some(2), "{words:?}: {said}");
        assert!(said.starts_with("rampart-web: what was printed is not whole: No space left"), "{said}");
        let (nobody, pipe) = std::io::pipe().unwrap();
        drop(nobody);
        assert_eq!(run(words, pipe.into()), (Some(0), String::new()), "{words:?}");
    }
    // Nobody reads the message either.
    let (nobody, pipe) = std::io::pipe().unwrap();
    drop(nobody);
    let mut command = Command::new(env!("CARGO_BIN_EXE_rampart-web"));
    let status = command.args(["user", "remove", "nobody", "--state", state]).stderr(pipe).status().unwrap();
    assert_eq!(status.code(), Some(2));
}
