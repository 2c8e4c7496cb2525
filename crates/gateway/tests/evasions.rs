//! Requests that every reader takes for one, and that mean another thing to some servers than to the rules: another method, path, host or client. Each form
//! was published as a way past a proxy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use gateway::config::{Gateway, Limits, Mode, Rule, Server};
use gateway::exchange::{Outcome, pass_on};
use gateway::hello::{self, Hello};
use gateway::http::{head, media};
use plain::rule;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// DELETE, `/private/` and one server are denied, and the rest is allowed.
fn gateway() -> Gateway {
    let rules = vec![
        Rule { methods: strings(&["DELETE"]), ..rule("methods", false) },
        Rule { paths: strings(&["/private/*", "/private"]), ..rule("private", false) },
        Rule { hosts: strings(&["192.0.2.9"]), ..rule("server", false) },
        rule("all", true),
    ];
    Gateway { rules, limits: Limits { head_fields: 20, ..Limits::default() }, ..plain::gateway() }
}

/// What becomes of a request: its head for the server without what every request gets, or the reason.
fn outcome(gateway: &Gateway, request: &str) -> String {
    match pass_on(gateway, "10.0.0.7".parse().unwrap(), request.as_bytes()) {
        Outcome::More => "more".to_owned(),
        Outcome::Refused(fault) => format!("{} {}", fault.status, fault.reason),
        Outcome::Tunnel(to, _) => format!("tunnel {to}"),
        Outcome::Sent(out, _) => String::from_utf8_lossy(&out)
            .replace("Via: 1.1 rampart-web\r\n", "")
            .trim_end()
            .replace("\r\n", "|"),
    }
}

fn asked(method: &str, host: &str, path: &str, lines: &str) -> String {
    format!("{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n")
}

#[test]
fn a_method_in_another_form_is_no_way_past_rules_about_methods() {
    let without = Gateway { rules: gateway().rules.split_off(1), ..gateway() };
    let request = |method: &str, lines: &str| asked(method, "a.test", "/x", lines);
    for (what, method, lines, expected) in [
        ("as it is", "DELETE", "", "403 rule-deny"),
        ("small letters", "delete", "", "400 method-case"),
        ("some capitals", "DeletE", "", "400 method-case"),
        ("small letters of what is allowed", "get", "", "400 method-case"),
        ("an override", "POST", "X-HTTP-Method-Override: DELETE\r\n", "403 method-override"),
        ("another", "POST", "X-HTTP-Method: delete\r\n", "403 method-override"),
        ("a third", "POST", "x-method-override: DELETE\r\n", "403 method-override"),
        ("with underscores", "POST", "X_HTTP_Method_Override: DELETE\r\n", "403 method-override"),
        (
            "the same method",
            "POST",
            "X-HTTP-Method: POST\r\n",
            "POST /x HTTP/1.1|Host: a.test|X-HTTP-Method: POST",
        ),
    ] {
        assert_eq!(outcome(&gateway(), &request(method, lines)), expected, "{what}");
    }
    let lines = "X-HTTP-Method: DELETE\r\n";
    let sent = "POST /x HTTP/1.1|Host: a.test|X-HTTP-Method: DELETE";
    assert_eq!(outcome(&without, &request("POST", lines)), sent, "where no rule is about methods");
}

#[test]
fn a_path_that_some_servers_read_differently_is_no_way_past_rules_about_paths() {
    let request = |path: &str, lines: &str| asked("GET", "a.test", path, lines);
    for (path, lines, expected) in [
        ("/private/x", "", "403 rule-deny"),
        ("/private;a/x", "", "403 path-parameters"),
        ("/x/../private;a", "", "403 path-parameters"),
        ("/;a/private/x", "", "403 path-parameters"),
        ("/;/private", "", "403 path-parameters"),
        ("/private;", "", "403 path-parameters"),
        ("/private%3ba=b/x", "", "403 path-parameters"),
        ("/x;a=b/y", "", "GET /x;a=b/y HTTP/1.1|Host: a.test"),
        ("/%c0%ae%c0%ae/private", "", "400 overlong"),
        ("/a%c0%af..%c0%afprivate", "", "400 overlong"),
        ("/a%c1%9cprivate", "", "400 overlong"),
        ("/%e0%80%afprivate", "", "400 overlong"),
        ("/%F0%80%80%AFprivate", "", "400 overlong"),
        ("/caf%c3%a9", "", "GET /caf%C3%A9 HTTP/1.1|Host: a.test"),
        ("/%c0", "", "GET /%C0 HTTP/1.1|Host: a.test"),
        ("/x", "X-Original-URL: /private/x\r\n", "403 path-override"),
        ("/x", "X-Rewrite-URL: /private/x\r\n", "403 path-override"),
        ("/x", "x_original_url: /private/x\r\n", "403 path-override"),
    ] {
        assert_eq!(outcome(&gateway(), &request(path, lines)), expected, "{path} {lines}");
    }
    let without = Gateway { rules: vec![rule("all", true)], ..gateway() };
    let sent = "GET /private;a/x HTTP/1.1|Host: a.test|X-Original-URL: /y";
    let found = outcome(&without, &request("/private;a/x", "X-Original-URL: /y\r\n"));
    assert_eq!(found, sent, "where no rule is about paths");
}

#[test]
fn a_server_in_another_notation_is_no_way_past_rules_about_hosts() {
    for (host, expected) in [
        ("192.0.2.9", "403 rule-deny"),
        ("[::ffff:192.0.2.9]", "403 rule-deny"),
        ("[::FFFF:c000:209]", "403 rule-deny"),
        ("[::ffff:192.0.2.10]", "GET / HTTP/1.1|Host: 192.0.2.10"),
        ("[2001:db8::9]", "GET / HTTP/1.1|Host: [2001:db8::9]"),
    ] {
        assert_eq!(outcome(&gateway(), &asked("GET", host, "/", "")), expected, "{host}");
    }
}

