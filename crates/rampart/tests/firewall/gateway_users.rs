//! Users of gateways of a running firewall: who logs in by curl and lftp, and what becomes of it when their file changes or is gone.

use crate::bed::{Bed, until};
use crate::ftp_gateway::{inside, vsftpd};
use crate::http_gateway::{curl, large, nginx, worker};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

const POLICY: &str = "[[rules]]\nname = 'to-gateways'\nfrom = 'inside'\nto = 'self'\nservice = ['tcp/3128', 'tcp/2121', 'tcp/61000-61999']\naction = 'allow'\n\
    [[rules]]\nname = 'from-gateways'\nfrom = 'self'\nto = 'outside'\nservice = ['ftp', 'tcp/1024-65535']\naction = 'allow'\n\
    [schedules.never]\ntimes = 'daily'\ntime_zone = 'UTC'\nfrom = 2001-01-01\nuntil = 2001-01-02\n\
    [gateways.web]\nprotocol = 'http'\nlisten = '10.81.1.1:3128'\nports = 8080\nconnect_ports = 8080\nlook_up = false\nusers_file = 'users.json'\n\
    [[gateways.web.rules]]\nname = 'night'\naction = 'allow'\nhosts = '10.81.2.2'\nschedule = 'never'\n\
    [[gateways.web.rules]]\nname = 'private'\naction = 'allow'\nhosts = '10.81.2.2'\npaths = '/private/*'\nusers = '@staff'\nlog = true\n\
    [[gateways.web.rules]]\nname = 'no-ben'\naction = 'deny'\npaths = '/large'\nusers = 'ben'\n\
    [[gateways.web.rules]]\nname = 'browsing'\naction = 'allow'\nhosts = '10.81.2.2'\nusers = '*'\nlog = true\n\
    [gateways.files]\nprotocol = 'ftp'\nlisten = '10.81.1.1:2121'\nlook_up = false\nusers_file = 'users.json'\n\
    [[gateways.files.rules]]\nname = 'fetch'\naction = 'allow'\nhosts = '10.81.2.2'\nmethods = ['RETR', 'LIST', 'NLST']\nusers = 'anna'\nlog = true\n";

const ANNAS: &str = "correct horse battery";
const BENS: &str = "another long password";

