//! What a running daemon may still do, and what its clients may: by their groups, whatever they ask.

use crate::bed::{Bed, Firewall, Outcome};
use crate::{MAIL, REJECT, WEB};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_BPF: u64 = 1 << 39;

/// What the kernel says of every thread of a process.
fn threads(firewall: &Firewall) -> Vec<BTreeMap<String, String>> {
    let tasks = format!("/proc/{}/task", firewall.child.id());
    let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).ok();
    let of = |text: String| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect()
    };
    std::fs::read_dir(tasks).unwrap().flatten().filter_map(status).map(of).collect()
}

/// Why these threads have more rights than they should, or not those that they need.
fn wrong_rights(threads: &[BTreeMap<String, String>]) -> Option<String> {
    let mut daemons = 0;
    for status in threads {
        let set = |name: &str| u64::from_str_radix(&status[name], 16).unwrap();
        let more = |name: &&str| set(name) & !(CAP_NET_ADMIN | CAP_BPF) != 0;
        if let Some(name) = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].into_iter().find(more) {
            return Some(format!("{name}: {status:?}"));
        }
        if (status["NoNewPrivs"].as_str(), status["Seccomp"].as_str()) != ("1", "2") {
            return Some(format!("system calls are not filtered: {status:?}"));
        }
        daemons += usize::from(set("CapEff") == CAP_NET_ADMIN | CAP_BPF);
    }
    // The daemon itself and who follows routes; whoever prints, records, and waits for signals and announcements needs none.
    (threads.len() < 6 || daemons < 2).then(|| format!("{daemons} of {} threads", threads.len()))
}

/// A thread gives its rights up when it begins, which may be a moment after somebody made it.
fn expect_few_rights(firewall: &Firewall, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Some(wrong) = wrong_rights(&threads(firewall)) {
        assert!(Instant::now() < deadline, "{what}: {wrong}");
        std::thread::yield_now();
    }
}

/// The troubles that the test has made stand for a minute, and there are no others.
fn expect_its_troubles_alone(bed: &Bed, what: &str) {
    let status = bed.json(&["status"]);
    let troubles = status["troubles"].as_array().unwrap();
    let is_its =
        |trouble: &serde_json::Value| trouble.to_string().contains("took the firewall's program away");
    assert!(!troubles.is_empty() && troubles.iter().all(is_its), "{what}: {troubles:?}");
}

#[test]
fn needs_root_a_daemon_with_few_rights_does_all_that_it_has_to() {
    for (hook, settings) in [("tc", ""), ("xdp", ""), ("auto", "[settings]\nforwarding = 'kernel'\n")] {
        let what = format!("{hook} {settings}");
        let bed = Bed::new();
        bed.serve(8080);
        bed.serve(2525);
        if !settings.is_empty() {
            bed.sysctl("net/ipv4/ip_forward", "1");
        }
        let log = "log = 'both'\n";
        let web = bed.policy("web.toml", &format!("{settings}{WEB}{log}"));
        let mail = bed.policy("mail.toml", &format!("{settings}{MAIL}{log}"));
        let mut firewall = bed.up(&web, hook);
        expect_few_rights(&firewall, &what);
        bed.expect(8080, Outcome::Answered, &what);
        assert_eq!(bed.rampart(&["apply", &mail, "--confirm", "600"]).0, 0, "{what}");
        bed.expect(2525, Outcome::Answered, &what);
        assert_eq!(bed.rampart(&["confirm"]).0, 0, "{what}");
        let killed = bed.json(&["flows", "rule=mail", "--kill"]);
        assert!(killed["killed"].as_u64() >= Some(1), "{what}: {killed}");
        assert!(bed.json(&["log"])["events"].as_array().unwrap().len() >= 2, "{what}");
        assert_eq!(bed.rampart(&["apply", &web, "--confirm", "1"]).0, 0, "{what}");
        firewall.until("web.toml was not confirmed");
        bed.ip("fw", &["link", "del", "e1"]);
        firewall.until("trouble: the interface `e1` of zone `inside` is gone");
        bed.join("in", "e1", "10.81.1", "1");
        firewall.until("over: the interface `e1` of zone `inside` is gone");
        bed.expect(2525, Outcome::Answered, &format!("{what}: the interface is back"));
        bed.inside("fw", || dataplane::take_from("e1").unwrap());
        firewall.until("took the firewall's program away");
        std::fs::write(&web, std::fs::read_to_string(&mail).unwrap().replace("'mail'", "'post'")).unwrap();
        firewall.signal(Signal::SIGHUP);
        firewall.until("web.toml as generation");
        bed.until_call(2525, Outcome::Answered);
        expect_its_troubles_alone(&bed, &what);
        expect_few_rights(&firewall, &format!("{what}, later"));
        firewall.signal(Signal::SIGTERM);
        assert_eq!(firewall.end(), Some(0), "{what}");
        let mut firewall = bed.up_with(&[]);
        bed.expect(2525, Outcome::Answered, &format!("{what}: after a restart"));
        expect_few_rights(&firewall, &format!("{what}: after a restart"));
        let (status, text) = bed.rampart(&["down"]);
        assert_eq!(status, 0, "{what}: {text}");
        assert_eq!(firewall.end(), Some(0), "{what}");
        assert!(
            bed.inside("fw", || dataplane::Earlier::find().unwrap()).is_none(),
            "{what}: nothing is left"
        );
        let own = bed.listen_on_the_firewall();
        bed.expect_of_the_firewall(own, Outcome::Answered, &format!("{what}: nothing judges any more"));
    }
}

