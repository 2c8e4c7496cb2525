//! The SYN proxy, segment by segment: who gets a cookie, which cookies are good, and by which numbers the two ends know each other. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, POLICY, Side};
use dataplane::{Filter, Hook, Settings, Tally};
use std::time::Duration;
use testkit::packet::{ACK, FIN, Frame, RST, SYN, Tcp, icmp_error, transport_checksum};

const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];
const SECOND: Duration = Duration::from_secs(1);
/// In which a cookie is made, and good in the next one as well: 2^36 ns.
const SLOT: Duration = Duration::from_nanos(1 << 36);
const V4: (&str, &str) = ("198.18.1.2", "198.18.2.2");
const V6: (&str, &str) = ("2001:2:0:1::2", "2001:2:0:2::2");
/// First numbers of the client and of the server.
const CLIENT: u32 = 5_000;
const SERVER: u32 = 0xffff_ff00;

/// A client, its server, and the firewall between them.
struct Talk {
    bed: Bed,
    hook: Hook,
    ends: (&'static str, &'static str),
    port: u16,
}

/// A segment as it left the firewall; its checksums are right.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Seen {
    ports: (u16, u16),
    flags: u8,
    sequence: u32,
    acknowledgement: u32,
    window: u16,
    options: Vec<u8>,
    length: usize,
}

fn seen(frame: &[u8], ends: (&str, &str)) -> Seen {
    let at = if ends.0.contains(':') { 14 + 40 } else { 14 + 20 };
    let bytes = if ends.0.contains(':') {
        usize::from(u16::from_be_bytes([frame[18], frame[19]]))
    } else {
        usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20
    };
    let tcp = &frame[at..at + bytes];
    let mut bare = tcp.to_vec();
    bare[16..18].fill(0);
    let (a, b) = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
    let check = u16::from_be_bytes([tcp[16], tcp[17]]);
    assert_eq!(transport_checksum(&bare, 6, a, b), check, "the checksum is wrong: {tcp:02x?}");
    let word = |at: usize| u32::from_be_bytes(*tcp[at..].first_chunk().unwrap());
    let half = |at: usize| u16::from_be_bytes(*tcp[at..].first_chunk().unwrap());
    let header = usize::from(tcp[12] >> 4) * 4;
    Seen {
        ports: (half(0), half(2)),
        flags: tcp[13],
        sequence: word(4),
        acknowledgement: word(8),
        window: half(14),
        options: tcp[20..header].to_vec(),
        length: bytes - header,
    }
}

impl Talk {
    fn new(hook: Hook, ends: (&'static str, &'static str), settings: &str) -> Self {
        let policy = format!("[settings]\n{settings}\n{POLICY}");
        let bed = Bed::with(hook, &Settings { flows: 1024, rules: 64 }, &policy);
        Self { bed, hook, ends, port: 4000 }
    }

    fn frame(&self, side: Side, tcp: &Tcp) -> Vec<u8> {
        let (client, server) = self.ends;
        let (from, to, ports) = match side {
            Side::In => (client, server, (self.port, 80)),
            Side::Out => (server, client, (80, self.port)),
        };
        Frame::new(from, to, 6, Tcp { ports, ..*tcp }.bytes()).completed().bytes()
    }

    /// What becomes of a segment, in words, and what left if something did.
    fn send(&mut self, side: Side, tcp: &Tcp) -> (String, Vec<u8>) {
        let frame = self.frame(side, tcp);
        let (fate, left) = self.bed.send_and_see(side, &frame);
        (fate.words(), left)
    }

    fn say(&mut self, side: Side, flags: u8, sequence: u32, acknowledgement: u32) -> (String, Vec<u8>) {
        self.send(side, &Tcp { flags, sequence, acknowledgement, window: 1000, ..Tcp::default() })
    }

    /// The same, which leaves on its way to the other end.
    fn passes(&mut self, side: Side, flags: u8, sequence: u32, acknowledgement: u32) -> Seen {
        let (fate, left) = self.say(side, flags, sequence, acknowledgement);
        assert_eq!(fate, "pass", "{:?} {side:?} {flags}", self.hook);
        self.onward(side, &left)
    }

    fn onward(&self, side: Side, left: &[u8]) -> Seen {
        seen(left, if side == Side::In { self.ends } else { (self.ends.1, self.ends.0) })
    }

