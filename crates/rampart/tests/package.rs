//! The Debian package: what is in it, and what its scripts do at the first installation. Its whole life on a machine is
//! `scripts/test-package`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::namespace::Namespace;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rampart");

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", text(&done));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_first_policy_is_right_and_protects_a_host() {
    let policy = tree().join("packaging/rampart/policy.toml").display().to_string();
    run(PROGRAM, &["check", "--strict", &policy]);
    for (protocol, port, expected) in [
        ("tcp", "22", "allow ssh"),
        ("tcp", "80", "deny"),
        ("udp", "68", "allow addresses"),
        ("udp", "53", "deny"),
    ] {
        let packet = ["--from", "network", "--to", "self", "--src", "192.0.2.1", "--dst", "192.0.2.2"];
        let asked =
            [&["explain", &policy, "--brief", "--proto", protocol, "--dport", port], &packet[..]].concat();
        let said = run(PROGRAM, &asked);
        assert!(said.starts_with(expected), "{protocol}/{port}: {said}");
    }
}

#[test]
fn the_package_has_the_program_and_all_that_belongs_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let built = Path::new(PROGRAM).parent().unwrap();
    // The other program of the package is of another crate: `cargo test -p rampart` alone does not build it.
    if !built.join("rampart-web").exists() {
        let target = built.parent().unwrap().display().to_string();
        run("cargo", &["build", "--quiet", "--package", "rampart-web", "--target-dir", &target]);
    }
    let done = Command::new(tree().join("scripts/package"))
        .arg("rampart")
        .envs([("BUILT", built), ("OUT", folder.path()), ("VERSION", Path::new("1.2.3"))])
        .env("COMPRESSION", "none")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", text(&done));
    let package = String::from_utf8(done.stdout).unwrap().trim().to_owned();
    let fields = run("dpkg-deb", &["-f", &package]);
    for field in ["Package: rampart\n", "Version: 1.2.3\n", "libelf1", "libc6 (>= "] {
        assert!(fields.contains(field), "{field:?} in {fields}");
    }
    assert_eq!(fields.matches('@').count(), 1, "but for the maintainer's address all is filled in: {fields}");
    assert_eq!(run("dpkg-deb", &["-I", &package, "conffiles"]), "/etc/rampart/policy.toml\n");
    let content = run("dpkg-deb", &["-c", &package]);
    for (mode, file) in [
        ("-rwxr-xr-x", "/usr/bin/rampart"),
        ("-rwxr-xr-x", "/usr/bin/rampart-web"),
        ("-rw-r--r--", "/lib/systemd/system/rampart.service"),
        ("-rw-r--r--", "/lib/systemd/system/rampart-web.service"),
        ("-rw-r--r--", "/lib/systemd/system/rampart-agent.service"),
        ("-rw-r--r--", "/usr/share/doc/rampart/guide/fleet.md"),
        ("-rw-r--r--", "/usr/share/man/man1/rampart-web-serve.1.gz"),
        ("-rw-r--r--", "/usr/share/bash-completion/completions/rampart-web"),
        ("-rw-r--r--", "/usr/share/doc/rampart/guide/web.md"),
        ("-rw-r--r--", "/usr/lib/sysusers.d/rampart.conf"),
        ("-rw-------", "/etc/rampart/policy.toml"),
        ("-rw-r--r--", "/usr/share/man/man1/rampart-up.1.gz"),
        ("-rw-r--r--", "/usr/share/bash-completion/completions/rampart"),
        ("-rw-r--r--", "/usr/share/zsh/vendor-completions/_rampart"),
        ("-rw-r--r--", "/usr/share/fish/vendor_completions.d/rampart.fish"),
        ("-rw-r--r--", "/usr/share/doc/rampart/copyright"),
        ("-rw-r--r--", "/usr/share/doc/rampart/guide/policy.md"),
    ] {
        let line = content.lines().find(|line| line.ends_with(&format!(" .{file}")));
        let line = line.unwrap_or_else(|| panic!("no {file} in {content}"));
        assert!(line.starts_with(&format!("{mode} root/root ")), "{line}");
    }
    assert_eq!(content.lines().find(|line| !line.contains(" root/root ")), None);
}

