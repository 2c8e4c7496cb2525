//! What leaves the machine, as programs of the distribution read it: rsyslog, and a socket in the place of journald.

use crate::bed::{Bed, Outcome, until};
use crate::certificates::Authority;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::namespace::Background;

const COLLECTING: &str = "[[rules]]\nname = 'out'\nfrom = 'self'\nto = 'outside'\nservice = ['udp/514', 'tcp/601', 'udp/4739', 'tcp/4739']\naction = 'allow'\n";
const WEB: &str = "[[rules]]\nname = 'web'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/8080'\naction = 'allow'\nlog = 'both'\n";
/// Plain syslog, by its two usual ways.
const PLAIN: &str = "module(load=\"imudp\")\nmodule(load=\"imtcp\")\ninput(type=\"imudp\" port=\"514\")\ninput(type=\"imtcp\" port=\"601\")";
const DENY: &str = "[[defaults]]\nfrom = 'inside'\nto = 'outside'\naction = 'deny'\nlog = true\n";

/// rsyslog on the host outside, which writes a line of its properties for each message, with these inputs at ports.
fn rsyslog(bed: &Bed, inputs: &str, ports: &[u16]) -> (Background, PathBuf) {
    let folder = bed.folder.path();
    let (settings, out) = (folder.join("rsyslog.conf"), folder.join("syslog"));
    let (work, file) = (folder.display(), out.display());
    let properties = "%protocol-version%|%syslogfacility-text%|%syslogseverity-text%|%app-name%|%msgid%|%structured-data%|%msg%";
    let text = format!(
        "global(workDirectory=\"{work}\")\n{inputs}\n\
         template(name=\"all\" type=\"string\" string=\"{properties}\\n\")\n\
         action(type=\"omfile\" file=\"{file}\" template=\"all\")\n"
    );
    std::fs::write(&settings, text).unwrap();
    let pid = folder.join("rsyslog.pid").display().to_string();
    let settings = settings.display().to_string();
    let program = Background::start(bed.host("out"), "rsyslogd", &["-n", "-f", &settings, "-i", &pid]);
    // It listens once it has written its process's number, and all ports are bound.
    let listens = || {
        let sockets = bed.host("out").run("ss", &["-Hlntu"]);
        ports.iter().all(|port| sockets.contains(&format!(":{port} ")))
    };
    until("rsyslog listens", listens);
    (program, out)
}

fn lines(file: &Path, with: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let has_all = |line: &&str| with.iter().all(|words| line.contains(words));
    text.lines().filter(has_all).map(str::to_owned).collect()
}