    /// The cookie that answers the client's SYN.
    fn cookie(&mut self) -> u32 {
        let syn = Tcp { flags: SYN, sequence: CLIENT, window: 999, scale: Some(4), ..Tcp::default() };
        let (fate, left) = self.send(Side::In, &syn);
        assert_eq!(fate, "pass", "{:?}", self.hook);
        let answer = seen(&left, (self.ends.1, self.ends.0));
        assert_eq!(
            (answer.ports, answer.flags, answer.acknowledgement, answer.window),
            ((80, self.port), SYN | ACK, CLIENT + 1, 0)
        );
        answer.sequence
    }

    /// The same as far as the server has been asked.
    fn asked(&mut self) -> u32 {
        let cookie = self.cookie();
        let syn = self.passes(Side::In, ACK, CLIENT + 1, cookie.wrapping_add(1));
        assert_eq!(
            (syn.ports, syn.flags, syn.sequence, syn.acknowledgement),
            ((self.port, 80), SYN, CLIENT, 0)
        );
        cookie
    }

    /// The same as far as both are connected.
    fn connected(&mut self) -> u32 {
        let cookie = self.asked();
        let answer = Tcp {
            flags: SYN | ACK,
            sequence: SERVER,
            acknowledgement: CLIENT + 1,
            window: 5120,
            scale: Some(9),
            ..Tcp::default()
        };
        let (fate, left) = self.send(Side::Out, &answer);
        assert_eq!(fate, "pass", "{:?}", self.hook);
        let opened = self.onward(Side::Out, &left);
        assert_eq!(
            (opened.flags, opened.sequence, opened.acknowledgement, opened.window),
            (ACK, cookie.wrapping_add(1), CLIENT + 1, 5120 >> 7)
        );
        cookie
    }

    fn flows(&self) -> usize {
        self.bed.flows(&Filter::default()).len()
    }

    fn state(&self) -> &'static str {
        self.bed.state(self.port)
    }
}

/// One on each hook, and of each version.
fn all(settings: &str, test: impl Fn(Talk)) {
    for hook in HOOKS {
        for ends in [V4, V6] {
            test(Talk::new(hook, ends, settings));
        }
    }
}

#[test]
fn needs_root_a_syn_leaves_nothing_behind() {
    all("syn_proxy = \"on\"", |mut talk| {
        let mut cookies = std::collections::HashSet::new();
        for port in 1..=500 {
            talk.port = port;
            cookies.insert(talk.cookie());
        }
        assert_eq!(cookies.len(), 500);
        assert_eq!((talk.flows(), talk.bed.firewall().flows.half_open()), (0, 0));
        assert_eq!((talk.bed.tally(Tally::Cookies), talk.bed.tally(Tally::CookiesTaken)), (500, 0));
        // The same question has the same answer, and another one in the next slot.
        assert!(cookies.contains(&talk.cookie()));
        talk.bed.pass(SLOT);
        assert!(!cookies.contains(&talk.cookie()));
    });
}

/// What an acknowledgement is, beside the right one: what is added to its numbers, its flags, its port, how long it took, what becomes of it.
type Row = (&'static str, (u32, u32), u8, u16, Duration, &'static str);

const NOW: Duration = Duration::ZERO;
const ROWS: [Row; 17] = [
    ("the right one", (0, 0), ACK, 4000, NOW, "pass"),
    ("a probe of the window", (u32::MAX, 0), ACK, 4000, NOW, "pass"),
    ("in the next slot", (0, 0), ACK, 4000, SLOT, "pass"),
    ("two slots later", (0, 0), ACK, 4000, Duration::from_nanos(2 << 36), "cookie"),
    ("when no cookie can be good", (0, 0), ACK, 4000, Duration::from_nanos(3 << 36), "tcp-no-flow"),
    ("beyond what options can be", (0, 512), ACK, 4000, NOW, "cookie"),
    ("of a number far away", (0, 1 << 20), ACK, 4000, NOW, "cookie"),
    ("of the other slot", (0, 1 << 31), ACK, 4000, NOW, "cookie"),
    ("of another connection", (1000, 0), ACK, 4000, NOW, "cookie"),
    ("from another port", (0, 0), ACK, 4001, NOW, "cookie"),
    ("a reset", (0, 0), RST, 4000, NOW, "tcp-no-flow"),
    ("a reset that acknowledges", (0, 0), RST | ACK, 4000, NOW, "tcp-no-flow"),
    ("a FIN", (0, 0), FIN | ACK, 4000, NOW, "tcp-no-flow"),
    ("a SYN-ACK", (0, 0), SYN | ACK, 4000, NOW, "tcp-no-flow"),
    ("nothing", (0, 0), 8, 4000, NOW, "tcp-no-flow"),
    ("with the numbers turned", (0x8000_0000, 0x8000_0000), ACK, 4000, NOW, "pass"),
    ("of number 0", (0u32.wrapping_sub(CLIENT + 1), 0), ACK, 4000, NOW, "cookie"),
];

