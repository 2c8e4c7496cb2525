//! What of HTTP is carried on and what is refused: bytes in, and what the server would get or why nothing goes to it. Most of these forms were
//! published as ways to hide a second request, or another path, from the one of two readers that decides.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;

use gateway::config::{Gateway, Limits, Mode, Rule, Server};
use gateway::exchange::{Outcome, pass_back, pass_on, pass_on_at};
use plain::rule;
use proptest::prelude::*;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `/private/` and DELETE are denied, of the rest `a.test`, names below `b.test`, addresses and what a list has are allowed, bodies up to 100 bytes.
fn gateway() -> Gateway {
    let private = Rule { paths: strings(&["/private/*", "/private"]), ..rule("private", false) };
    let methods = Rule { methods: strings(&["DELETE"]), ..rule("methods", false) };
    let hosts = strings(&["a.test", "*.b.test", "192.0.2.1", "2001:db8::1"]);
    let most = Rule { hosts, largest_request: Some(100), ..rule("most", true) };
    Gateway {
        rules: vec![private, methods, most, Rule { host_sets: vec![1], ..rule("listed", true) }],
        host_sets: vec![plain::hosts(&["other.test"]), plain::hosts(&["listed.test", "192.0.2.9"])],
        ports: vec![80, 8080],
        limits: Limits { head_bytes: 2000, head_fields: 20, ..Limits::default() },
        ..plain::gateway()
    }
}

fn published() -> Gateway {
    let server = |host: &str| Server { host: host.to_owned(), to: "10.0.2.5:80".parse().unwrap() };
    Gateway {
        mode: Mode::Publish(vec![server("www.test")]),
        listen: "192.0.2.1:80".parse().unwrap(),
        rules: vec![rule("all", true)],
        forwarded_for: true,
        ..gateway()
    }
}

/// What becomes of bytes, as text: the bytes for the server without what every request gets, or the reason.
fn outcome(gateway: &Gateway, bytes: &[u8]) -> String {
    let at = if gateway.mode == Mode::Transparent { "192.0.2.1:80".parse().unwrap() } else { gateway.listen };
    match pass_on_at(gateway, "10.0.0.7".parse().unwrap(), at, bytes) {
        Outcome::More => "more".to_owned(),
        Outcome::Refused(fault) => format!("{} {}", fault.status, fault.reason),
        Outcome::Tunnel(to, _) => format!("tunnel {to}"),
        Outcome::Sent(out, read) => {
            let text = String::from_utf8_lossy(&out).replace("Via: 1.1 rampart-web\r\n", "");
            let rest = if read < bytes.len() { format!(" +{}", bytes.len() - read) } else { String::new() };
            format!("{}{rest}", text.replace("\r\n", "|"))
        }
    }
}

/// A request to `a.test` with more lines of its head, and a body.
fn post(lines: &str, body: &str) -> String {
    format!("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n{body}")
}