/// A folder that the process that exports may look into, with a socket in the place of journald.
fn journal(bed: &Bed) -> (UnixDatagram, PathBuf) {
    let path = bed.folder.path().join("journal");
    let socket = UnixDatagram::bind(&path).unwrap();
    for (path, mode) in [(bed.folder.path(), 0o755), (&path, 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (socket, path)
}

#[test]
fn needs_root_rsyslog_and_the_journal_get_what_happens() {
    let bed = Bed::new();
    bed.serve(8080);
    let (_rsyslog, out) = rsyslog(&bed, PLAIN, &[514, 601]);
    let (socket, path) = journal(&bed);
    let log = format!(
        "[log]\nsyslog = ['udp://10.81.2.2:514', 'tcp://10.81.2.2:601']\nfacility = 'local3'\njournald = '{}'\n",
        path.display()
    );
    let policy = bed.policy("p.toml", &format!("{log}{COLLECTING}{WEB}{DENY}"));
    assert!(!bed.rampart(&["check", &policy]).1.contains("cut:"));
    let firewall = bed.up(&policy, "auto");
    bed.expect(8080, Outcome::Answered, "a rule");
    bed.expect(2525, Outcome::Silence, "a default");
    bed.rampart(&["flows", "dport=8080", "--kill"]);
    // By both ways, so twice.
    for with in [
        &["1|local3|info|rampart|opened|[rampart@32473 ", " rule=\"web\"", "destination_port=\"8080\""][..],
        &["1|local3|info|rampart|closed|[rampart@32473 ", " rule=\"web\"", " bytes_back=\""],
        &[
            "1|local3|notice|rampart|refused|[rampart@32473 ",
            "destination_port=\"2525\"",
            "reason=\"default-deny\"",
        ],
        &["1|local3|notice|rampart|killed|[rampart@32473 ", " by=\"user 0 (", "dport=8080"],
    ] {
        until(&format!("{with:?}"), || lines(&out, with).len() >= 2);
    }
    let mut bytes = [0; 10_000];
    let mut entries = Vec::new();
    while !(entries.iter().any(|it: &String| it.contains("\nRAMPART_EVENT=opened\n"))
        && entries.iter().any(|it| it.contains("\nRAMPART_REASON=default-deny\n"))
        && entries.iter().any(|it| it.contains("\nRAMPART_EVENT=killed\n")))
    {
        let length = socket.recv(&mut bytes).unwrap();
        entries.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
    }
    assert!(entries.iter().all(|it| it.contains("\nSYSLOG_IDENTIFIER=rampart\n")), "{entries:?}");
    let status = bed.json(&["status"]);
    let exports = status["exports"].as_array().unwrap();
    assert_eq!(exports.len(), 3, "{status}");
    assert!(exports.iter().all(|it| it["lost"] == 0 && it["trouble"].is_null()), "{status}");
    assert!(
        bed.rampart(&["metrics"])
            .1
            .contains("\nrampart_export_sent_total{form=\"syslog\",to=\"udp://10.81.2.2:514\"} ")
    );
    expect_no_rights(&firewall);
    // The policy that takes the collectors away is the last that they get.
    let silent = bed.policy("silent.toml", &format!("{COLLECTING}{WEB}{DENY}"));
    bed.json(&["apply", &silent]);
    until("the last messages", || lines(&out, &["|applied|", "silent.toml"]).len() == 2);
    assert_eq!(bed.json(&["status"])["exports"], serde_json::json!([]));
    bed.expect(2525, Outcome::Silence, "exported nowhere");
    bed.json(&["apply", &policy]);
    drop(firewall);
    until("the daemon's end", || lines(&out, &["|left|"]).len() == 2);
}

/// By TLS the collector and the firewall prove to each other who they are, and a collector of another name gets nothing.
#[test]
fn needs_root_rsyslog_gets_events_by_tls() {
    let bed = Bed::new();
    let authority = Authority::new(bed.folder.path(), "own");
    let [certificate, key] = authority.sign("logs.example.com");
    let inputs = format!(
        "global(defaultNetstreamDriver=\"ossl\" defaultNetstreamDriverCAFile=\"{}\"\n\
         defaultNetstreamDriverCertFile=\"{certificate}\" defaultNetstreamDriverKeyFile=\"{key}\")\n\
         module(load=\"imtcp\" streamDriver.name=\"ossl\" streamDriver.mode=\"1\" streamDriver.authMode=\"x509/name\"\n\
         permittedPeer=[\"fw.example.com\"])\ninput(type=\"imtcp\" port=\"6514\")",
        authority.file
    );
    let (_rsyslog, out) = rsyslog(&bed, &inputs, &[6514]);
    let [own, own_key] = authority.sign("fw.example.com");
    let policy = |file: &str, name: &str, own: &str| {
        let log = format!(
            "[log]\nsyslog = 'tls://10.81.2.2:6514'\n[log.tls]\nca = '{}'\nname = '{name}'\n{own}",
            authority.file
        );
        bed.policy(file, &format!("{log}{}{DENY}", COLLECTING.replace("'tcp/601'", "'tcp/6514'")))
    };
    let own = format!("certificate = '{own}'\nkey = '{own_key}'\n");
    let _firewall = bed.up(&policy("wrong.toml", "other.example.com", &own), "auto");
    let trouble = || bed.json(&["status"])["exports"][0]["trouble"].as_str().unwrap_or_default().to_owned();
    bed.expect(2525, Outcome::Silence, "refused, and reported to nobody");
    until("another name", || trouble().contains("not valid for name"));
    assert_eq!(lines(&out, &["rampart"]), [""; 0]);
    bed.json(&["apply", &policy("right.toml", "logs.example.com", &own)]);
    bed.expect(2526, Outcome::Silence, "refused, and reported");
    let refused = ["1|local0|notice|rampart|refused|[rampart@32473 ", "destination_port=\"2526\""];
    until("the refusal", || !lines(&out, &refused).is_empty());
    assert_eq!(trouble(), "");
}

/// nfcapd on the host outside, which collects IPFIX.
fn nfcapd(bed: &Bed) -> Background {
    let folder = bed.folder.path().join("nfcapd");
    std::fs::create_dir(&folder).unwrap();
    let (work, pid) = (folder.display().to_string(), pid_file(bed).display().to_string());
    let program = Background::start(bed.host("out"), "nfcapd", &["-w", &work, "-p", "4739", "-P", &pid]);
    until("nfcapd listens", || bed.host("out").run("ss", &["-Hlnu"]).contains(":4739 "));
    program
}

fn pid_file(bed: &Bed) -> PathBuf {
    bed.folder.path().join("nfcapd.pid")
}

/// What nfcapd has collected, which it writes when it ends, and nfdump reads.
fn collected(bed: &Bed) -> Vec<serde_json::Value> {
    let pid = std::fs::read_to_string(pid_file(bed)).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let folder = bed.folder.path().join("nfcapd");
    let is_whole = || {
        let mut files = std::fs::read_dir(&folder).unwrap().flatten();
        files.any(|file| file.file_name().to_str().is_some_and(|name| name.starts_with("nfcapd.2")))
    };
    until("nfcapd has written its file", || is_whole() && !pid_file(bed).exists());
    // It begins another file every five minutes of the clock, and one without a flow is not JSON: all are read as one.
    let text = testkit::namespace::run("nfdump", &["-R", &folder.display().to_string(), "-o", "json"]);
    serde_json::from_str(&text).unwrap()
}

/// Answers of the daemon that say the same, one after the other, when nothing is on its way.
const ANSWERS_ALIKE: usize = 20;

/// A collector of the distribution reads the records: both directions in one, translated addresses, IPv4 and IPv6, and in several records a flow
/// that goes on for longer than the active timeout.
#[test]
fn needs_root_nfdump_reads_the_flows_that_ended_and_those_that_go_on() {
    let bed = Bed::new();
    bed.serve(8080);
    bed.ip("in", &["address", "add", "2001:db8:1::2/64", "dev", "x", "nodad"]);
    bed.ip("in", &["route", "add", "default", "via", "2001:db8:1::1"]);
    bed.ip("fw", &["address", "add", "2001:db8:1::1/64", "dev", "e1", "nodad"]);
    let collector = nfcapd(&bed);
    let masquerade = "[[nat]]\nname = 'n'\nfrom = 'inside'\nto = 'outside'\nmasquerade = true\n";
    let ping = "[[rules]]\nname = 'ping'\nfrom = 'inside'\nto = 'self'\nservice = 'ping'\naction = 'allow'\n";
    let log = "[log.ipfix]\nto = ['udp://10.81.2.2:4739', 'tcp://10.81.2.2:4739']\ndomain = 7\nactive_timeout = '1s'\n";
    let quiet = WEB.replace("log = 'both'\n", "");
    let policy = bed.policy("p.toml", &format!("{log}{COLLECTING}{quiet}{ping}{masquerade}"));
    let firewall = bed.up(&policy, "auto");
    bed.expect(8080, Outcome::Answered, "IPv4");
    bed.host("in").run("ping", &["-6", "-c", "10", "-i", "0.3", "2001:db8:1::1"]);
    let exports = || bed.json(&["status"])["exports"].as_array().unwrap().clone();
    let sent = || exports().first().and_then(|it| it["sent"].as_u64());
    until("records of flows that go on are sent", || sent() >= Some(3));
    let before = sent().map(|sent| sent + 2);
    assert_eq!(bed.json(&["flows", "dport=8080", "--kill"])["killed"], 1);
    assert_eq!(bed.json(&["flows", "proto=icmpv6", "--kill"])["killed"], 1);
    // One of a flow that went on may have been on its way, so two more need not be the last two.
    until("the last records are sent", || {
        let now = sent();
        now >= before && (0..ANSWERS_ALIKE).all(|_| sent() == now)
    });
    let events = bed.json(&["log"]);
    assert_eq!(events["events"], serde_json::json!([]), "no rule has `log`: {events}");
    drop(firewall);
    let records = collected(&bed);
    drop(collector);
    let all = |key: &str, value: serde_json::Value| -> Vec<&serde_json::Value> {
        records.iter().filter(|record| record[key] == value).collect()
    };
    let sum = |of: &[&serde_json::Value], key: &str| of.iter().filter_map(|it| it[key].as_u64()).sum::<u64>();
    let of_web = all("dst_port", 8080.into());
    let web = of_web.first().unwrap_or_else(|| panic!("none to port 8080: {records:#?}"));
    for (key, value) in [
        ("src4_addr", serde_json::json!("10.81.1.2")),
        ("dst4_addr", serde_json::json!("10.81.2.2")),
        ("src4_xlt_ip", serde_json::json!("10.81.2.1")),
        ("proto", serde_json::json!(6)),
    ] {
        assert_eq!(web[key], value, "{key}: {web:#}");
    }
    for key in ["in_packets", "out_packets", "in_bytes", "out_bytes"] {
        assert!(sum(&of_web, key) >= 3, "{key}: {of_web:#?}");
    }
    let pings = all("proto", 58.into());
    assert!(pings.len() >= 3, "{pings:#?}");
    assert!(pings.iter().all(|ping| ping["src6_addr"] == "2001:db8:1::2"), "{pings:#?}");
    assert_eq!(sum(&pings, "in_packets"), 10, "{pings:#?}");
}

/// The process that exports is nobody, has no capability, and its system calls are filtered.
fn expect_no_rights(firewall: &crate::bed::Firewall) {
    let daemon = firewall.child.id();
    let children = std::fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
    let exporter = children.split_whitespace().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.contains("export-events"))
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", exporter.unwrap())).unwrap();
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for key in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(value(key), ["0000000000000000"], "{key} {status}");
    }
    assert!(!value("Uid:").contains(&"0".to_owned()) && !value("Gid:").contains(&"0".to_owned()), "{status}");
    assert!(value("Groups:").is_empty(), "{status}");
    assert_eq!((value("NoNewPrivs:"), value("Seccomp:")), (vec!["1".to_owned()], vec!["2".to_owned()]));
}