#[test]
fn needs_root_only_an_acknowledgement_with_a_good_cookie_opens_a_flow() {
    all("syn_proxy = \"on\"", |mut talk| {
        for (row, (what, add, flags, port, later, wanted)) in (0..).zip(ROWS) {
            // Cookies are looked for while the last one sent may be good. The slot begins with the row, and is the first of its kind, or the second.
            let into_slot = talk.bed.now().as_nanos() % SLOT.as_nanos();
            let slots = if row % 2 == 0 { 5 } else { 6 };
            talk.bed.pass(SLOT * slots - Duration::from_nanos(into_slot as u64) + SECOND);
            talk.bed.firewall().flows.sweep().unwrap();
            let taken = talk.bed.tally(Tally::CookiesTaken);
            talk.port = 4000;
            let cookie = talk.cookie();
            talk.bed.pass(later);
            talk.port = port;
            let numbers = [(CLIENT + 1).wrapping_add(add.0), cookie.wrapping_add(1).wrapping_add(add.1)];
            let (fate, left) = talk.say(Side::In, flags, numbers[0], numbers[1]);
            assert_eq!(fate, wanted, "{:?} {:?}: {what}", talk.hook, talk.ends);
            let opened = usize::from(wanted == "pass");
            assert_eq!(
                (talk.flows(), talk.bed.tally(Tally::CookiesTaken) - taken),
                (opened, opened as u64),
                "{what}"
            );
            if wanted == "pass" {
                // A probe has the number before that of the first segment.
                let first = if add.0 == u32::MAX { numbers[0] } else { numbers[0].wrapping_sub(1) };
                assert_eq!(talk.onward(Side::In, &left).sequence, first, "{what}");
            }
        }
    });
}

/// A million guesses would open less than one flow on the average; of these thousand one opens none.
#[test]
fn needs_root_guesses_open_nothing() {
    all("syn_proxy = \"on\"", |mut talk| {
        talk.cookie();
        for guess in 0..1000u32 {
            let number = guess.wrapping_mul(2_654_435_761);
            assert_eq!(talk.say(Side::In, ACK, 77, number).0, "cookie", "{guess}");
        }
        assert_eq!(talk.flows(), 0);
    });
}

#[test]
fn needs_root_each_end_sees_the_numbers_that_it_knows() {
    all("syn_proxy = \"on\"", |mut talk| {
        let cookie = talk.connected();
        assert_eq!(talk.state(), "established");
        assert_eq!(talk.bed.firewall().flows.half_open(), 0);
        let told = |number: u32| number.wrapping_sub(SERVER).wrapping_add(cookie);
        // The client's question, its answer and acknowledgements, beyond where the numbers come round.
        let data = Tcp {
            flags: ACK,
            sequence: CLIENT + 1,
            acknowledgement: told(SERVER + 1),
            length: 700,
            window: 900,
            ..Tcp::default()
        };
        let (fate, left) = talk.send(Side::In, &data);
        let question = talk.onward(Side::In, &left);
        assert_eq!(fate, "pass");
        assert_eq!(
            (question.sequence, question.acknowledgement, question.length),
            (CLIENT + 1, SERVER + 1, 700)
        );
        assert_eq!(question.window, 900);
        let answer = Tcp {
            flags: ACK,
            sequence: SERVER + 1,
            acknowledgement: CLIENT + 701,
            length: 600,
            window: 10,
            ..Tcp::default()
        };
        let (fate, left) = talk.send(Side::Out, &answer);
        let answer = talk.onward(Side::Out, &left);
        assert_eq!(fate, "pass");
        assert_eq!((answer.sequence, answer.acknowledgement), (told(SERVER + 1), CLIENT + 701));
        // In units of 512 bytes, and of 128.
        assert_eq!((answer.length, answer.window), (600, 40));
        let end = SERVER.wrapping_add(601);
        let seen = talk.passes(Side::In, ACK | FIN, CLIENT + 701, told(end));
        assert_eq!((seen.sequence, seen.acknowledgement), (CLIENT + 701, end));
        let seen = talk.passes(Side::Out, ACK | FIN, end, CLIENT + 702);
        assert_eq!((seen.sequence, seen.acknowledgement), (told(end), CLIENT + 702));
        talk.passes(Side::In, ACK, CLIENT + 702, told(end.wrapping_add(1)));
        assert_eq!(talk.state(), "time-wait");
    });
}