fn get(path: &str) -> String {
    format!("GET http://a.test{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

fn check(gateway: &Gateway, rows: &[(&str, String, &str)]) {
    for (what, bytes, expected) in rows {
        assert_eq!(outcome(gateway, bytes.as_bytes()), *expected, "{what}: {bytes:?}");
    }
}

/// The same, and what clients send who know of no proxy becomes what the same request of others does.
fn check_both(gateway: &Gateway, rows: &[(&str, String, &str)]) {
    check(gateway, rows);
    let transparent = Gateway { mode: Mode::Transparent, ..gateway.clone() };
    let is_both = |bytes: &str, expected: &str| {
        bytes.contains("Host: a.test\r\n") && !expected.ends_with("not-to-a-proxy")
    };
    // Rows of hosts that are missing or disagree are about the target as well, and one way to ask is for proxies alone.
    let unaware = rows.iter().filter(|(_, bytes, expected)| is_both(bytes, expected));
    let unaware =
        unaware.map(|(what, bytes, expected)| (*what, bytes.replace(" http://a.test/", " /"), *expected));
    check(&transparent, &unaware.collect::<Vec<_>>());
}

const SENT: &str = "GET / HTTP/1.1|Host: a.test||";

#[test]
fn lengths_that_two_readers_see_differently_are_refused() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    check_both(
        &gateway(),
        &[
            (
                "a length",
                post("Content-Length: 3\r\n", "abc"),
                "POST / HTTP/1.1|Host: a.test|Content-Length: 3||abc",
            ),
            (
                "more than the length",
                post("Content-Length: 3\r\n", "abcGET"),
                "POST / HTTP/1.1|Host: a.test|Content-Length: 3||abc +3",
            ),
            ("less than the length", post("Content-Length: 3\r\n", "ab"), "more"),
            (
                "chunks",
                post(chunked, "3\r\nabc\r\n0\r\n\r\n"),
                "POST / HTTP/1.1|Host: a.test|Transfer-Encoding: chunked||3|abc|0||",
            ),
            ("chunks without an end", post(chunked, "3\r\nabc\r\n"), "more"),
            ("CL.TE", post(&format!("Content-Length: 4\r\n{chunked}"), "0\r\n\r\n"), "400 length-and-chunks"),
            ("TE.CL", post(&format!("{chunked}Content-Length: 4\r\n"), "0\r\n\r\n"), "400 length-and-chunks"),
            ("two lengths", post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), "400 two-lengths"),
            (
                "the same length twice",
                post("Content-Length: 3\r\ncontent-length: 3\r\n", "abc"),
                "400 two-lengths",
            ),
            ("two lengths in one", post("Content-Length: 3, 3\r\n", "abc"), "400 length"),
            ("a sign", post("Content-Length: +3\r\n", "abc"), "400 length"),
            ("a negative length", post("Content-Length: -1\r\n", "abc"), "400 length"),
            ("no number", post("Content-Length: 0x3\r\n", "abc"), "400 length"),
            ("an empty length", post("Content-Length:\r\n", ""), "400 length"),
            ("a length of 2^64", post("Content-Length: 18446744073709551616\r\n", ""), "400 length"),
            ("more than the rule allows", post("Content-Length: 101\r\n", ""), "413 request-too-large"),
            ("two codings", post(&format!("{chunked}{chunked}"), ""), "400 two-transfer-encodings"),
            ("another coding", post("Transfer-Encoding: gzip, chunked\r\n", ""), "501 transfer-encoding"),
            (
                "chunked and more",
                post("Transfer-Encoding: chunked, identity\r\n", ""),
                "501 transfer-encoding",
            ),
            (
                "a coding that looks like it",
                post("Transfer-Encoding: xchunked\r\n", ""),
                "501 transfer-encoding",
            ),
            ("a coding in quotes", post("Transfer-Encoding: \"chunked\"\r\n", ""), "501 transfer-encoding"),
            ("a vertical tab", post("Transfer-Encoding: \x0bchunked\r\n", ""), "400 field-value"),
            ("a blank before the colon", post("Transfer-Encoding : chunked\r\n", ""), "400 field-name"),
            ("a tab before the colon", post("Content-Length\t: 3\r\n", "abc"), "400 field-name"),
            ("a field that a variable makes", post("Content_Length: 3\r\n", "abc"), "400 disguised-field"),
            ("a folded field", post("X: a\r\n b\r\n", ""), "400 folded-field"),
            ("a folded coding", post("Transfer-Encoding:\r\n chunked\r\n", ""), "400 folded-field"),
            ("a bare LF", post("X: a\nContent-Length: 3\r\n", "abc"), "400 bare-lf"),
            ("a bare LF before the end", post("X: a\n", ""), "400 bare-lf"),
            ("a bare CR", post("X: a\rContent-Length: 3\r\n", "abc"), "400 bare-cr"),
            ("a NUL", post("X: a\0\r\n", ""), "400 nul"),
            ("a bare LF before all has come", "GET http://a.test/ HTTP/1.1\nHost".into(), "400 bare-lf"),
            (
                "1.0 with chunks",
                "POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
                "400 transfer-encoding-of-1.0",
            ),
            (
                "an expectation",
                post("Expect: 100-continue\r\nContent-Length: 1\r\n", "a"),
                "POST / HTTP/1.1|Host: a.test|Content-Length: 1||a",
            ),
            ("another expectation", post("Expect: x\r\n", ""), "417 expectation"),
        ],
    );
}

