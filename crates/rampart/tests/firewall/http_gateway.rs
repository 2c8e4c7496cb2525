//! A gateway of a running firewall: curl through it to nginx, what rules refuse in the event log, and other policies.

use crate::bed::{Bed, Firewall, Outcome, expect_echo, until};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use testkit::namespace::Background;

const PACKETS: &str = "[[rules]]\nname = 'echo'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/2525'\naction = 'allow'\n\
    [[rules]]\nname = 'to-gateway'\nfrom = 'inside'\nto = 'self'\nservice = 'tcp/3128'\naction = 'allow'\n\
    [[rules]]\nname = 'from-gateway'\nfrom = 'self'\nto = 'outside'\nservice = ['tcp/8080', 'udp/53']\naction = 'allow'\n";
const GATEWAY: &str = "[gateways.web]\nprotocol = 'http'\nlisten = '10.81.1.1:3128'\nports = 8080\nconnect_ports = 8080\nresolvers = '10.81.2.2'\n";
const RULES: &str = "[[gateways.web.rules]]\nname = 'private'\naction = 'deny'\npaths = '/private/*'\n\
    [[gateways.web.rules]]\nname = 'browsing'\naction = 'allow'\nhosts = ['10.81.2.2', '*.test', '10.81.1.1']\nlog = true\n";

/// A large file, so that it takes many pieces.
const LARGE: usize = 5_000_000;

/// nginx on the host outside.
pub(crate) fn nginx(bed: &Bed) -> Background {
    let folder = bed.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.join("www");
    for (path, content) in
        [("private/x", b"secret".to_vec()), ("index.html", b"hello\n".to_vec()), ("large", large())]
    {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let work = folder.display();
    let text = format!(
        "daemon off; master_process off; pid {work}/nginx.pid; error_log {work}/nginx.log;\nevents {{}}\n\
         http {{ access_log off; client_body_temp_path {work}/body; server {{ listen 8080; root {work}/www;\n\
         location /post {{ return 200 posted; }} }} }}\n"
    );
    let settings = folder.join("nginx.conf");
    fs::write(&settings, text).unwrap();
    let settings = settings.display().to_string();
    let program = Background::start(bed.host("out"), "nginx", &["-c", &settings, "-e", "/dev/null"]);
    until("nginx listens", || bed.host("out").run("ss", &["-Hlnt"]).contains(":8080 "));
    program
}

pub(crate) fn large() -> Vec<u8> {
    (0..LARGE).map(|place| (place * place / 7 + place) as u8).collect()
}

/// curl on the host inside.
pub(crate) fn curl(bed: &Bed, words: &[&str]) -> Output {
    let namespace = bed.namespace("in");
    let fixed = ["netns", "exec", &namespace, "curl", "-sS", "--max-time", "100"];
    Command::new("ip").args(fixed).args(words).output().unwrap()
}

/// The same through the gateway.
fn curl_by_proxy(bed: &Bed, words: &[&str]) -> Output {
    curl(bed, &[&["-x", "http://10.81.1.1:3128"][..], words].concat())
}

/// The status that curl gets.
fn status(bed: &Bed, words: &[&str]) -> String {
    let output =
        curl_by_proxy(bed, &[&["-o", "/dev/null", "-w", "%{http_code} %{http_connect}"][..], words].concat());
    String::from_utf8(output.stdout).unwrap()
}

/// The processes that a process has started, by a word of their command lines.
pub(crate) fn children(of: u32, word: &str) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let all: Vec<u32> = children
        .flat_map(|it| it.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    let is_it =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(word));
    all.into_iter().filter(is_it).collect()
}

/// The process of the gateway.
pub(crate) fn worker(firewall: u32) -> Option<u32> {
    let keeper = *children(firewall, "keep-gateways").first()?;
    children(keeper, "run-gateway").first().copied()
}