/// The server's own numbers are none of the client's, and what is outside the window by them does not pass.
#[test]
fn needs_root_the_window_is_followed_in_the_servers_numbers() {
    all("syn_proxy = \"on\"", |mut talk| {
        let cookie = talk.connected();
        assert_eq!(talk.say(Side::In, ACK, CLIENT + 1, SERVER + 1).0, "tcp-window");
        assert_eq!(talk.say(Side::Out, ACK, cookie.wrapping_add(1), CLIENT + 1).0, "tcp-window");
        assert_eq!(talk.say(Side::Out, RST, cookie.wrapping_add(1), 0).0, "tcp-reset");
        assert_eq!(talk.passes(Side::Out, RST, SERVER + 1, 0).sequence, cookie.wrapping_add(1));
        assert_eq!(talk.state(), "reset");
    });
}

#[test]
fn needs_root_a_lost_acknowledgement_is_sent_again_when_the_server_repeats_its_answer() {
    all("syn_proxy = \"on\"", |mut talk| {
        talk.connected();
        let (fate, left) = talk.say(Side::Out, SYN | ACK, SERVER, CLIENT + 1);
        assert_eq!(fate, "pass");
        let back = seen(&left, talk.ends);
        assert_eq!((back.flags, back.sequence, back.acknowledgement), (ACK, CLIENT + 1, SERVER + 1));
        assert_eq!(
            talk.say(Side::Out, SYN | ACK, SERVER + 7, CLIENT + 1).0,
            "pass",
            "another one is for the client"
        );
        assert_eq!(talk.state(), "established");
    });
}

#[test]
fn needs_root_a_refusal_of_the_server_reaches_the_client() {
    all("syn_proxy = \"on\"", |mut talk| {
        let cookie = talk.asked();
        assert_eq!(talk.say(Side::Out, RST | ACK, 0, CLIENT + 2).0, "tcp-reset", "of another SYN");
        let reset = talk.passes(Side::Out, RST | ACK, 0, CLIENT + 1);
        assert_eq!(
            (reset.flags, reset.sequence, reset.acknowledgement),
            (RST | ACK, cookie.wrapping_add(1), CLIENT + 1)
        );
        assert_eq!((talk.state(), talk.bed.firewall().flows.half_open()), ("reset", 0));
    });
}

/// The firewall has no timer: the client's probes repeat the SYN, and at last they are answered.
#[test]
fn needs_root_a_silent_server_is_asked_again_and_given_up() {
    all("syn_proxy = \"on\"", |mut talk| {
        let cookie = talk.asked();
        for _ in 0..20 {
            assert_eq!(talk.say(Side::In, ACK, CLIENT, cookie.wrapping_add(1)).0, "tcp-state", "too soon");
            talk.bed.pass(SECOND);
            let syn = talk.passes(Side::In, ACK, CLIENT, cookie.wrapping_add(1));
            assert_eq!((syn.flags, syn.sequence, syn.acknowledgement), (SYN, CLIENT, 0));
        }
        talk.bed.pass(SECOND);
        let (fate, left) = talk.say(Side::In, ACK, CLIENT, cookie.wrapping_add(1));
        assert_eq!(fate, "tcp-state!");
        let reset = seen(&left, (talk.ends.1, talk.ends.0));
        assert_eq!((reset.flags, reset.sequence), (RST, cookie.wrapping_add(1)));
        assert_eq!((talk.flows(), talk.bed.firewall().flows.half_open()), (0, 0));
    });
}

