//! A gateway of FTP of a running firewall: curl and lftp through it to vsftpd, active and passive on either side, over IPv4 and IPv6; what rules refuse in
//! the event log; and its process killed in the middle of a transfer.

use crate::bed::{Bed, Firewall, OUTSIDE, Outcome, answer, until};
use crate::http_gateway::{curl, gateway, large, worker};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use testkit::namespace::{Background, run};

const PACKETS: &str = "[[rules]]\nname = 'to-gateway'\nfrom = 'inside'\nto = 'self'\nservice = ['tcp/2121', 'tcp/61000-61999']\naction = 'allow'\n\
    [[rules]]\nname = 'from-gateway'\nfrom = 'self'\nto = ['inside', 'outside']\nservice = ['ftp', 'tcp/1024-65535']\naction = 'allow'\n\
    [[rules]]\nname = 'active-servers'\nfrom = 'outside'\nto = 'self'\nservice = 'tcp/61000-61999'\naction = 'allow'\n";

/// Clients that know of no gateway: a rule hands their connections over, those for data too.
const TRANSPARENT: &str = "[[rules]]\nname = 'ftp'\nfrom = 'inside'\nto = 'outside'\nservice = ['ftp', 'tcp/61000-61999']\naction = 'allow'\ngateway = 'files'\n\
    [[rules]]\nname = 'from-gateway'\nfrom = 'self'\nto = ['inside', 'outside']\nservice = ['ftp', 'tcp/1024-65535']\naction = 'allow'\n\
    [[nat]]\nname = 'masquerade'\nfrom = 'inside'\nto = 'outside'\nmasquerade = true\n\
    [gateways.files]\nprotocol = 'ftp'\nmode = 'transparent'\nlisten = '[::]:2121'\n\
    [[gateways.files.rules]]\nname = 'read'\naction = 'allow'\nhosts = '10.81.2.3'\nmethods = ['RETR', 'LIST', 'NLST']\n\
    [[gateways.files.rules]]\nname = 'all'\naction = 'allow'\nhosts = ['10.81.2.2', 'fd81:2::2']\nlog = true\n";

/// A gateway for each family of addresses. One server may be read alone.
fn gateways(to_servers: &str) -> String {
    let one = |name: &str, listen: &str| {
        format!(
            "[gateways.{name}]\nprotocol = 'ftp'\nlisten = '{listen}'\nlook_up = false\nto_servers = '{to_servers}'\n\
             [[gateways.{name}.rules]]\nname = 'read'\naction = 'allow'\nhosts = '10.81.2.3'\nmethods = ['RETR', 'LIST', 'NLST']\n\
             [[gateways.{name}.rules]]\nname = 'all'\naction = 'allow'\nhosts = ['10.81.2.2', 'fd81:2::2', '10.81.1.1']\nlog = true\n"
        )
    };
    one("files", "10.81.1.1:2121") + &one("files6", "[fd81:1::1]:2121")
}

/// vsftpd on the host outside: an anonymous user who may write into `up`.
pub(crate) fn vsftpd(bed: &Bed) -> Background {
    let folder = bed.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.join("ftp");
    for made in ["ftp/up", "empty"] {
        fs::create_dir_all(folder.join(made)).unwrap();
    }
    fs::write(root.join("large"), large()).unwrap();
    run("chown", &["ftp", &root.join("up").display().to_string()]);
    let work = folder.display();
    let text = format!(
        "listen=NO\nlisten_ipv6=YES\nbackground=NO\nanonymous_enable=YES\nanon_root={work}/ftp\nsecure_chroot_dir={work}/empty\n\
         write_enable=YES\nanon_upload_enable=YES\nanon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_world_readable_only=NO\n\
         isolate=NO\nisolate_network=NO\nseccomp_sandbox=NO\nconnect_from_port_20=YES\n"
    );
    let settings = folder.join("vsftpd.conf");
    fs::write(&settings, text).unwrap();
    let program = Background::start(bed.host("out"), "vsftpd", &[&settings.display().to_string()]);
    until("vsftpd listens", || bed.host("out").run("ss", &["-Hlnt"]).contains(":21 "));
    program
}

/// Addresses of IPv6, and a second one of IPv4 outside.
fn more_addresses(bed: &Bed) {
    for (host, interface, net) in [("in", "e1", "fd81:1"), ("out", "e0", "fd81:2")] {
        for (at, dev, end) in [("fw", interface, "1"), (host, "x", "2")] {
            bed.ip(at, &["address", "add", &format!("{net}::{end}/64"), "dev", dev, "nodad"]);
        }
        bed.ip(host, &["-6", "route", "add", "default", "via", &format!("{net}::1")]);
    }
    bed.ip("out", &["address", "add", "10.81.2.3/24", "dev", "x"]);
}