/// A list of groups that programs in the firewall's namespace see in place of the machine's: `ip netns exec` puts it there.
struct Groups(std::path::PathBuf);

const CHANGERS: &str = "60001";
const READERS: &str = "60002";

impl Groups {
    fn new(bed: &Bed) -> Self {
        let folder = std::path::Path::new("/etc/netns").join(bed.namespace("fw"));
        std::fs::create_dir_all(&folder).unwrap();
        let groups = format!("root:x:0:\nrampart:x:{CHANGERS}:\nrampart-read:x:{READERS}:\n");
        std::fs::write(folder.join("group"), groups).unwrap();
        Self(folder)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn needs_root_readers_may_ask_and_change_nothing() {
    let bed = Bed::new();
    let _groups = Groups::new(&bed);
    bed.serve(8080);
    let policy = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
    let _firewall = bed.up(&policy, "auto");
    let folder = bed.folder.path();
    let program = folder.join("rampart");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    testkit::namespace::copy_program(env!("CARGO_BIN_EXE_rampart"), &program);
    let run = |group: &str, arguments: &[&str]| {
        let (namespace, group) = (bed.namespace("fw"), format!("--regid={group}"));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace, "setpriv", "--reuid=65534", &group, "--clear-groups"]);
        let done = command.arg(&program).args(arguments).output().unwrap();
        let text = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        (done.status.code().unwrap(), text)
    };
    const NOBODY: &str = "you may not use";
    const ONLY_ASK: &str = "you may only ask: it takes root or the group `rampart`";
    let apply = ["apply", &policy];
    let rows: [(&[&str], bool); 12] = [
        (&["status"], false),
        (&["rules"], false),
        (&["flows"], false),
        (&["drops"], false),
        (&["log"], false),
        (&["log", "--audit"], false),
        (&["top", "--once", "--interval", "0.1"], false),
        (
            &[
                "explain",
                &policy,
                "--from",
                "inside",
                "--to",
                "self",
                "--src",
                "10.81.1.2",
                "--dst",
                "10.81.1.1",
                "--proto",
                "tcp",
                "--dport",
                "1",
            ],
            false,
        ),
        (&["flows", "rule=web", "--kill"], true),
        (&apply, true),
        (&["confirm"], true),
        (&["down"], true),
    ];
    for (arguments, changes) in rows {
        let what = arguments.join(" ");
        let (status, text) = run(READERS, arguments);
        if changes {
            assert!(status == 2 && text.contains(ONLY_ASK), "{what}: {status}: {text}");
        } else {
            assert_eq!(status, 0, "{what}: {text}");
        }
        let (status, text) = run("65534", arguments);
        if arguments[0] == "explain" {
            assert_eq!(status, 0, "{what} asks no daemon: {text}");
        } else {
            assert!(status == 3 && text.contains(NOBODY), "{what}: {status}: {text}");
        }
    }
    assert_eq!(bed.json(&["status"])["policy"]["generation"], 1, "nothing changed");
    let (status, text) = run(CHANGERS, &apply);
    assert_eq!(status, 0, "{text}");
    let (status, text) = run(READERS, &["log", "--kept", "--state", bed.state().to_str().unwrap()]);
    assert!(status == 3 && text.contains("it is for root alone"), "{status}: {text}");
    // Who did what stands in the audit trail, on the disk as well.
    for arguments in
        [vec!["log", "--audit"], vec!["log", "--audit", "--kept", "--state", bed.state().to_str().unwrap()]]
    {
        let trail = bed.json(&arguments);
        let records = trail["records"].as_array().unwrap();
        let of = |event: &str| records.iter().filter(|it| it["event"] == event).collect::<Vec<_>>();
        assert_eq!((of("up").len(), of("applied").len(), &trail["broken"]), (1, 1, &0.into()), "{trail}");
        let (denied, applied) = (of("denied")[0], of("applied")[0]);
        assert!(denied["message"].as_str().unwrap().contains("DELETE /v1/flows"), "{trail}");
        assert!(
            denied["by"]["command"].as_str().unwrap().contains("rampart flows rule=web --kill"),
            "{trail}"
        );
        assert_eq!(
            (&denied["by"]["uid"], &applied["by"]["uid"]),
            (&65_534.into(), &65_534.into()),
            "{trail}"
        );
    }
}