#[test]
fn needs_root_while_the_server_is_silent_nothing_else_passes() {
    all("syn_proxy = \"on\"", |mut talk| {
        let cookie = talk.asked();
        talk.bed.pass(SECOND);
        // From the client: its SYN again, an end, numbers of nobody, a reset of nobody.
        let rows = [
            (SYN, CLIENT, 0),
            (FIN | ACK, CLIENT + 1, cookie.wrapping_add(1)),
            (ACK, CLIENT + 2, cookie.wrapping_add(1)),
            (ACK, CLIENT + 1, cookie),
        ];
        for (flags, sequence, acknowledgement) in rows {
            assert_eq!(talk.say(Side::In, flags, sequence, acknowledgement).0, "tcp-state", "{flags}");
        }
        assert_eq!(talk.say(Side::In, RST, CLIENT + 2, 0).0, "tcp-reset");
        // From the server: a SYN of its own, which would be a simultaneous open; what answers another SYN is reset.
        assert_eq!(talk.say(Side::Out, SYN, SERVER, 0).0, "tcp-state");
        for flags in [ACK, SYN | ACK] {
            let (fate, left) = talk.say(Side::Out, flags, SERVER, CLIENT + 9);
            assert_eq!(fate, "tcp-state!");
            assert_eq!((seen(&left, talk.ends).flags, seen(&left, talk.ends).sequence), (RST, CLIENT + 9));
        }
        assert_eq!(talk.state(), "syn-sent");
        // A client that gives up takes the server's part with it.
        assert_eq!(talk.passes(Side::In, RST, CLIENT + 1, 0).flags, RST);
        assert_eq!(talk.state(), "reset");
    });
}

/// The client began anew from the same port, and the firewall still waits for the server of the connection before.
#[test]
fn needs_root_a_client_that_begins_anew_gets_another_cookie() {
    all("syn_proxy = \"on\"", |mut talk| {
        let before = talk.asked();
        let (fate, left) = talk.say(Side::In, SYN, CLIENT + 100_000, 0);
        let answer = seen(&left, (talk.ends.1, talk.ends.0));
        assert_eq!((fate.as_str(), answer.flags), ("pass", SYN | ACK));
        assert_ne!(answer.sequence, before);
        let syn = talk.passes(Side::In, ACK, CLIENT + 100_001, answer.sequence.wrapping_add(1));
        assert_eq!((syn.flags, syn.sequence), (SYN, CLIENT + 100_000));
        assert_eq!((talk.flows(), talk.state()), (1, "syn-sent"));
    });
}

#[test]
fn needs_root_the_policy_is_asked_before_a_cookie_and_after() {
    all("syn_proxy = \"on\"", |mut talk| {
        // From outside, tcp/80 alone is allowed, and tcp/7 rejected.
        talk.port = 9;
        assert_eq!(talk.say(Side::Out, SYN, SERVER, 0).0, "default-deny");
        let cookie = talk.cookie();
        let rejects = POLICY.replacen("action = \"allow\"", "action = \"reject\"", 1);
        talk.bed.apply(&format!("[settings]\nsyn_proxy = \"on\"\n{rejects}"));
        let (fate, left) = talk.say(Side::In, ACK, CLIENT + 1, cookie.wrapping_add(1));
        assert_eq!(fate, "rule-reject!");
        let reset = seen(&left, (talk.ends.1, talk.ends.0));
        assert_eq!((reset.flags, reset.sequence), (RST, cookie.wrapping_add(1)));
        assert_eq!(talk.flows(), 0);
    });
}

/// An open connection that a new policy refuses: each end gets a reset that it believes.
#[test]
fn needs_root_resets_of_the_firewall_have_the_numbers_of_their_receiver() {
    for from in [Side::In, Side::Out] {
        all("syn_proxy = \"on\"", |mut talk| {
            let cookie = talk.connected();
            let rejects = POLICY.replacen("action = \"allow\"", "action = \"reject\"", 1);
            talk.bed.apply(&format!("[settings]\nsyn_proxy = \"on\"\n{rejects}"));
            let (sequence, acknowledgement) = match from {
                Side::In => (CLIENT + 1, cookie.wrapping_add(1)),
                Side::Out => (SERVER + 1, CLIENT + 1),
            };
            let (fate, left) = talk.say(from, ACK, sequence, acknowledgement);
            assert_eq!(fate, "rule-reject!");
            let ends = if from == Side::In { (talk.ends.1, talk.ends.0) } else { talk.ends };
            assert_eq!((seen(&left, ends).flags, seen(&left, ends).sequence), (RST, acknowledgement));
        });
    }
}