/// A program on the host inside.
pub(crate) fn inside(bed: &Bed, words: &[&str]) -> Output {
    let namespace = bed.namespace("in");
    Command::new("ip").args(["netns", "exec", &namespace]).args(words).output().unwrap()
}

/// A file of a host, through the gateway at an address.
fn by(at: &str, host: &str) -> String {
    let host = host.replace('[', "%5B").replace(']', "%5D").replace(':', "%3A");
    format!("ftp://anonymous%40{host}:x@{at}:2121/")
}

/// Gets the large file and puts another, which must be the same at the other end.
fn expect_both_ways(bed: &Bed, options: &[&str], site: &str, what: &str) {
    let url = |path: &str| format!("{site}{path}");
    let output = curl(bed, &[options, &[&url("large")]].concat());
    let is_whole = output.stdout == large();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(is_whole, "{what}: {} bytes, {shown} {}", output.stdout.len(), bed.rampart(&["log"]).1);
    let output = curl(bed, &[options, &["-r", "4999990-", &url("large")]].concat());
    assert!(output.stdout == large()[4_999_990..], "{what}: {} bytes of the end", output.stdout.len());
    let (sent, arrived) = (bed.folder.path().join("ftp/large"), bed.folder.path().join("ftp/up/put"));
    let sent = sent.display().to_string();
    let output = curl(bed, &[options, &["-T", &sent, &url("up/put")]].concat());
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&arrived).is_ok_and(|it| it == large()), "{what}: it has arrived");
    let output = curl(bed, &[options, &["-Q", "DELE up/put", &url("")]].concat());
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("large") && !arrived.exists(), "{what}: {listed}");
}

#[test]
fn needs_root_a_gateway_of_ftp_carries_what_its_rules_allow() {
    let bed = Bed::new();
    more_addresses(&bed);
    let _vsftpd = vsftpd(&bed);
    let policy = |to_servers: &str| format!("{PACKETS}{}", gateways(to_servers));
    let passive = bed.policy("passive.toml", &policy("passive"));
    assert_eq!(bed.rampart(&["check", "--strict", &passive]).0, 0, "{}", bed.rampart(&["check", &passive]).1);
    let _firewall = bed.up(&passive, "auto");
    let is_up = |place: usize| bed.json(&["status"])["gateways"][place]["is_up"] == true;
    until("the gateways are up", || is_up(0) && is_up(1));
    for to_servers in ["passive", "active"] {
        if to_servers == "active" {
            bed.json(&["apply", &bed.policy("active.toml", &policy("active"))]);
        }
        for (options, at, host) in [
            (&[][..], "10.81.1.1", "10.81.2.2"),
            (&["--disable-epsv"], "10.81.1.1", "10.81.2.2"),
            (&["-P", "-"], "10.81.1.1", "10.81.2.2"),
            (&["-P", "-", "--disable-eprt"], "10.81.1.1", "[fd81:2::2]"),
            (&[], "[fd81:1::1]", "[fd81:2::2]"),
            (&["-P", "-"], "[fd81:1::1]", "10.81.2.2"),
        ] {
            let what = format!("servers {to_servers}, {options:?} at {at} to {host}");
            expect_both_ways(&bed, options, &by(at, host), &what);
        }
    }
    expect_refused(&bed);
    expect_lftp(&bed, "set ftp:proxy ftp://10.81.1.1:2121;");
    let events = bed.rampart(&["log"]).1;
    for words in [
        "files/all",
        "RETR 10.81.2.2:21 large 226, 0 bytes and 5,000,000 back",
        "STOR 10.81.2.2:21 put 226, 5,000,000 bytes and 0 back",
        "ftp-no-rule",
        "STOR 10.81.2.3:21 put 550",
        "ftp-port",
        "ftp-own-address",
        "ftp-encryption  AUTH",
        "ftp-command  SITE",
    ] {
        assert!(events.contains(words), "{words}: {events}");
    }
}

