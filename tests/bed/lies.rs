//! Boxes between `--ports` that lie, in whole runs of the bench: each loses its values, and the mark says why.

use super::external::Unknown;
use super::{again_while, is_disturbed, shown, suite, turn};
use measure::results::{MarkKind, Reading, Results};
use testkit::filter::{Filter, HIDDEN_WORK, LIES};

/// `enum lie` of `bpf/test/lies.bpf.c`.
const HONEST: u32 = 0;
const SENDS_BACK: u32 = 1;
const LEAVES_TTL: u32 = 7;
const DUPLICATES: u32 = 22;
const ALLOWS_WHEN_BUSY: u32 = 25;
/// `enum which` of it.
const ALL_FRAMES: u32 = 0;
const SECOND_FRAGMENTS: u32 = 1;

const LINKS: [&str; 2] = ["left", "right"];

/// An Ethernet address as `ip` shows it.
fn address(text: &str) -> [u8; 6] {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "link/ether").unwrap();
    let bytes: Vec<u8> = words[at + 1].split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

impl Unknown {
    /// Fills a forwarder's ways with those of this box, and gives its links.
    fn ways(&self, filter: &Filter) -> [u32; 2] {
        let links = LINKS.map(|link| self.inside.ifindex(link));
        for (from, to) in [(0, 1), (1, 0)] {
            let [outside, inside] = [&self.outside, &self.inside]
                .map(|end| address(&end.run("ip", &["-o", "link", "show", "dev", LINKS[to]])));
            filter.way(links[from], links[to], outside, inside);
        }
        links
    }

    /// `--ports` with the addresses of the box, which answers no question.
    fn ports(&self) -> String {
        let port = |link: &str| {
            let mac = address(&self.inside.run("ip", &["-o", "link", "show", "dev", link]));
            format!("{link}={}", mac.map(|byte| format!("{byte:02x}")).join(":"))
        };
        LINKS.map(port).join(",")
    }

    /// Runs a test on the box. What the machine took from the generator, or did on another core, hides what the box does: where a point does not
    /// fit for that reason, the run is made again, a few times.
    fn measured(
        &self,
        seconds: f64,
        test: &str,
        more: &[&str],
        fits: impl Fn(&Reading<'_>) -> bool,
    ) -> Results {
        let dir = tempfile::tempdir().unwrap();
        let suite = suite(dir.path(), &["linux"], seconds, test);
        let (ports, out) = (self.ports(), dir.path().join("out"));
        let fixed = [
            "run",
            suite.to_str().unwrap(),
            "--ports",
            &ports,
            "--out",
            out.to_str().unwrap(),
            "--cores",
            "1",
        ];
        let arguments = [&fixed, more].concat();
        let is_hidden = |point: &Reading<'_>| is_of_box(point) && is_disturbed(point) && !fits(point);
        let (output, results) = again_while(is_hidden, &out, || self.bench(&arguments));
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", shown(&output));
        results.unwrap()
    }
}

fn is_of_box(point: &Reading<'_>) -> bool {
    point.dut.starts_with("external")
}

fn of_box(results: &Results) -> Vec<Reading<'_>> {
    results.readings().filter(is_of_box).collect()
}

struct Row {
    name: &'static str,
    lie: u32,
    every: u32,
    which: u32,
    factors: &'static str,
    stated: &'static [&'static str],
    found: Option<(MarkKind, &'static str)>,
}