/// A line that is no setting is passed over by systemd with a word in a log that nobody reads, and of two of a kind one may undo the other.
#[test]
fn units_say_everything_once() {
    let folder = tree().join("packaging/rampart");
    for name in ["rampart.service", "rampart-web.service", "rampart-agent.service"] {
        let unit = std::fs::read_to_string(folder.join(name)).unwrap();
        let mut seen = Vec::new();
        for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{name}: {line}"));
            assert!(key.chars().all(|c| c.is_ascii_alphanumeric()), "{name}: {line}");
            assert!(!seen.contains(&key), "{name} says {key} twice");
            if key == "CapabilityBoundingSet" {
                assert!(value.split_terminator(' ').all(|word| word.starts_with("CAP_")), "{name}: {line}");
            }
            seen.push(key);
        }
        assert!(seen.contains(&"CapabilityBoundingSet") && seen.contains(&"SystemCallFilter"), "{name}");
    }
}

/// Programs that the scripts call, which write down how they are called.
fn stand_ins(folder: &Path, sshd: &str) -> String {
    for (name, says) in [
        ("systemd-sysusers", String::new()),
        ("deb-systemd-helper", String::new()),
        ("systemctl", String::new()),
        ("sshd", sshd.to_owned()),
    ] {
        let path = folder.join(name);
        let calls = folder.join("calls");
        let script = format!("#!/bin/sh\necho {name} \"$@\" >>{}\necho '{says}'\n", calls.display());
        let source = folder.join("stand-in");
        std::fs::write(&source, script).unwrap();
        std::fs::set_permissions(&source, Permissions::from_mode(0o755)).unwrap();
        testkit::namespace::copy_program(&source.display().to_string(), &path);
    }
    format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display())
}

#[test]
fn needs_root_the_first_installation_enables_the_service_where_its_policy_fits() {
    let postinst = tree().join("packaging/rampart/postinst").display().to_string();
    // What the machine is like, what is done to make it so, what sshd says; the version before, and whether the service is enabled.
    let rows: [(&str, &str, &str, &str, bool); 6] = [
        ("a host", "true", "port 22", "", true),
        ("an upgrade", "true", "port 22", "0.0.1", false),
        ("a router", "sysctl -q -w net.ipv4.ip_forward=1", "port 22", "", false),
        ("a router of IPv6", "sysctl -q -w net.ipv6.conf.all.forwarding=1", "port 22", "", false),
        ("a bridge", "ip link add b0 type bridge", "port 22", "", false),
        ("SSH is elsewhere", "true", "port 2222", "", false),
    ];
    for (what, make, sshd, before, expected) in rows {
        let folder = tempfile::tempdir().unwrap();
        let namespace = Namespace::create("package");
        let path = stand_ins(folder.path(), sshd);
        let script = format!("{make} && exec sh {postinst} configure {before}");
        let done = Command::new("ip")
            .args(["netns", "exec", namespace.name(), "sh", "-c", &script])
            .env("PATH", path)
            .output()
            .unwrap();
        assert!(done.status.success(), "{what}: {}", text(&done));
        let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
        assert!(calls.contains("systemd-sysusers rampart.conf\n"), "{what}: {calls}");
        assert_eq!(
            calls.contains("deb-systemd-helper enable rampart.service\n"),
            expected,
            "{what}: {calls}"
        );
        assert!(!calls.contains("start rampart"), "{what}: nothing is started: {calls}");
        assert!(!calls.contains("enable rampart-web"), "{what}: people enable the administration: {calls}");
        assert_eq!(text(&done).contains("is not enabled, because"), !expected && before.is_empty(), "{what}");
    }
}