/// A policy without a rule for the firewall's own packets, a collector that is not there, and the end of the process: each is a trouble.
#[test]
fn needs_root_what_reaches_no_collector_is_a_trouble() {
    let bed = Bed::new();
    let log = "[log]\nsyslog = ['udp://10.81.2.2:514', 'tcp://10.81.2.2:601']\n";
    let cut = bed.policy("cut.toml", &format!("{log}{DENY}"));
    let (_, found) = bed.rampart(&["check", &cut]);
    assert!(found.contains("cut: ") && found.contains("no rule lets it out"), "{found}");
    let mut firewall = bed.up(&cut, "auto");
    let troubles = || {
        let status = bed.json(&["status"]);
        let found = status["troubles"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned());
        found.collect::<Vec<_>>()
    };
    let is_shown = |form: &str, why: &str| {
        bed.call(2525);
        troubles().iter().any(|it| it.starts_with(form) && it.contains(why))
    };
    until("its own policy", || {
        is_shown("syslog udp://10.81.2.2:514: ", "write a rule that allows it from `self`")
    });
    let nobody = bed.policy("nobody.toml", &format!("{log}{COLLECTING}{DENY}"));
    bed.json(&["apply", &nobody]);
    let away = "start the collector's program";
    until("nobody listens", || is_shown("syslog tcp://10.81.2.2:601: ", away));
    until("nobody takes datagrams", || is_shown("syslog udp://10.81.2.2:514: ", away));
    // A collector that comes late gets what waited.
    let (_rsyslog, out) = rsyslog(&bed, PLAIN, &[514, 601]);
    until("what waited", || !lines(&out, &["|refused|", "destination_port=\"2525\""]).is_empty());
    until("all is well", || {
        bed.call(2525);
        troubles().iter().all(|it| !it.starts_with("syslog"))
    });
    let daemon = firewall.child.id();
    let children = std::fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
    let exporter = children.split_whitespace().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.contains("export-events"))
    });
    let pid = nix::unistd::Pid::from_raw(exporter.unwrap().parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    firewall.until("nothing is sent to collectors, because the process that does it has ended");
    until("nothing is left of it", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    bed.expect(2525, Outcome::Silence, "the firewall goes on");
}
