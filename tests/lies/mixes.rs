//! Firewalls that treat one part of a mix worse than the others: a sum would hide it, or look better for it, because what fails is over
//! sooner. Each must be found with the name of the part, and an honest router must not. Needs root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod routed;

use measure::application::{Arrivals, PROTOCOLS, ProtocolMix};
use measure::mix::{Mix, MixOutcome, Part, PartFiles, SharesOf};
use measure::open_loop::OpenLoop;
use routed::{Bed, meant_by};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use testkit::namespace::Namespace;
use traffic::app::{FileSet, Load, Outcome, Side, run};

/// Where a relay listens.
const RELAY: u16 = 8080;
/// How long the relay keeps what the server says first.
const HELD_UP: Duration = Duration::from_millis(60);
/// After which a client gives a transaction up that a router stops; a busy machine may need a while for the others.
const SHORT: Duration = Duration::from_secs(2);
const MINUTE: Duration = Duration::from_secs(60);

/// Turns of each part that a closed loop has: every third session is rejected, and a median of few is that of a moment.
const TURNS: u64 = 4;
const MANY_TURNS: u64 = 20;
/// A busy machine may begin two transactions within a fifth of a second.
const LONGER: [f64; 7] = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8];

impl Bed {
    /// A closed loop runs for longer and longer until every part had so many turns.
    fn run(&self, arrivals: Arrivals, transaction_limit: Duration, turns: u64) -> (Outcome, MixOutcome) {
        let mut found = None;
        for seconds in LONGER {
            let seconds = arrivals.open_loop().map_or(seconds, |open| open.seconds());
            let (outcome, carried) = self.run_for(seconds, arrivals, transaction_limit);
            let is_whole =
                arrivals.open_loop().is_some() || carried.parts.iter().all(|part| part.begun >= turns);
            found = Some((outcome, carried));
            if is_whole {
                break;
            }
        }
        found.unwrap()
    }

    fn run_for(
        &self,
        seconds: f64,
        arrivals: Arrivals,
        transaction_limit: Duration,
    ) -> (Outcome, MixOutcome) {
        let mix = mix();
        let load = Load {
            clients: 6,
            seconds,
            arrivals,
            protocol: ProtocolMix::Stated(mix.clone()),
            transactions: 1,
            transaction_limit,
            http_port: 80,
            https_port: 443,
            ftp_port: 21,
            cores: vec![0],
            seed: 3,
        };
        let files = Arc::new(FileSet::of_mix(&mix, 5));
        let outcome =
            run(&side(&self.clients, 7), &side(&self.servers, 8), &load, &files, &|| false).unwrap();
        let carried = *outcome.application.mix.clone().unwrap();
        assert_eq!((&outcome.fault, outcome.ledger.residual()), (&None, 0), "{:?}", outcome.ledger);
        (outcome, carried)
    }
}

fn side(namespace: &Namespace, net: u8) -> Side {
    let address = |host: u8| IpAddr::V4(Ipv4Addr::new(10, net, 0, 2 + host));
    Side { namespace: Some(namespace.path()), addresses: (0..6).map(address).collect() }
}

/// Three of four transactions fetch pages by HTTP, and one a file by FTP.
fn mix() -> Arc<Mix> {
    let part = |name: &str, of: &str, share| Part {
        name: name.into(),
        protocol: PROTOCOLS.iter().find(|(known, _)| *known == of).unwrap().1,
        files: PartFiles::Kb(vec![4]),
        transactions: 1,
        share,
    };
    Arc::new(Mix {
        name: "m".into(),
        title: "M".into(),
        source: None,
        shares: SharesOf::Transactions,
        parts: vec![part("pages", "http/1.1", 0.75), part("files", "ftp:get", 0.25)],
    })
}

/// What a router does with what clients send.
fn forwarded(rule: &str) -> String {
    format!("chain forwarded {{\ntype filter hook forward priority 0\n{rule}\n}}")
}

#[test]
fn a_router_that_drops_one_part_is_found_with_its_name() {
    for (rule, limit, failed_by) in [
        ("counter", MINUTE, None),
        ("tcp dport 21 reject with tcp reset", MINUTE, Some("refused")),
        // The login passes, and no file comes.
        ("ip daddr 10.8.0.0/24 tcp dport 1024-65535 reject with tcp reset", MINUTE, Some("refused")),
        ("ip daddr 10.8.0.0/24 tcp dport 1024-65535 drop", SHORT, Some("timeout")),
        // Every third session.
        (
            "tcp dport 21 tcp flags syn / syn,ack numgen inc mod 3 0 reject with tcp reset",
            MINUTE,
            Some("refused"),
        ),
    ] {
        let bed = Bed::build(&forwarded(rule));
        let (outcome, carried) = bed.run(Arrivals::ClosedLoop, limit, TURNS);
        let [pages, files] = &carried.parts[..] else { panic!("{carried:?}") };
        let off = carried.off().join("; ");
        let what = format!("{rule}: {off}: {carried:?}");
        assert!(pages.failed.is_empty() && pages.completed == pages.begun && pages.begun > 0, "{what}");
        assert_eq!(outcome.application.disagreements(&outcome.ledger), [""; 0], "{what}");
        let Some(failed_by) = failed_by else {
            assert!(off.is_empty() && files.completed == files.begun, "{what}");
            continue;
        };
        assert!(files.failed.keys().all(|how| how == failed_by) && !files.failed.is_empty(), "{what}");
        assert!(off.contains("part files had ") && off.contains(&format!("({failed_by} ")), "{what}");
    }
}

/// Hands a connection of FTP on, also one of data, but keeps what the server says first for a while.
fn hand_on_late(bed: &Bed, mut client: TcpStream) -> io::Result<()> {
    let mut server = bed.connect(meant_by(&client)?)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        // An end that went away ends the other direction too.
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut first = [0; 512];
    let count = server.read(&mut first)?;
    std::thread::sleep(HELD_UP);
    client.write_all(&first[..count])?;
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}

/// It completes everything, and the median of all transactions says nothing of it: three of four are pages.
#[test]
fn a_part_that_is_slow_alone_has_its_times_beside_those_of_the_others() {
    let bed = Bed::build(&format!(
        "chain answers {{\ntype nat hook prerouting priority dstnat\niifname b7 tcp dport {{ 21, 1024-65535 }} redirect to :{RELAY}\n}}"
    ));
    let open = OpenLoop {
        connection_rate: 100.0,
        ramp_up_seconds: 0.1,
        sustain_seconds: 0.4,
        ramp_down_seconds: 0.0,
    };
    for arrivals in [Arrivals::ClosedLoop, Arrivals::OpenLoop(open)] {
        let (outcome, carried) = bed.with_proxy(
            RELAY,
            |client| hand_on_late(&bed, client),
            || bed.run(arrivals, MINUTE, MANY_TURNS),
        );
        let what = format!("{arrivals:?}: {carried:?}");
        assert_eq!((outcome.ledger.received, carried.off()), (outcome.ledger.offered, Vec::new()), "{what}");
        let median = |name: &str| carried.part(name).unwrap().times_ns.unwrap().p50;
        let whole = outcome.application.times_ns.unwrap().p50;
        // Histograms have steps of a hundredth.
        assert!(median("files") > HELD_UP.as_nanos() as f64 * 0.98, "{what}");
        assert!(median("pages") < median("files") && whole < median("files"), "{what}");
    }
}
