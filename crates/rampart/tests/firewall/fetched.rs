//! A list that a command fetches, as users have it: the daemon that runs has no rights for it, and who fetches ends with the daemon.

use crate::WEB;
use crate::bed::{Bed, Outcome, until};
use std::path::Path;

/// The processes that a daemon has started.
fn children(daemon: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{daemon}/task")).unwrap().flatten();
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.map(of).collect::<String>().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn needs_root_a_command_fetches_a_list_of_a_running_firewall() {
    let bed = Bed::new();
    bed.serve(8080);
    // What commands may read is open to everybody.
    let feed = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let text = feed.path().join("bad.txt");
    std::fs::write(&text, "192.0.2.1\n").unwrap();
    let list =
        format!("[lists.bad]\ncommand = ['cat', '{}']\nblock = 'both'\nrefresh = '5s'\n", text.display());
    let policy = bed.policy("p.toml", &format!("{WEB}{list}"));
    let (status, text_of_check) = bed.rampart(&["check", &policy]);
    assert!(
        status == 0 && text_of_check.contains("the list `bad`: what its command prints is not known here"),
        "{text_of_check}"
    );
    let mut firewall = bed.up(&policy, "auto");
    bed.expect(8080, Outcome::Answered, "nobody is on it");
    // Beside the file and in its place, as feeds are written.
    let write = |content: &str| {
        std::fs::write(feed.path().join("new"), content).unwrap();
        std::fs::rename(feed.path().join("new"), &text).unwrap();
    };
    write("10.81.1.2\n");
    firewall.until("lists were read again");
    bed.expect(8080, Outcome::Silence, "on the list by now");
    std::fs::remove_file(&text).unwrap();
    firewall.until(
        "trouble: the list `bad` could not be fetched, and stays as it was: `cat` failed (exit status: 1)",
    );
    bed.expect(8080, Outcome::Silence, "the last good one");
    let workers = children(firewall.child.id());
    assert_eq!(
        workers.len(),
        3,
        "one fetches lists, one sends events to collectors, one keeps gateways: {workers:?}"
    );
    firewall.child.kill().unwrap();
    firewall.child.wait().unwrap();
    let is_gone = |worker: &String| !Path::new("/proc").join(worker).exists();
    until("the workers end with their daemon", || workers.iter().all(is_gone));
    bed.expect(8080, Outcome::Silence, "without a daemon");
    let _firewall = bed.up_with(&[]);
    bed.expect(8080, Outcome::Silence, "without a feed, after a restart");
}