#[test]
fn fields_that_servers_believe_and_no_client_may_say_do_not_go_on() {
    let server = Server { host: "a.test".to_owned(), to: "10.0.2.5:80".parse().unwrap() };
    let published = Gateway {
        mode: Mode::Publish(vec![server]),
        listen: "192.0.2.1:80".parse().unwrap(),
        rules: vec![rule("all", true)],
        forwarded_for: true,
        ..gateway()
    };
    let sent = "GET / HTTP/1.1|Host: a.test|X-Forwarded-For: 10.0.0.7";
    for (lines, expected) in [
        ("X-Forwarded-For: 1.2.3.4\r\n", sent),
        ("X_Forwarded_For: 1.2.3.4\r\n", sent),
        ("X_Real-IP: 1.2.3.4\r\n", sent),
        ("X-Forwarded-Port: 443\r\nX-Forwarded-Server: x\r\nX-Forwarded-Prefix: /x\r\n", sent),
        ("X-Client-IP: 1.2.3.4\r\nX-Cluster-Client-IP: 1.2.3.4\r\nX-Originating-IP: 1.2.3.4\r\n", sent),
        // A program that is started with fields as variables takes this one for its own proxy (CVE-2016-5385).
        ("Proxy: http://evil.test/\r\n", sent),
        ("HTTP2-Settings: AAMAAABk\r\n", sent),
        ("Content.Length: 5\r\n", "400 disguised-field"),
        ("Transfer!Encoding: chunked\r\n", "400 disguised-field"),
        ("Transfer_Encoding: chunked\r\n", "400 disguised-field"),
        (
            "Range: bytes=0-1,3-4\r\n",
            "GET / HTTP/1.1|Host: a.test|Range: bytes=0-1,3-4|X-Forwarded-For: 10.0.0.7",
        ),
        // Each range is copied by some servers (CVE-2011-3192).
        (&format!("Range: bytes={}1-2\r\n", "0-,".repeat(64)), "400 ranges"),
        ("Range: bytes=0-\r\nRange: bytes=1-\r\n", "400 ranges"),
    ] {
        assert_eq!(
            outcome(&published, &format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n")),
            expected,
            "{lines}"
        );
    }
}

#[test]
fn answers_of_other_types_than_a_rule_has_do_not_pass() {
    let images = ["image/*", "text/html", "!image/svg+xml"].as_slice();
    let no_programs = ["!application/x-msdownload", "!application/octet-stream"].as_slice();
    let of = |kind: &str| format!("Content-Type: {kind}\r\n");
    for (words, lines, expected) in [
        (images, of("text/html"), None),
        (images, of("TEXT/HTML ; charset=utf-8"), None),
        (images, of("image/png"), None),
        (images, of("image/svg+xml"), Some("content-type")),
        (images, of("imagex/png"), Some("content-type")),
        (images, of("text/html5"), Some("content-type")),
        (images, of("application/zip"), Some("content-type")),
        (images, String::new(), Some("no-content-type")),
        (images, of("text/html") + &of("application/zip"), Some("two-content-types")),
        (images, of("text/html") + &of("text/html"), Some("two-content-types")),
        (images, of("application/zip, text/html"), Some("content-type")),
        (images, of("text/html; a=b, application/zip"), Some("content-type")),
        (images, of("text/html application/zip"), Some("content-type")),
        (images, of("text"), Some("content-type")),
        (images, of(""), Some("content-type")),
        (images, of("image/"), Some("content-type")),
        (no_programs, of("application/zip"), None),
        (no_programs, of("Application/X-MSDownload"), Some("content-type")),
        (no_programs, of("application/octet-stream;x"), Some("content-type")),
        // The types of its parts stand inside.
        (no_programs, of("multipart/byteranges; boundary=x"), Some("content-type")),
        (["multipart/byteranges"].as_slice(), of("multipart/byteranges; boundary=x"), None),
        (no_programs, String::new(), Some("no-content-type")),
        ([].as_slice(), String::new(), None),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 1\r\n\r\nx");
        let (answer, _) = head::answer("GET", bytes.as_bytes(), gateway().limits.head()).unwrap().unwrap();
        let found = media::refusal(&strings(words), &answer);
        assert_eq!(found.map(|fault| fault.reason), expected, "{words:?} {lines}");
    }
    for (method, bytes) in [
        ("GET", "HTTP/1.1 304 Not Modified\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n\r\n"),
        ("GET", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let (answer, _) = head::answer(method, bytes.as_bytes(), gateway().limits.head()).unwrap().unwrap();
        assert_eq!(media::refusal(&strings(images), &answer), None, "nothing comes: {bytes}");
    }
    let only = Rule { content_types: strings(images), ..rule("types", true) };
    let typed = Gateway { rules: vec![only], ..gateway() };
    let connect = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n";
    assert_eq!(outcome(&typed, connect), "403 no-rule", "no type is seen in a tunnel");
}

#[test]
fn a_hello_in_many_pieces_is_bounded() {
    // 16,000 bytes of a handshake, each in a record of its own: 96,000 bytes that would be read again for each that comes.
    let handshake = [&[1, 0, 0x3e, 0x80][..], &[0; 16_000]].concat();
    let records: Vec<u8> = handshake.iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect();
    for (bytes, expected) in
        [(&records[..16_000], Hello::More), (&records[..17_000], Hello::Other), (&records[..], Hello::Other)]
    {
        assert_eq!(hello::read(bytes), expected, "{}", bytes.len());
    }
}