/// The same of a connection whose packets would go to another zone by now.
#[test]
fn needs_root_a_route_to_a_zone_that_is_refused_is_answered_in_the_clients_numbers() {
    all("syn_proxy = \"on\"", |mut talk| {
        let rejects = "[[defaults]]\nfrom = \"inside\"\nto = \"inside\"\naction = \"reject\"\n";
        talk.bed.apply(&format!("[settings]\nsyn_proxy = \"on\"\n{POLICY}\n{rejects}"));
        let cookie = talk.connected();
        let (client, server) = talk.ends;
        let (ip, bits) = if client.contains(':') { ("-6 ", 128) } else { ("", 32) };
        talk.bed.namespace().ip(&format!("{ip}route add {server}/{bits} via {client} dev in0"));
        talk.bed.firewall().forget_routes().unwrap();
        let (fate, left) = talk.say(Side::In, ACK, CLIENT + 1, cookie.wrapping_add(1));
        assert_eq!(fate, "default-reject!");
        let reset = seen(&left, (server, client));
        assert_eq!((reset.flags, reset.sequence), (RST, cookie.wrapping_add(1)));
    });
}

/// What was begun goes on when it is switched off.
#[test]
fn needs_root_cookies_are_good_when_the_proxy_is_off_again() {
    all("syn_proxy = \"on\"", |mut talk| {
        let cookie = talk.cookie();
        talk.bed.apply(POLICY);
        talk.port += 1;
        assert_eq!(talk.passes(Side::In, SYN, CLIENT, 0).flags, SYN, "it is off");
        talk.port -= 1;
        let syn = talk.passes(Side::In, ACK, CLIENT + 1, cookie.wrapping_add(1));
        assert_eq!((syn.flags, syn.sequence), (SYN, CLIENT));
    });
}

/// A rule says of its own connections otherwise than the settings. What comes back with a cookie is good whatever is said by then.
#[test]
fn needs_root_a_rule_says_whether_its_syns_are_answered() {
    for hook in HOOKS {
        let mut talk = Talk::new(hook, V4, "");
        for (setting, of_rule, is_answered) in [
            ("off", "on", true),
            ("off", "when-full", false),
            ("on", "off", false),
            ("on", "when-full", false),
            ("when-full", "on", true),
            ("on", "", true),
        ] {
            let said = if of_rule.is_empty() {
                String::new()
            } else {
                format!("syn_proxy = \"{of_rule}\"\nlog = true\n")
            };
            let rules = POLICY.replacen("name = \"out\"\n", &format!("name = \"out\"\n{said}"), 1);
            talk.bed.apply(&format!("[settings]\nsyn_proxy = \"{setting}\"\n{rules}"));
            talk.port += 1;
            let before = talk.flows();
            if is_answered {
                talk.cookie();
            } else {
                assert_eq!(talk.passes(Side::In, SYN, CLIENT, 0).sequence, CLIENT, "{setting}, {of_rule}");
            }
            assert_eq!(talk.flows(), before + usize::from(!is_answered), "{setting}, {of_rule}");
        }
        // Another rule, of which nothing is said.
        talk.bed.apply(&POLICY.replacen("name = \"out\"\n", "name = \"out\"\nsyn_proxy = \"on\"\n", 1));
        let cookies = talk.bed.tally(Tally::Cookies);
        let syn = Tcp { flags: SYN, sequence: SERVER, ports: (99, 80), window: 999, ..Tcp::default() };
        let frame = Frame::new(V4.1, V4.0, 6, syn.bytes()).completed().bytes();
        assert_eq!(talk.bed.send(Side::Out, &frame).words(), "pass");
        assert_eq!(talk.bed.tally(Tally::Cookies), cookies);
        talk.port += 1;
        talk.connected();
    }
}

#[test]
fn needs_root_without_the_setting_no_segment_is_taken_for_a_cookie() {
    all("", |mut talk| {
        assert_eq!(talk.passes(Side::In, SYN, CLIENT, 0).flags, SYN);
        talk.port += 1;
        assert_eq!(talk.say(Side::In, ACK, CLIENT + 1, 7).0, "tcp-no-flow");
        assert_eq!(talk.bed.tally(Tally::Cookies), 0);
    });
}

