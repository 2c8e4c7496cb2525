//! Answers. In a policy whoever may open a flow gets its answers; in rule sets of netfilter that is a rule of its own, which may be
//! missing. What may open a flow whose answers the original drops is not carried over.

use crate::Options;
use crate::cube::Cube;
use crate::flatten::{self, Decider, Lists, Row, Way};
use crate::report::{Kind, Report};
use crate::ruleset::Ruleset;
use crate::words;
use policy::model::Action;
use policy::ranges::RangeSet;
use policy::service::{ICMP, ICMPV6, any_port, key};

/// Rows that are denied for the sake of one allowing row, unless it is what a chain leaves.
const MOST_EXCEPTIONS: usize = 16;

/// What is written of a way.
pub(crate) struct Written {
    pub(crate) way: Way,
    pub(crate) rows: Vec<Row>,
}

/// The rows of each way that are carried over.
pub(crate) fn kept(
    ruleset: &Ruleset,
    lists: &[Lists],
    options: &Options,
    report: &mut Report<'_>,
) -> Vec<Written> {
    let back = |way: Way| match way {
        Way::In => Way::Out,
        Way::Through => Way::Through,
        Way::Out => Way::In,
    };
    let mut all = Vec::new();
    for list in lists {
        let answers = lists.iter().find(|other| other.way == back(list.way));
        let answers = answers.map_or(&[][..], |list| &list.established);
        let mut rows = Vec::new();
        for row in &list.new {
            if row.decider == Decider::Nobody && !keep_unseen(ruleset, list.way, report) {
                continue;
            }
            if row.action != Action::Allow || options.answers {
                rows.push(row.clone());
                continue;
            }
            match exceptions(row, answers) {
                Ok(exceptions) => {
                    if let Some(exception) = exceptions.first() {
                        let why = format!(
                            "the original drops the answers to some of its packets ({}), so these are denied here",
                            place(ruleset, exception.decider)
                        );
                        flatten::add(ruleset, report, row.decider, Kind::Wider, why);
                    }
                    rows.extend(exceptions);
                    rows.push(row.clone());
                }
                Err(by) => {
                    let why = format!(
                        "the original drops the answers ({}), and here answers pass with their flow; --answers carries it over",
                        place(ruleset, by)
                    );
                    flatten::add(ruleset, report, row.decider, Kind::LeftOut, why);
                }
            }
        }
        all.push(Written { way: list.way, rows });
    }
    all
}

/// Whether packets that no chain sees are allowed, as the kernel does: only what the machine sends, and only if the text is the whole
/// rule set. What comes in is denied unless somebody wrote that it may.
fn keep_unseen(ruleset: &Ruleset, way: Way, report: &mut Report<'_>) -> bool {
    let families = match ruleset.families {
        [true, false] => "IPv6",
        [false, true] => "IPv4",
        _ => "some packets",
    };
    if way == Way::Out && ruleset.is_whole {
        return true;
    }
    let place = crate::ruleset::Place::default();
    if ruleset.is_whole {
        let why =
            format!("no chain sees all packets on the way `{}`, and what none sees is denied", way.words());
        report.add(place, Kind::LeftOut, "", why);
    } else {
        let why = format!("there is no rule set of {families} among the files, so {families} is denied");
        report.add(place, Kind::Note, "", why);
    }
    false
}

fn place(ruleset: &Ruleset, decider: Decider) -> String {
    match decider {
        Decider::Rule(chain, at) => format!("line {}", ruleset.chains[chain].rules[at].place.line),
        Decider::Policy(base) => format!("line {}, by policy", ruleset.bases[base].place.line),
        Decider::Nobody => "no rule accepts them".to_owned(),
    }
}

/// What of a row has to be denied because its answers are dropped; or what drops all of them.
fn exceptions(row: &Row, answers: &[Row]) -> Result<Vec<Row>, Decider> {
    let mut denied = Vec::new();
    for cube in &row.cubes {
        let Some(back) = reversed(cube) else { continue };
        let by = dropped(&back, answers)?;
        for (decider, dropped) in by {
            let Some(cube) = reversed_back(&dropped).common(cube) else { continue };
            denied.push(Row {
                cubes: vec![cube],
                action: Action::Deny,
                decider,
                trail: Vec::new(),
                logs: false,
                limit: None,
            });
        }
    }
    let of_policy = matches!(row.decider, Decider::Policy(_) | Decider::Nobody);
    match denied.get(MOST_EXCEPTIONS) {
        Some(row) if !of_policy => Err(row.decider),
        _ => Ok(denied),
    }
}

/// The parts of answers that are dropped before a row lets all that is left pass.
fn dropped(back: &Cube, answers: &[Row]) -> Result<Vec<(Decider, Cube)>, Decider> {
    let mut dropped = Vec::new();
    for row in answers {
        for cube in row.cubes.iter().filter(|cube| cube.meets(back)) {
            match row.action {
                Action::Allow if cube.covers(back) => return Ok(dropped),
                Action::Allow => {}
                _ if cube.covers(back) => return Err(row.decider),
                _ => dropped.extend(cube.common(back).map(|cube| (row.decider, cube))),
            }
        }
    }
    Err(dropped.last().map_or(Decider::Nobody, |(decider, _)| *decider))
}

/// The answers to packets; `None` if nothing answers them.
fn reversed(cube: &Cube) -> Option<Cube> {
    Some(turned(cube, replies)).filter(|cube| !cube.is_empty())
}

/// All packets that may have these answers: at least those.
fn reversed_back(answers: &Cube) -> Cube {
    turned(answers, |protocol, _| words::of_protocol(protocol).ranges().to_vec())
}

/// The packets of the other direction, those of ICMP as they are given.
fn turned(cube: &Cube, icmp: impl Fn(u8, &RangeSet<u32>) -> Vec<(u32, u32)>) -> Cube {
    let mut services = Vec::new();
    let mut ports = Vec::new();
    for protocol in words::protocols(&cube.services) {
        let of = cube.services.common(&words::of_protocol(protocol));
        if words::has_ports(protocol) {
            let sources = cube.source_ports.ranges();
            services
                .extend(sources.iter().map(|(a, b)| (key(protocol, *a as u16), key(protocol, *b as u16))));
            ports.extend(of.ranges().iter().map(|(a, b)| (a & 0xffff, b & 0xffff)));
            continue;
        }
        ports.extend(any_port().ranges());
        match protocol {
            ICMP | ICMPV6 => services.extend(icmp(protocol, &of)),
            _ => services.extend(words::of_protocol(protocol).ranges()),
        }
    }
    Cube {
        source: cube.destination.clone(),
        destination: cube.source.clone(),
        inside: cube.outside,
        outside: cube.inside,
        services: RangeSet::of(services),
        source_ports: RangeSet::of(ports),
        ..cube.clone()
    }
}

/// The replies to queries of ICMP.
fn replies(protocol: u8, of: &RangeSet<u32>) -> Vec<(u32, u32)> {
    let pairs: &[(u8, u8)] =
        if protocol == ICMP { &[(8, 0), (13, 14), (15, 16), (17, 18)] } else { &[(128, 129)] };
    let types = |kind: u8| (key(protocol, u16::from(kind) << 8), key(protocol, u16::from(kind) << 8 | 0xff));
    pairs
        .iter()
        .filter(|(query, _)| of.meets(&RangeSet::of([types(*query)])))
        .map(|(_, reply)| types(*reply))
        .collect()
}