pub(crate) fn kill(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

fn of_status(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn gateway(bed: &Bed) -> Value {
    bed.json(&["status"])["gateways"][0].clone()
}

#[test]
fn needs_root_a_gateway_serves_beside_the_packet_filter() {
    let bed = Bed::new();
    bed.serve(2525);
    let _nginx = nginx(&bed);
    let _names = bed.serve_names(&["--address=/www.test/10.81.2.2", "--address=/own.test/10.81.1.1"]);
    let policy = bed.policy("p.toml", &format!("{PACKETS}{GATEWAY}{RULES}"));
    assert_eq!(bed.rampart(&["check", "--strict", &policy]).0, 0, "{}", bed.rampart(&["check", &policy]).1);
    let firewall = bed.up(&policy, "auto");
    until("the gateway is up", || gateway(&bed)["is_up"] == true);
    until("names are answered", || status(&bed, &["http://www.test:8080/"]) == "200 000");
    let site = |path: &str| format!("http://10.81.2.2:8080{path}");
    for (words, expected) in [
        (vec![site("/")], "200 000"),
        (vec!["-I".to_owned(), site("/large")], "200 000"),
        (vec!["-d".to_owned(), "a=b".to_owned(), site("/post")], "200 000"),
        (
            vec![
                "-H".to_owned(),
                "Transfer-Encoding: chunked".to_owned(),
                "-d".to_owned(),
                "abc".to_owned(),
                site("/post"),
            ],
            "200 000",
        ),
        (vec!["-p".to_owned(), site("/")], "200 200"),
        (vec![site("/private/x")], "403 000"),
        (vec!["--path-as-is".to_owned(), site("/a/../private/x")], "403 000"),
        (vec!["http://10.81.2.3:8080/".to_owned()], "403 000"),
        (vec!["http://10.81.2.2:8081/".to_owned()], "403 000"),
        (vec!["-p".to_owned(), "http://10.81.2.2:22/".to_owned()], "000 403"),
        // The firewall itself, by its address and by a name.
        (vec!["http://10.81.1.1:8080/".to_owned()], "403 000"),
        (vec!["http://own.test:8080/".to_owned()], "403 000"),
        (vec!["http://nobody.test:8080/".to_owned()], "502 000"),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(status(&bed, &words), expected, "{words:?}");
    }
    let output = curl_by_proxy(&bed, &[&site("/large")]);
    assert_eq!(Sha256::digest(&output.stdout), Sha256::digest(large()), "{} bytes", output.stdout.len());
    let events = bed.json(&["log"]);
    let has = |rule: &str, reason: &str, path: &str| {
        let is_it = |event: &&Value| {
            event["rule"] == rule && event["reason"] == *reason && event["request"]["path"] == path
        };
        events["events"].as_array().unwrap().iter().any(|event| is_it(&event))
    };
    assert!(has("web/private", "http-rule-deny", "/private/x"), "{events:#}");
    let carried =
        events["events"].as_array().unwrap().iter().find(|event| event["request"]["path"] == "/large");
    assert_eq!(carried.unwrap()["event"], "request", "{events:#}");
    assert!(bed.rampart(&["log"]).1.contains("http-own-address"), "{events:#}");

    let keeper = children(firewall.child.id(), "keep-gateways")[0];
    let before = worker(firewall.child.id()).unwrap();
    for (pid, rights) in [(keeper, "0000000000002400"), (before, "0000000000000000")] {
        assert_eq!(of_status(pid, "CapPrm:"), rights);
        assert_eq!(of_status(pid, "CapEff:"), rights);
        assert!(!of_status(pid, "Uid:").split(' ').any(|uid| uid == "0"));
        assert_eq!(
            (of_status(pid, "Groups:"), of_status(pid, "NoNewPrivs:")),
            (String::new(), "1".to_owned())
        );
    }
    assert_eq!(of_status(before, "Seccomp:"), "2");
    expect_other_policies(&bed, &firewall);
}

fn expect_other_policies(bed: &Bed, firewall: &Firewall) {
    let mut filtered = bed.connect(2525).unwrap();
    // Another policy: the process stays, and does what that says. Then one without a gateway.
    let now = worker(firewall.child.id());
    let strict = GATEWAY.to_owned() + &RULES.replace("'10.81.2.2', ", "");
    bed.json(&["apply", &bed.policy("strict.toml", &format!("{PACKETS}{strict}"))]);
    until("the other rules", || status(bed, &["http://10.81.2.2:8080/"]) == "403 000");
    assert_eq!(worker(firewall.child.id()), now, "it is the same process");
    bed.json(&["apply", &bed.policy("none.toml", PACKETS)]);
    until("it has gone", || worker(firewall.child.id()).is_none());
    bed.expect_of_the_firewall(3128, Outcome::Refused, "nobody listens");
    assert_eq!(bed.json(&["status"])["gateways"], serde_json::json!([]));
    expect_echo(&mut filtered, "all the time");
}