/// What curl's manual says of its exit status: 25 an upload that failed, 21 a command, 67 a login that was refused, 64 TLS that was not to be had.
fn expect_refused(bed: &Bed) {
    let sent = bed.folder.path().join("ftp/large").display().to_string();
    let at = |host: &str, path: &str| by("10.81.1.1", host) + path;
    for (words, expected) in [
        (vec!["-o", "/dev/null", &at("10.81.2.3", "large")], 0),
        (vec!["-T", &sent, &at("10.81.2.3", "up/put")], 25),
        (vec!["-Q", "DELE large", &at("10.81.2.3", "")], 21),
        (vec!["-Q", "SITE CHMOD 777 large", &at("10.81.2.2", "")], 21),
        (vec!["-o", "/dev/null", &at("10.81.2.2", "nothing")], 78),
        (vec![&at("10.81.2.9", "large")], 67),
        (vec![&at("10.81.2.2:22", "large")], 67),
        (vec![&at("www.test", "large")], 67),
        (vec!["--ssl-reqd", &at("10.81.2.2", "large")], 64),
    ] {
        let output = curl(bed, &words);
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // The firewall itself, which a rule names.
    assert!(!curl(bed, &[&at("10.81.1.1", "large")]).status.success());
    assert!(!bed.folder.path().join("ftp/up/put").exists());
}

/// A client that asks for features, and that says `user@host` by itself if it knows of a gateway.
fn expect_lftp(bed: &Bed, settings: &str) {
    for passive in ["on", "off"] {
        let copy = bed.folder.path().join(format!("copy-{passive}"));
        let script = format!(
            "{settings} set ftp:passive-mode {passive}; set net:max-retries 2; set net:timeout 60; \
             open ftp://anonymous:x@10.81.2.2; cls; get large -o {}; put -O up {} -o put; rm up/put",
            copy.display(),
            copy.display()
        );
        let output = inside(bed, &["lftp", "--norc", "-c", &script]);
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "passive {passive}: {shown} {}", bed.rampart(&["log"]).1);
        assert!(fs::read(&copy).is_ok_and(|it| it == large()), "passive {passive}: {shown}");
    }
}

#[test]
fn needs_root_a_transparent_gateway_of_ftp_takes_what_was_agreed_about_and_nothing_else() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        more_addresses(&bed);
        let _vsftpd = vsftpd(&bed);
        let policy = bed.policy("p.toml", TRANSPARENT);
        assert_eq!(
            bed.rampart(&["check", "--strict", &policy]).0,
            0,
            "{}",
            bed.rampart(&["check", &policy]).1
        );
        let mut firewall = bed.up(&policy, hook);
        until("the gateway is up", || gateway(&bed)["is_up"] == true);
        for (options, site) in [
            (&[][..], "ftp://10.81.2.2/"),
            // The address that the server's reply has is the one that curl connects to.
            (&["--disable-epsv", "--no-ftp-skip-pasv-ip"], "ftp://10.81.2.2/"),
            (&["-P", "-"], "ftp://10.81.2.2/"),
            (&[], "ftp://[fd81:2::2]/"),
            (&["-P", "-"], "ftp://[fd81:2::2]/"),
        ] {
            expect_both_ways(&bed, options, site, &format!("{hook}, {options:?} {site}"));
        }
        expect_lftp(&bed, "");
        let sent = bed.folder.path().join("ftp/large").display().to_string();
        for (words, expected) in [
            (vec!["-o", "/dev/null", "ftp://10.81.2.3/large"], 0),
            (vec!["-T", &sent, "ftp://10.81.2.3/up/put"], 25),
        ] {
            assert_eq!(curl(&bed, &words).status.code(), Some(expected), "{hook} {words:?}");
        }
        // A data connection that nobody has agreed about, though somebody listens there.
        bed.serve(61_500);
        bed.expect(61_500, Outcome::Refused, "nobody expects it");
        bed.expect(2525, Outcome::Silence, "what no rule allows");
        until("it is recorded", || bed.rampart(&["log"]).1.contains("ftp-not-expected"));
        expect_death_in_the_middle(&bed, &mut firewall);
    }
}

/// Kills the gateway's process while it carries a file: the client learns that it has not all, and the next one is served.
fn expect_death_in_the_middle(bed: &Bed, firewall: &mut Firewall) {
    let connect = |port: u16| {
        let stream = bed.inside("in", || TcpStream::connect((OUTSIDE, port)).unwrap());
        stream.set_read_timeout(Some(answer())).unwrap();
        stream
    };
    let control = connect(21);
    let mut replies = BufReader::new(&control).lines();
    let mut ask = |line: &str| {
        (&control).write_all(line.as_bytes()).unwrap();
        replies.next().unwrap().unwrap()
    };
    assert!(ask("").starts_with("220 "));
    assert!(ask("USER anonymous\r\n").starts_with("331 "));
    assert!(ask("PASS x\r\n").starts_with("230 "));
    let passive = ask("EPSV\r\n");
    let port = passive.split("|||").nth(1).and_then(|rest| rest.split('|').next()).unwrap();
    let mut data = connect(port.parse().unwrap());
    assert!(ask("RETR large\r\n").starts_with("150 "));
    data.read_exact(&mut [0]).unwrap();
    let before = worker(firewall.child.id()).unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(before).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    firewall.until("the gateway `files` has ended and is started again");
    let end = data.read_to_end(&mut Vec::new());
    assert!(
        end.is_err_and(|why| why.kind() == std::io::ErrorKind::ConnectionReset),
        "no file ends like this"
    );
    let rest: Vec<String> = replies.map_while(Result::ok).collect();
    assert!(rest.is_empty(), "nobody says that this was all: {rest:?}");
    until("another process", || worker(firewall.child.id()).is_some_and(|pid| pid != before));
    until("it serves", || curl(bed, &["-o", "/dev/null", "ftp://10.81.2.2/large"]).status.success());
}