/// Half of the budget switches it on, and half a minute with less than a quarter switches it off.
#[test]
fn needs_root_half_open_flows_call_for_cookies() {
    all("syn_proxy = \"when-full\"\nhalf_open = 64", |mut talk| {
        let passed = |talk: &mut Talk, port| {
            talk.port = port;
            assert_eq!(talk.say(Side::In, SYN, CLIENT, 0).0, "pass", "{port}");
            talk.flows()
        };
        for port in 1..=32 {
            assert_eq!(passed(&mut talk, port), usize::from(port));
        }
        for port in 33..=100 {
            assert_eq!(passed(&mut talk, port), 32, "{port}");
        }
        assert_eq!((talk.bed.tally(Tally::Cookies), talk.bed.tally(Tally::ProxyCalled)), (68, 1));
        // Those that were begun without go on without.
        talk.port = 1;
        let (fate, left) = talk.say(Side::Out, SYN | ACK, SERVER, CLIENT + 1);
        assert_eq!((fate.as_str(), talk.onward(Side::Out, &left).sequence), ("pass", SERVER));
        // They expire after 30 s; 30 s after the last SYN that found a quarter of them a SYN passes.
        talk.bed.pass(20 * SECOND);
        assert_eq!(passed(&mut talk, 200), 32);
        talk.bed.pass(12 * SECOND);
        talk.bed.firewall().flows.sweep().unwrap();
        assert_eq!(talk.flows(), 0);
        assert_eq!(passed(&mut talk, 201), 0, "not yet");
        talk.bed.pass(20 * SECOND);
        assert_eq!(passed(&mut talk, 202), 1);
        assert_eq!(talk.bed.tally(Tally::ProxyCalled), 1);
    });
}

/// Who quotes what an end sent quotes it as it left here.
#[test]
fn needs_root_errors_quote_the_numbers_of_whom_they_go_to() {
    all("syn_proxy = \"on\"", |mut talk| {
        let cookie = talk.connected();
        let told = |number: u32| number.wrapping_sub(SERVER).wrapping_add(cookie);
        let (client, server) = talk.ends;
        let v6 = client.contains(':');
        let (protocol, kind, code, at) =
            if v6 { (58, 1, 4, 14 + 40 + 8 + 40) } else { (1, 3, 3, 14 + 20 + 8 + 20) };
        // A host behind the client could not deliver what the server sent: by the client's numbers.
        let rows = [
            (
                Side::In,
                (client, server),
                Tcp {
                    ports: (80, talk.port),
                    flags: ACK,
                    sequence: told(SERVER + 1),
                    acknowledgement: CLIENT + 1,
                    ..Tcp::default()
                },
                "pass",
            ),
            (
                Side::In,
                (client, server),
                Tcp {
                    ports: (80, talk.port),
                    flags: ACK,
                    sequence: told(SERVER.wrapping_add(100_000)),
                    acknowledgement: CLIENT + 1,
                    ..Tcp::default()
                },
                "icmp-unrelated",
            ),
            (
                Side::Out,
                (server, client),
                Tcp {
                    ports: (talk.port, 80),
                    flags: ACK,
                    sequence: CLIENT,
                    acknowledgement: SERVER + 1,
                    ..Tcp::default()
                },
                "pass",
            ),
        ];
        for (side, (from, to), quoted, wanted) in rows {
            let packet = Frame::new(to, from, 6, quoted.bytes()).completed().packet();
            let frame = Frame::new(from, to, protocol, icmp_error(kind, code, &packet)).completed().bytes();
            let (fate, left) = talk.bed.send_and_see(side, &frame);
            assert_eq!(fate.words(), wanted, "{:?} {side:?}", talk.hook);
            if wanted != "pass" {
                continue;
            }
            let word = |at: usize| u32::from_be_bytes(*left[at..].first_chunk().unwrap());
            let numbers =
                if side == Side::In { (SERVER + 1, CLIENT + 1) } else { (CLIENT, told(SERVER + 1)) };
            assert_eq!((word(at + 4), word(at + 8)), numbers, "{:?} {side:?}", talk.hook);
            // The error's own checksum, and that of what is quoted.
            let (a, b) = (from.parse().unwrap(), to.parse().unwrap());
            let start = if v6 { 54 } else { 34 };
            let mut bare = left[start..].to_vec();
            bare[2..4].fill(0);
            let check = u16::from_be_bytes(*left[start + 2..].first_chunk().unwrap());
            if v6 {
                assert_eq!(transport_checksum(&bare, 58, a, b), check);
            } else {
                assert_eq!(testkit::packet::checksum(&bare), check);
            }
            let mut bare = left[at..].to_vec();
            bare[16..18].fill(0);
            let check = u16::from_be_bytes(*left[at + 16..].first_chunk().unwrap());
            assert_eq!(transport_checksum(&bare, 6, b, a), check, "of the quote");
        }
    });
}