/// Runs `rampart user` on the file of the policy.
fn user(bed: &Bed, words: &[&str], password: &str) -> String {
    let file = bed.folder.path().join("users.json").display().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rampart"))
        .args(["user", "--file", &file])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// The statuses that curl gets of the server and of the gateway for a tunnel.
fn status(bed: &Bed, words: &[&str]) -> String {
    let fixed = ["-x", "http://10.81.1.1:3128", "-o", "/dev/null", "-w", "%{http_code} %{http_connect}"];
    String::from_utf8(curl(bed, &[&fixed[..], words].concat()).stdout).unwrap()
}

fn site(path: &str) -> String {
    format!("http://10.81.2.2:8080{path}")
}

#[test]
fn needs_root_users_of_gateways_log_in_by_http_and_ftp() {
    let bed = Bed::new();
    let (_nginx, _vsftpd) = (nginx(&bed), vsftpd(&bed));
    let policy = bed.policy("p.toml", POLICY);
    assert!(bed.rampart(&["check", &policy]).1.contains("there is no file of users"), "a file must be there");
    assert_eq!(user(&bed, &["add", "anna", "--group", "staff"], ANNAS), "");
    assert_eq!(user(&bed, &["add", "ben"], &format!("{BENS}\n")), "");
    assert!(user(&bed, &["add", "ben"], BENS).contains("there is a user ben already"));
    assert!(user(&bed, &["add", "carl"], "short").contains("12 characters or more"));
    assert!(user(&bed, &["remove", "carl"], "").contains("no user"));
    assert_eq!(user(&bed, &["list"], "").split_whitespace().collect::<Vec<_>>(), ["anna", "staff", "ben"]);
    assert_eq!(bed.rampart(&["check", "--strict", &policy]).0, 0, "{}", bed.rampart(&["check", &policy]).1);
    let firewall = bed.up(&policy, "auto");
    let is_up = |place: usize| bed.json(&["status"])["gateways"][place]["is_up"] == true;
    until("the gateways are up", || is_up(0) && is_up(1));
    let process = worker(firewall.child.id()).unwrap();
    until("nobody of the same user looks into its memory, and it leaves no core", || {
        fs::metadata(format!("/proc/{process}/environ")).unwrap().uid() == 0
    });
    let (anna, ben) = (format!("anna:{ANNAS}"), format!("ben:{BENS}"));
    for (user, path, expected) in [
        ("", "/", "407 000"),
        (anna.as_str(), "/", "200 000"),
        (&anna, "/private/x", "200 000"),
        (&anna, "/large", "200 000"),
        (&ben, "/", "200 000"),
        (&ben, "/private/x", "200 000"),
        (&ben, "/large", "403 000"),
        ("anna:another one", "/", "407 000"),
        ("dora:another one", "/", "407 000"),
    ] {
        assert_eq!(status(&bed, &["--proxy-user", user, &site(path)]), expected, "{user} {path}");
    }
    assert_eq!(status(&bed, &["-p", "--proxy-user", &anna, &site("/")]), "200 200");
    assert_eq!(status(&bed, &["-p", "--proxy-user", "anna:another one", &site("/")]), "000 407");
    // The client learns by the first answer that it has to say who it is.
    assert_eq!(status(&bed, &["--proxy-anyauth", "--proxy-user", &ben, &site("/")]), "200 000");
    expect_ftp(&bed);
    expect_events(&bed);
    expect_other_users(&bed, &anna, &ben);
}

fn expect_ftp(bed: &Bed) {
    let words = "correct%20horse%20battery";
    for (url, is_fetched) in [
        (format!("ftp://anonymous%40anna%4010.81.2.2:me%40home%40{words}@10.81.1.1:2121/large"), true),
        ("ftp://anonymous%40anna%4010.81.2.2:me%40wrong@10.81.1.1:2121/large".to_owned(), false),
        (format!("ftp://anonymous%4010.81.2.2:{words}@10.81.1.1:2121/large"), false),
    ] {
        let output = curl(bed, &[&url]);
        assert_eq!(
            output.stdout == large(),
            is_fetched,
            "{url}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let proxy = format!(
        "set net:max-retries 1; set ftp:proxy \"ftp://anna:{words}@10.81.1.1:2121\"; open 10.81.2.2; cat large"
    );
    let output = inside(bed, &["lftp", "-c", &proxy]);
    assert_eq!(output.stdout.len(), large().len(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn expect_events(bed: &Bed) {
    let events = bed.json(&["log"]);
    let has = |rule: Option<&str>, reason: Option<&str>, user: Option<&str>| {
        let is_it = |event: &Value| {
            event["rule"].as_str() == rule
                && event["reason"].as_str() == reason
                && event["request"]["user"].as_str() == user
        };
        let found = events["events"].as_array().unwrap().iter().any(is_it);
        assert!(found, "{rule:?} {reason:?} {user:?}: {events:#}");
    };
    has(Some("web/browsing"), Some("http-no-user"), None);
    has(Some("web/browsing"), None, Some("ben"));
    has(Some("web/private"), None, Some("anna"));
    has(Some("web/no-ben"), Some("http-rule-deny"), Some("ben"));
    has(Some("web/browsing"), Some("http-wrong-password"), Some("dora"));
    has(Some("files/fetch"), None, Some("anna"));
    has(None, Some("ftp-wrong-password"), Some("anna"));
    let text = bed.rampart(&["log"]).1;
    assert!(text.contains("  user anna  GET 10.81.2.2:8080 /private/x 200"), "{text}");
    for secret in ["horse", "another one", "another long"] {
        assert!(!text.contains(secret) && !events.to_string().contains(secret), "{text}");
    }
}

/// Another file takes effect by itself; one that cannot be used changes nothing, and is a trouble.
fn expect_other_users(bed: &Bed, anna: &str, ben: &str) {
    let of = |user: &str| status(bed, &["--proxy-user", user, &site("/")]);
    let troubles = |words: &str| {
        let status = bed.json(&["status"]);
        status["troubles"].as_array().unwrap().iter().any(|trouble| trouble.as_str().unwrap().contains(words))
    };
    assert_eq!(user(bed, &["remove", "ben"], ""), "");
    until("ben is nobody", || of(ben) == "407 000");
    assert_eq!(user(bed, &["passwd", "anna"], BENS), "");
    until("anna has another password", || of(&format!("anna:{BENS}")) == "200 000");
    assert_eq!(of(anna), "407 000");
    let file = bed.folder.path().join("users.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    until("others may read it", || troubles("others may read"));
    fs::remove_file(&file).unwrap();
    until("it is gone", || troubles("there is no file of users"));
    assert_eq!(of(&format!("anna:{BENS}")), "200 000", "who is known stays known");
    assert_eq!(user(bed, &["add", "carl"], ANNAS), "");
    until("carl is there", || of(&format!("carl:{ANNAS}")) == "200 000");
    until("nothing is wrong any more", || !troubles("users of gateways"));
    assert_eq!(of(&format!("anna:{BENS}")), "407 000", "and anna is not");
}