#[test]
fn chunks_have_one_form() {
    let chunks = |body: &str| post("Transfer-Encoding: chunked\r\n", body);
    let sent = "POST / HTTP/1.1|Host: a.test|Transfer-Encoding: chunked||5|abcde|0||";
    check_both(
        &gateway(),
        &[
            ("two chunks become one", chunks("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), sent),
            ("zeros before", chunks("00005\r\nabcde\r\n0000\r\n\r\n"), sent),
            ("an extension", chunks("5;x=y\r\nabcde\r\n0\r\n\r\n"), "400 chunk-extension"),
            ("an extension that a LF ends", chunks("5;\nabcde\r\n0\r\n\r\n"), "400 chunk-extension"),
            ("a blank after the size", chunks("5 \r\nabcde\r\n0\r\n\r\n"), "400 chunk-extension"),
            ("a size that a LF ends", chunks("5\nabcde\r\n0\r\n\r\n"), "400 bare-lf"),
            ("a size in another form", chunks("0x5\r\nabcde\r\n0\r\n\r\n"), "400 chunk-size"),
            ("a sign", chunks("+5\r\nabcde\r\n0\r\n\r\n"), "400 chunk-size"),
            ("no size", chunks("\r\nabcde\r\n0\r\n\r\n"), "400 chunk-size"),
            ("a size of 2^64", chunks("10000000000000000\r\n"), "400 chunk-size"),
            ("a size of 2^64 + 5", chunks("10000000000000005\r\nabcde\r\n0\r\n\r\n"), "400 chunk-size"),
            ("more than the size", chunks("5\r\nabcdef\r\n0\r\n\r\n"), "400 chunk"),
            ("data that a LF ends", chunks("5\r\nabcde\n0\r\n\r\n"), "400 chunk"),
            ("fields after the last chunk", chunks("5\r\nabcde\r\n0\r\nX: y\r\n\r\n"), sent),
            ("a field after it that is none", chunks("5\r\nabcde\r\n0\r\nX y\r\n\r\n"), "400 trailers"),
            ("a bare LF after it", chunks("5\r\nabcde\r\n0\r\nX: y\n\r\n"), "400 bare-lf"),
            ("fields without end", chunks(&format!("0\r\n{}", "X: y\r\n".repeat(2000))), "400 trailers"),
            ("a second request after it", chunks("5\r\nabcde\r\n0\r\n\r\nGET"), &format!("{sent} +3")),
        ],
    );
}

#[test]
fn heads_are_bounded_and_have_one_form() {
    let with = |lines: &str| format!("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
    check_both(
        &gateway(),
        &[
            ("the least", with(""), SENT),
            ("an empty line before", format!("\r\n{}", with("")), "400 empty-line"),
            ("a blank before", format!(" {}", with("")), "400 empty-line"),
            ("too many fields", with(&"X: y\r\n".repeat(20)), "431 too-many-fields"),
            (
                "as many as may be",
                with(&"X: y\r\n".repeat(19)),
                &format!("GET / HTTP/1.1|Host: a.test|{}|", "X: y|".repeat(19)),
            ),
            ("a field of a megabyte", with(&format!("X: {}\r\n", "y".repeat(1 << 20))), "431 head-too-large"),
            ("a target of a megabyte", get(&format!("/{}", "y".repeat(1 << 20))), "431 head-too-large"),
            ("no name", with(": y\r\n"), "400 field-name"),
            ("no colon", with("X\r\n"), "400 field-name"),
            (
                "a second blank",
                "GET  http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
                "400 start-line",
            ),
            (
                "a blank at the end of the line",
                "GET http://a.test/ HTTP/1.1 \r\nHost: a.test\r\n\r\n".into(),
                "400 start-line",
            ),
            ("a tab", "GET\thttp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(), "400 start-line"),
            ("HTTP/2's beginning", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), "505 version"),
            ("HTTP/0.9", "GET http://a.test/\r\n\r\n".into(), "400 start-line"),
            (
                "a version of its own",
                "GET http://a.test/ HTTP/1.2\r\nHost: a.test\r\n\r\n".into(),
                "505 version",
            ),
            ("no host", "GET http://a.test/ HTTP/1.1\r\n\r\n".into(), "400 no-host"),
            (
                "no host of 1.0",
                "GET http://a.test/ HTTP/1.0\r\n\r\n".into(),
                "GET / HTTP/1.1|Host: a.test|Via: 1.0 rampart-web||",
            ),
            ("two hosts", with("Host: a.test\r\n"), "400 two-hosts"),
            (
                "hosts that disagree",
                "GET http://a.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n".into(),
                "400 target-and-host",
            ),
            (
                "ports that disagree",
                "GET http://a.test/ HTTP/1.1\r\nHost: a.test:8080\r\n\r\n".into(),
                "400 target-and-host",
            ),
            ("the same port", "GET http://a.test:80/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(), SENT),
            ("capitals and a dot", "GET http://A.Test./ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(), SENT),
            ("another form", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".into(), "400 not-to-a-proxy"),
            ("another scheme", "GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(), "400 scheme"),
            (
                "https without a tunnel",
                "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
                "400 scheme",
            ),
        ],
    );
}

#[test]
fn what_ends_at_each_hop_ends_here() {
    let with = |lines: &str| format!("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
    check_both(
        &gateway(),
        &[
            ("a field", with("X: y\r\n"), "GET / HTTP/1.1|Host: a.test|X: y||"),
            (
                "hop by hop",
                with(
                    "TE: trailers\r\nUpgrade: h2c\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\nProxy-Connection: keep-alive\r\n",
                ),
                SENT,
            ),
            (
                "nominated",
                with("Connection: x, close\r\nX: y\r\nZ: y\r\n"),
                "GET / HTTP/1.1|Host: a.test|Z: y||",
            ),
            ("nominated in capitals", with("Connection: X\r\nx: y\r\n"), SENT),
            ("a nominated host", with("Connection: host\r\n"), "400 nominated-field"),
            ("a nominated length", with("Connection: Content-Length\r\n"), "400 nominated-field"),
            ("a nominated cookie", with("Connection: close, Cookie\r\n"), "400 nominated-field"),
            ("no token", with("Connection: a b\r\n"), "400 connection"),
            (
                "who the client says it is",
                with("X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n"),
                SENT,
            ),
        ],
    );
    check(
        &published(),
        &[
            (
                "the client as it is",
                "GET /a HTTP/1.1\r\nHost: www.test\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n".into(),
                "GET /a HTTP/1.1|Host: www.test|X-Forwarded-For: 10.0.0.7||",
            ),
            (
                "a server that is not published",
                "GET /a HTTP/1.1\r\nHost: x.test\r\n\r\n".into(),
                "421 not-published",
            ),
            ("by its address", "GET /a HTTP/1.1\r\nHost: 10.0.2.5\r\n\r\n".into(), "421 not-published"),
            ("another port", "GET /a HTTP/1.1\r\nHost: www.test:81\r\n\r\n".into(), "421 not-published"),
            ("a tunnel", "CONNECT www.test:443 HTTP/1.1\r\nHost: www.test:443\r\n\r\n".into(), "405 connect"),
            (
                "everything",
                "OPTIONS * HTTP/1.1\r\nHost: www.test\r\n\r\n".into(),
                "OPTIONS * HTTP/1.1|Host: www.test|X-Forwarded-For: 10.0.0.7||",
            ),
        ],
    );
}

#[test]
fn rules_are_asked_about_the_path_that_the_server_gets() {
    let sent = |path: &str| format!("GET {path} HTTP/1.1|Host: a.test||");
    let rows: &[(&str, &str)] = &[
        ("/a/b?c=../d", "/a/b?c=../d"),
        ("/a/./b/../c", "/a/c"),
        ("/a/%2e%2E/c", "/c"),
        ("/a/..", "/"),
        ("/%61%7e%20", "/a~%20"),
        ("/a//b", "/a//b"),
        ("?a", "/?a"),
        ("", "/"),
    ];
    for (path, expected) in rows {
        assert_eq!(outcome(&gateway(), get(path).as_bytes()), sent(expected), "{path}");
    }
    let refused: &[(&str, &str)] = &[
        ("/private/x", "403 rule-deny"),
        ("/private", "403 rule-deny"),
        ("/a/../private/x", "403 rule-deny"),
        ("/a/%2e%2e/private/x", "403 rule-deny"),
        ("/%70rivate/x", "403 rule-deny"),
        ("//private/x", "403 rule-deny"),
        ("/./private//x", "400 dots-and-empty-segments"),
        ("/..", "400 above-root"),
        ("/../private/x", "400 above-root"),
        ("/a/../../private", "400 above-root"),
        ("/a/..%2fprivate/x", "400 escaped-slash"),
        ("/private%2fx", "400 escaped-slash"),
        ("/a%5c..%5cprivate", "400 escaped-slash"),
        ("/a/..\\private", "400 target"),
        ("/%252e%252e/private", "400 escaped-twice"),
        ("/a/..;x/private", "400 hidden-dots"),
        ("/a//../private", "400 dots-and-empty-segments"),
        ("/%00", "400 escape"),
        ("/%0d%0aX:", "400 escape"),
        ("/%zz", "400 escape"),
        ("/%2", "400 escape"),
        ("/a#b", "400 target"),
        ("/\u{e9}", "400 target"),
    ];
    for (path, expected) in refused {
        assert_eq!(outcome(&gateway(), get(path).as_bytes()), *expected, "{path}");
    }
}

#[test]
fn hosts_and_ports_have_one_form_and_need_a_rule() {
    let ask = |host: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let sent = |host: &str| format!("GET / HTTP/1.1|Host: {host}||");
    for (host, expected) in [
        ("a.test", sent("a.test")),
        ("a.test:8080", sent("a.test:8080")),
        ("x.b.test", sent("x.b.test")),
        ("192.0.2.1", sent("192.0.2.1")),
        ("[2001:db8::1]", sent("[2001:db8::1]")),
        ("listed.test", sent("listed.test")),
        ("x.y.listed.test", sent("x.y.listed.test")),
        ("192.0.2.9", sent("192.0.2.9")),
        ("[2001:DB8:0::1]:80", sent("[2001:db8::1]")),
    ] {
        assert_eq!(outcome(&gateway(), ask(host).as_bytes()), expected, "{host}");
    }
    for (host, expected) in [
        ("b.test", "403 no-rule"),
        ("xb.test", "403 no-rule"),
        ("a.test.evil", "403 no-rule"),
        ("notlisted.test", "403 no-rule"),
        ("other.test", "403 no-rule"),
        ("192.0.2.2", "403 no-rule"),
        ("a.test:22", "403 port"),
        ("a.test:0", "400 host"),
        ("a.test:080", "400 host"),
        ("a.test:65616", "400 host"),
        ("a.test:", "400 host"),
        ("", "400 host"),
        ("x@a.test", "400 host"),
        ("a.test@evil.test", "400 host"),
        ("a..test", "400 host"),
        ("127.1", "400 host"),
        ("2130706433", "400 host"),
        ("0x7f000001", "400 host"),
        ("0177.0.0.1", "400 host"),
        ("127.0.0.0x1", "400 host"),
        ("[::1", "400 host"),
        ("[fe80::1%25eth0]", "400 host"),
        ("[192.0.2.1]", "400 host"),
        ("a.test%2eevil", "400 host"),
    ] {
        assert_eq!(outcome(&gateway(), ask(host).as_bytes()), expected, "{host}");
    }
    let connect = |target: &str| format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    check(
        &gateway(),
        &[
            ("a tunnel", connect("a.test:443"), "tunnel a.test:443"),
            (
                "a host without its port",
                "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
                "tunnel a.test:443",
            ),
            (
                "another host",
                "CONNECT a.test:443 HTTP/1.1\r\nHost: x.test:443\r\n\r\n".into(),
                "400 target-and-host",
            ),
            ("another port", connect("a.test:25"), "403 port"),
            ("no port", connect("a.test"), "400 target"),
            ("another host's", connect("evil.test:443"), "403 no-rule"),
            ("with a path", connect("a.test:443/x"), "400 host"),
            (
                "with a body",
                "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nContent-Length: 3\r\n\r\nabc".into(),
                "400 body-of-connect",
            ),
            (
                "a method that a rule denies",
                "DELETE http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
                "403 rule-deny",
            ),
            (
                "a method in small letters, which some servers take for the same",
                "delete http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
                "400 method-case",
            ),
        ],
    );
}

#[test]
fn a_client_that_knows_of_no_proxy_gets_the_server_that_it_has_connected_to() {
    let transparent = Gateway { mode: Mode::Transparent, ports: vec![80], ..gateway() };
    let of = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    check(
        &transparent,
        &[
            ("a name", of("a.test"), SENT),
            ("its port", of("a.test:80"), SENT),
            ("another port", of("a.test:8080"), "403 other-port"),
            ("its address", of("192.0.2.1"), "GET / HTTP/1.1|Host: 192.0.2.1||"),
            ("another address", of("192.0.2.2"), "403 other-address"),
            ("another address of IPv6", of("[2001:db8::1]"), "403 other-address"),
            (
                "another host in its target",
                "GET http://a.test/ HTTP/1.1\r\nHost: c.b.test\r\n\r\n".into(),
                "400 target-and-host",
            ),
            ("a tunnel", "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n".into(), "405 connect"),
            (
                "of the server as a whole",
                "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
                "OPTIONS * HTTP/1.1|Host: a.test||",
            ),
            ("a host that no rule has", of("c.test"), "403 no-rule"),
        ],
    );
    let old = b"GET / HTTP/1.0\r\n\r\n";
    let sent = outcome(&transparent, old);
    assert!(
        sent.starts_with("GET / HTTP/1.1|Host: 192.0.2.1|"),
        "without a host it is asked by its address: {sent}"
    );
    let elsewhere = Gateway { ports: vec![8080], ..transparent };
    check(&elsewhere, &[("a port that the gateway does not carry", of("a.test"), "403 port")]);
}

#[test]
fn answers_are_read_as_strictly() {
    let ok = |lines: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}");
    let rows: &[(&str, &str, u8, String, &str)] = &[
        ("a length", "GET", 1, ok("Content-Length: 2\r\n", "ab"), "HTTP/1.1 200 OK|Content-Length: 2||ab"),
        ("too short", "GET", 1, ok("Content-Length: 3\r\n", "ab"), "more"),
        ("until the end", "GET", 1, ok("", "ab"), "HTTP/1.1 200 OK|Transfer-Encoding: chunked||2|ab|0||"),
        ("until the end, of 1.0", "GET", 0, ok("", "ab"), "HTTP/1.1 200 OK|Connection: close||ab"),
        (
            "chunks, of 1.0",
            "GET",
            0,
            ok("Transfer-Encoding: chunked\r\n", "2\r\nab\r\n0\r\n\r\n"),
            "HTTP/1.1 200 OK|Connection: close||ab",
        ),
        ("HEAD", "HEAD", 1, ok("Content-Length: 3\r\n", ""), "HTTP/1.1 200 OK|Content-Length: 3||"),
        (
            "nothing new",
            "GET",
            1,
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n".into(),
            "HTTP/1.1 304 Not Modified|Content-Length: 3||",
        ),
        (
            "no content",
            "GET",
            1,
            "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc".into(),
            "HTTP/1.1 204 No Content||",
        ),
        (
            "hop by hop",
            "GET",
            1,
            ok("Connection: x\r\nX: y\r\nUpgrade: h2\r\nContent-Length: 0\r\n", ""),
            "HTTP/1.1 200 OK|Content-Length: 0||",
        ),
        (
            "length and chunks",
            "GET",
            1,
            ok("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", ""),
            "length-and-chunks",
        ),
        ("two lengths", "GET", 1, ok("Content-Length: 3\r\nContent-Length: 4\r\n", ""), "two-lengths"),
        ("a bare LF", "GET", 1, "HTTP/1.1 200 OK\nX: y\r\n\r\n".into(), "bare-lf"),
        ("a folded field", "GET", 1, ok("X: y\r\n z\r\n", ""), "folded-field"),
        ("a blank before the colon", "GET", 1, ok("Content-Length : 3\r\n", "abc"), "field-name"),
        ("an old status line", "GET", 1, "HTTP/1.1 20 OK\r\n\r\n".into(), "start-line"),
        ("no HTTP", "GET", 1, "SSH-2.0-OpenSSH\r\n\r\n".into(), "version"),
    ];
    for (what, method, minor, bytes, expected) in rows {
        let limits = gateway().limits.head();
        let found = match pass_back(method, *minor, bytes.as_bytes(), limits) {
            Ok(Some(out)) => String::from_utf8_lossy(&out).replace("\r\n", "|"),
            Ok(None) => "more".to_owned(),
            Err(fault) => fault.reason.to_owned(),
        };
        assert_eq!(found, *expected, "{what}");
    }
}

/// Pieces of which requests, and attacks, are made.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "GET http://a.test/ HTTP/1.1\r\n",
        "POST http://x.b.test/a/../b HTTP/1.1\r\n",
        "CONNECT a.test:443 HTTP/1.1\r\n",
        "Host: a.test\r\n",
        "Host: x.b.test\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "X: y\r\n",
        "\r\n",
        "\n",
        "\r",
        " ",
        "5\r\nabcde\r\n",
        "0\r\n\r\n",
        "0\r\n",
        "abcde",
        "\0",
    ]);
    prop_oneof![
        8 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

/// Beginnings of requests that are right, so that whole ones come up.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let begin = prop::sample::select(vec![
        "",
        "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n",
        "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n",
    ]);
    (begin, prop::collection::vec(piece(), 0..12))
        .prop_map(|(begin, pieces)| [begin.as_bytes().to_vec(), pieces.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What goes to a server is one request to the last byte, and the same one when it is read again.
    #[test]
    fn what_goes_on_is_one_request_whatever_came(bytes in likely()) {
        let gateway = gateway();
        if let Outcome::Sent(out, read) = pass_on(&gateway, "10.0.0.7".parse().unwrap(), &bytes) {
            prop_assert!(read <= bytes.len());
            let server = Server { host: "a.test".into(), to: "10.0.2.5:80".parse().unwrap() };
            let also = Server { host: "x.b.test".into(), ..server.clone() };
            let again = Gateway { mode: Mode::Publish(vec![server, also]), ..gateway.clone() };
            match pass_on(&again, "10.0.0.7".parse().unwrap(), &out) {
                Outcome::Sent(second, all) => {
                    prop_assert_eq!(all, out.len(), "one request to the last byte");
                    let via = b"Via: 1.1 rampart-web\r\n".len();
                    prop_assert_eq!(second.len(), out.len() + via, "and nothing else in it");
                }
                other => prop_assert!(false, "{:?} of {:?}", other, String::from_utf8_lossy(&out)),
            }
        }
    }

    /// A server that hears a bit at a time decides the same: no shorter part of a request is another one.
    #[test]
    fn the_beginning_of_a_request_is_not_another_request(bytes in likely(), cut in 0usize..400) {
        let gateway = gateway();
        let client = "10.0.0.7".parse().unwrap();
        let part = pass_on(&gateway, client, &bytes[..cut.min(bytes.len())]);
        if let Outcome::Sent(..) = part {
            prop_assert_eq!(pass_on(&gateway, client, &bytes), part);
        }
    }

    #[test]
    fn any_bytes_are_decided(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = pass_on(&gateway(), "10.0.0.7".parse().unwrap(), &bytes);
        let _ = pass_back("GET", 1, &bytes, gateway().limits.head());
        let _ = gateway::hello::read(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = gateway::http::target::target("GET", &format!("http://a.test/{text}"));
        let _ = gateway::http::target::authority(&text);
    }
}
