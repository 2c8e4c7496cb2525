//! HTTP/2 at gateways of HTTP, which speak HTTP/1 alone: in the clear it is refused, by name, and never carried on unread; through a tunnel of
//! `CONNECT` it passes, because a tunnel is not looked into.

use crate::bed::{Bed, until};
use crate::gateway_clients::{counted, hash, is_up, policy};
use crate::http_gateway::{large, nginx};
use std::fs;
use testkit::namespace::{self, Background};

/// What is got goes to a file, and what became of it is printed.
const GOT: &str = "curl -sS --max-time 60 -o got -w '%{http_version} %{http_code} '";
const PROXY: &str = "-x http://10.81.1.1:3128";
const CLEAR: &str = "http://10.81.2.2:8080/large";
const TLS: &str = "https://10.81.2.2:8081/large";
/// What a client of HTTP/2 begins with; then it prints what comes back.
const PREFACE: &str =
    r#"bash -c 'exec 3<>/dev/tcp/10.81.2.2/8080; printf "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" >&3; cat <&3'"#;

/// What a client says and prints (`LARGE` is the hash of the file), and how many requests the gateway carries and refuses.
type Row = (String, &'static str, &'static str, [u64; 2]);

fn rows() -> [Row; 8] {
    [
        (format!("{GOT} {PROXY} --http2 -k {TLS} && sha256sum got"), "explicit", "2 200 LARGE", [1, 0]),
        (streams(), "explicit", "2 200 2 200 2 200 2 200 2 200 2 200 2 200 2 200 LARGE x 8", [1, 0]),
        // These ask by HTTP/1.1 and offer to go on by HTTP/2, of which the server hears nothing.
        (format!("{GOT} {PROXY} --http2 {CLEAR} && sha256sum got"), "explicit", "1.1 200 LARGE", [1, 0]),
        (format!("{GOT} --http2 {CLEAR} && sha256sum got"), "transparent", "1.1 200 LARGE", [1, 0]),
        (PREFACE.to_owned(), "transparent", "This gateway speaks HTTP/1.0 and HTTP/1.1.", [0, 1]),
        (format!("{GOT} --http2-prior-knowledge {CLEAR}"), "transparent", "000 ", [0, 1]),
        (format!("h2load -n 4 -c 2 {CLEAR}"), "transparent", "0 succeeded, 4 failed", [0, 2]),
        ("h2load -n 4 -c 2 http://10.81.1.1:3128/".to_owned(), "explicit", "0 succeeded, 4 failed", [0, 2]),
    ]
}

/// Eight files at once, as streams of one connection through one tunnel.
fn streams() -> String {
    let files: Vec<String> = (0..8).map(|number| format!("-o got{number} {TLS}")).collect();
    format!(
        "rm -f got?; curl -sS -Z --parallel-max 8 --max-time 60 -w '%{{http_version}} %{{http_code}} ' {PROXY} --http2 -k {}; \
         echo \"$(sha256sum got? | cut -d' ' -f1 | uniq -c | awk '{{ print $2, \"x\", $1 }}')\"",
        files.join(" ")
    )
}

/// nginx with HTTP/2 over TLS on the host outside, and the files of the other one.
fn nginx_with_tls(bed: &Bed) -> Background {
    let work = bed.folder.path().display();
    let own = rcgen::generate_simple_self_signed(["10.81.2.2".to_owned()]).unwrap();
    for (name, label, der) in [
        ("cert", "CERTIFICATE", own.cert.der().to_vec()),
        ("key", "PRIVATE KEY", own.signing_key.serialize_der()),
    ] {
        fs::write(bed.folder.path().join(name), der).unwrap();
        let script =
            format!("echo '-----BEGIN {label}-----'; base64 {work}/{name}; echo '-----END {label}-----'");
        fs::write(bed.folder.path().join(format!("{name}.pem")), bed.host("out").run("sh", &["-c", &script]))
            .unwrap();
    }
    let settings = format!("{work}/tls.conf");
    let text = format!(
        "daemon off; master_process off; pid {work}/tls.pid; error_log {work}/tls.log;\nevents {{}}\n\
         http {{ access_log off; client_body_temp_path {work}/tls; server {{ listen 8081 ssl http2; root {work}/www;\n\
         ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem; }} }}\n"
    );
    fs::write(&settings, text).unwrap();
    let program = Background::start(bed.host("out"), "nginx", &["-c", &settings, "-e", "/dev/null"]);
    until("nginx listens", || bed.host("out").run("ss", &["-Hlnt"]).contains(":8081 "));
    program
}

#[test]
fn needs_root_http2_passes_in_tunnels_and_is_refused_in_the_clear() {
    let bed = Bed::new();
    let _servers = [nginx(&bed), nginx_with_tls(&bed)];
    let _firewall = bed.up(&policy(&bed, "", ""), "auto");
    for gateway in ["explicit", "transparent"] {
        until("the gateway is up", || is_up(&bed, gateway));
    }
    let (large, work) = (hash(&large()), bed.folder.path().display());
    for (command, gateway, shown, [carried, refused]) in rows() {
        let counts = || ["carried", "refused", "failed"].map(|what| counted(&bed, gateway, what));
        let before = counts();
        let script = format!("cd {work} && timeout 100 sh -c \"$0\"");
        let output = bed.inside("in", || namespace::attempt("sh", &["-c", &script, &command]));
        let said = namespace::said(&output);
        let what = format!("{gateway}: {command}: {said}");
        assert!(said.contains(&shown.replace("LARGE", &large)), "{what}");
        let expected = [before[0] + carried, before[1] + refused, before[2]];
        until(&format!("{expected:?} of {what}"), || counts() == expected);
    }
    assert!(bed.rampart(&["log"]).1.contains("http-version"), "{}", bed.rampart(&["log"]).1);
}