#[test]
fn lies_of_a_box_between_two_ports_cost_its_values() {
    let _turn = turn();
    let stated = &["--must-not-pass", "udp/60000"][..];
    let plain = |name, lie, every, found| Row {
        name,
        lie,
        every,
        which: ALL_FRAMES,
        factors: "",
        stated: &[],
        found: Some(found),
    };
    let rows = [
        Row { stated, found: None, ..plain("honest", HONEST, 0, (MarkKind::Note, "")) },
        Row {
            factors: "factors.ip = 6\nfactors.frame = 128",
            stated,
            found: None,
            ..plain("honest, IPv6", HONEST, 0, (MarkKind::Note, ""))
        },
        Row {
            stated,
            ..plain(
                "what is stated not to pass does above a rate",
                ALLOWS_WHEN_BUSY,
                0,
                (MarkKind::IllegalGotThrough, "the policy did not hold under load"),
            )
        },
        Row {
            factors: "factors.ip = 6\nfactors.frame = 128",
            stated,
            ..plain(
                "the same, IPv6",
                ALLOWS_WHEN_BUSY,
                0,
                (MarkKind::IllegalGotThrough, "the policy did not hold under load"),
            )
        },
        Row {
            factors: "factors.fragments = 2\nfactors.frame = 256",
            stated,
            ..plain(
                "the same, fragments",
                ALLOWS_WHEN_BUSY,
                0,
                (MarkKind::IllegalGotThrough, "the policy did not hold under load"),
            )
        },
        Row {
            factors: "factors.ip = 6\nfactors.frame = 128",
            ..plain("sent back, IPv6", SENDS_BACK, 1000, (MarkKind::WrongPort, "came out of the wrong port"))
        },
        Row {
            factors: "factors.fragments = 2\nfactors.frame = 256",
            which: SECOND_FRAGMENTS,
            ..plain("second fragments twice", DUPLICATES, 100, (MarkKind::Repeated, "arrived again"))
        },
        Row {
            factors: "factors.fragments = 2\nfactors.frame = 256\nfactors.ip = 6",
            which: SECOND_FRAGMENTS,
            ..plain("hop limit of second fragments", LEAVES_TTL, 100, (MarkKind::Altered, "TTL"))
        },
    ];
    let unknown = Unknown::new("liar");
    let filter = Filter::load(LIES);
    let links = unknown.ways(&filter);
    filter.attach("forward", &unknown.inside, &links);
    let mut wrong = Vec::new();
    for row in rows {
        filter.only("settings").set(&[row.lie, row.every, 0, row.which]);
        let test = format!("procedure = \"latency\"\nloads = [50000]\n{}", row.factors);
        let fits = |point: &Reading<'_>| match row.found {
            None => point.valid,
            Some((kind, words)) => {
                !point.valid && point.marks.iter().any(|mark| mark.kind == kind && mark.text.contains(words))
            }
        };
        let results = unknown.measured(0.3, &test, row.stated, fits);
        let points = of_box(&results);
        let may_be = |point: &Reading<'_>| fits(point) || row.found.is_none() && is_disturbed(point);
        if points.is_empty() || !points.iter().all(may_be) {
            wrong.push(format!("{}: {:?}", row.name, points.iter().map(|p| &p.marks).collect::<Vec<_>>()));
        }
        let beside = |p: &Reading<'_>| p.ledger().frames().map_or(0, |places| places.beside.forbidden_sent);
        if row.found.is_none() && points.iter().any(|p| p.valid && beside(p) < 5) {
            wrong.push(format!("{}: no forbidden frames went along", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A stateful box that enforces its policy only while it has time.
#[test]
fn connections_that_a_box_lets_through_under_load_cost_its_values() {
    let _turn = turn();
    let unknown = Unknown::new("lax-tcp");
    let table = |admits: &str| {
        format!(
            "table inet lax\ndelete table inet lax\ntable inet lax {{\nchain forward {{\n\
             type filter hook forward priority 0; policy accept;\n{admits}\ntcp dport 60000 drop\n}}\n}}\n"
        )
    };
    let test = "procedure = \"connection-establishment\"\nestablishment_rate = 4000\nfactors.connections = 4000\nfactors.flows = 4000";
    for (admits, valid) in [("", true), ("tcp flags syn limit rate over 200/second accept", false)] {
        unknown.inside.nft(&table(admits));
        let fits = |point: &Reading<'_>| {
            let said = point.marks.iter().any(|mark| {
                mark.kind == MarkKind::IllegalGotThrough
                    && mark.text.contains("the policy did not hold under load")
            });
            (point.valid, said) == (valid, !valid)
        };
        let results = unknown.measured(0.3, test, &["--must-not-pass", "tcp/60000"], fits);
        let points = of_box(&results);
        assert!(!points.is_empty());
        for point in points {
            assert!(fits(&point), "{admits}: {:?}", point.marks);
        }
    }
}

/// Work that another core does is no work of the core that the value is said to be of.
#[test]
fn a_box_that_has_another_core_work_for_it_has_no_value_of_one_core() {
    let _turn = turn();
    let unknown = Unknown::new("hidden");
    let mut filter = Filter::load(HIDDEN_WORK);
    filter.work_on("workers", 1, "work");
    let links = unknown.ways(&filter);
    let _attached = filter.attach_xdp("hand_over", &unknown.inside, &links);
    let marked = |point: &Reading<'_>| point.marks.iter().any(|mark| mark.kind == MarkKind::WorkElsewhere);
    // Between two ports a trial settles for two seconds, in which nobody works.
    let results = unknown.measured(
        2.0,
        "procedure = \"loss-curve\"\nstep = 0.5",
        &["--placement", "inline", "--dut", "wire"],
        marked,
    );
    let points = of_box(&results);
    assert!(!points.is_empty());
    assert!(
        points.iter().any(|point| !point.valid && marked(point)),
        "{:?}",
        points.iter().map(|p| &p.marks).collect::<Vec<_>>()
    );
}
