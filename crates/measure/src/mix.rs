//! Mixes of applications (RFC 9411 section 7.1): parts, each with its protocol, its files and its share, which one trial carries together.
//! A suite states them as data; here is what follows from such data: which share of the connections each part has, whose turn it is, and
//! whether what came out is what was asked for. Pure.

use crate::application::{GIF_BYTES, HTML_BYTES, KIB, MIXED_BYTES, Protocol, ZIP_BYTES};
use crate::ledger::Named;
use crate::open_loop::Sustained;
use crate::results::LatencySummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A level of the factor `protocol` that is a mix begins with this, and its name follows.
pub const PREFIX: &str = "mix:";
/// The factor whose levels are the parts of a mix, and the level that stands for all of them together.
pub const PART: &str = "part";
/// That level.
pub const ALL: &str = "all";
/// The most parts of a mix.
pub const MOST_PARTS: usize = 20;
/// What a part carried may be so much less or more than what was asked for, as a share of that: RFC 9411 calls traffic constant that is
/// within 5 % of its mean.
pub const MOST_OFF: f64 = 0.05;
/// The turns of parts are dealt one by one, so each may be a connection ahead or behind; so many more or fewer say nothing.
const GRAIN: f64 = 2.0;

/// A mix of applications, as a suite states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// Its name, without [`PREFIX`].
    pub name: String,
    /// One line for lists and reports.
    pub title: String,
    /// Where its shares come from.
    pub source: Option<String>,
    /// What the shares are of.
    pub shares: SharesOf,
    /// 2 to [`MOST_PARTS`] of them, whose shares sum to 1.
    pub parts: Vec<Part>,
}

/// What the shares of a mix are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SharesOf {
    /// Transactions: a login with its file and an HTTP request count the same.
    #[default]
    Transactions,
    /// Bytes of files.
    Bytes,
}

impl SharesOf {
    /// As suites and reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::Bytes => "bytes",
        }
    }
}

/// A part of a mix.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its name, unlike that of another part.
    pub name: String,
    /// What its transactions speak.
    pub protocol: Protocol,
    /// Which files they transfer.
    pub files: PartFiles,
    /// Transactions of a connection, at least 1.
    pub transactions: u32,
    /// Its share, above 0 and below 1.
    pub share: f64,
}

/// The files of a part, each as likely as another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartFiles {
    /// Those of the NSTL benchmark: HTML and GIF by HTTP, ZIP by FTP.
    Nstl,
    /// The ten objects of RFC 9411's table 4; by HTTP alone.
    Mixed,
    /// One of each of these sizes in KB of 1,024 bytes: HTML by HTTP, ZIP by FTP.
    Kb(Vec<u32>),
}

impl Part {
    /// Bytes of each of its files.
    pub fn sizes(&self) -> Vec<usize> {
        match (&self.files, self.protocol) {
            (PartFiles::Nstl, Protocol::Ftp(_)) => ZIP_BYTES.to_vec(),
            (PartFiles::Nstl, _) => [&HTML_BYTES[..], &GIF_BYTES].concat(),
            (PartFiles::Mixed, _) => MIXED_BYTES.to_vec(),
            (PartFiles::Kb(sizes), _) => sizes.iter().map(|kb| *kb as usize * KIB).collect(),
        }
    }

    /// Bytes of a file on the average.
    pub fn mean_bytes(&self) -> f64 {
        let sizes = self.sizes();
        sizes.iter().sum::<usize>() as f64 / sizes.len().max(1) as f64
    }

    /// Its files as suites write them.
    fn object(&self) -> String {
        match &self.files {
            PartFiles::Nstl => "nstl".to_owned(),
            PartFiles::Mixed => "mixed".to_owned(),
            PartFiles::Kb(sizes) => sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

impl Mix {
    /// The share of all transactions that each part has.
    pub fn transaction_shares(&self) -> Vec<f64> {
        match self.shares {
            SharesOf::Transactions => self.parts.iter().map(|part| part.share).collect(),
            SharesOf::Bytes => {
                whole(self.parts.iter().map(|part| part.share / part.mean_bytes().max(1.0)).collect())
            }
        }
    }

    /// The share of all connections that each part has.
    pub fn connection_shares(&self) -> Vec<f64> {
        let shares = self.transaction_shares().into_iter().zip(&self.parts);
        whole(shares.map(|(share, part)| share / f64::from(part.transactions)).collect())
    }

    /// Transactions of a connection on the average.
    pub fn transactions_a_connection(&self) -> f64 {
        let shares = self.connection_shares().into_iter().zip(&self.parts);
        shares.map(|(share, part)| share * f64::from(part.transactions)).sum()
    }

    /// As results state it.
    pub fn stated(&self) -> StatedMix {
        let part = |part: &Part| StatedPart {
            name: part.name.clone(),
            protocol: part.protocol.name().to_owned(),
            object: part.object(),
            transactions: part.transactions,
            share: part.share,
        };
        StatedMix {
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            shares: self.shares,
            parts: self.parts.iter().map(part).collect(),
        }
    }
}

/// Shares in the same ratios that sum to 1.
fn whole(shares: Vec<f64>) -> Vec<f64> {
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

/// A mix as results carry it: RFC 9411 section 7.1 has it reported beside the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatedMix {
    /// Name of the mix: a cell whose factor `protocol` is `mix:` and this name carried it.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// Where its shares come from, as the suite says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What the shares are of.
    pub shares: SharesOf,
    /// Its parts, in the order of the suite.
    pub parts: Vec<StatedPart>,
}

/// A part of a mix as results carry it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatedPart {
    /// Name of the part, for example `files`.
    pub name: String,
    /// What its transactions speak, for example `http/1.1`.
    pub protocol: String,
    /// Which files they transfer: `nstl`, `mixed`, or sizes in KB of 1,024 bytes.
    pub object: String,
    /// Transactions of a connection.
    pub transactions: u32,
    /// Its share, 0 to 1.
    pub share: f64,
}

/// Whose turn it is. The next connection is of the part that is farthest behind its share, so that even a short trial has the shares that
/// were asked for; and the next file of a part is the next one of its set.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    shares: Vec<f64>,
    connections: Vec<u64>,
    files: Vec<u64>,
}

impl Turns {
    /// Of the connections of a mix.
    pub fn of(mix: &Mix) -> Self {
        let count = mix.parts.len();
        Self { shares: mix.connection_shares(), connections: vec![0; count], files: vec![0; count] }
    }

    /// The part of the next connection; `None` where there are no parts.
    pub fn next_part(&mut self) -> Option<usize> {
        let next = (self.connections.iter().sum::<u64>() + 1) as f64;
        let behind = |place: &usize| self.shares[*place] * next - self.connections[*place] as f64;
        let part = (0..self.shares.len()).max_by(|a, b| behind(a).total_cmp(&behind(b)).then(b.cmp(a)))?;
        self.connections[part] += 1;
        Some(part)
    }

    /// How many files of a part were asked for before.
    pub fn next_file(&mut self, part: usize) -> u64 {
        let next = self.files[part];
        self.files[part] += 1;
        next
    }
}

/// What became of a mix in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MixOutcome {
    /// Name of the mix, for example `office`.
    pub name: String,
    /// What the shares are of.
    pub shares: SharesOf,
    /// Its parts, in the order of the suite.
    pub parts: Vec<PartOutcome>,
}

/// What became of a part of a mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartOutcome {
    /// Name of the part, for example `files`.
    pub name: String,
    /// The share that was asked for, of what the mix's shares are of.
    pub asked: f64,
    /// The share of the transactions that this comes to.
    pub expected: f64,
    /// Transactions of a connection.
    pub each: u32,
    /// Transactions begun, or due and not begun.
    pub begun: u64,
    /// Transactions completed.
    pub completed: u64,
    /// Those that failed, by how.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub failed: Named,
    /// Bytes of files that completed transactions brought.
    pub bytes: u64,
    /// Transactions completed within the seconds of load.
    pub in_time: u64,
    /// Bytes of files that these brought.
    pub bytes_in_time: u64,
    /// Times of completed transactions, as of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_ns: Option<LatencySummary>,
    /// To the first byte of the answer; of FTP nobody looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ns: Option<LatencySummary>,
    /// To the last byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_byte_ns: Option<LatencySummary>,
    /// What became of the sustained load; of an open loop alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Box<Sustained>>,
}

impl PartOutcome {
    /// The share of its transactions that did not complete.
    pub fn loss_ratio(&self) -> f64 {
        if self.begun == 0 { 0.0 } else { 1.0 - self.completed as f64 / self.begun as f64 }
    }

    /// By how much less than what was due its connections ended, as a share, where that is more than [`MOST_OFF`] and more than a few; of an
    /// open loop alone. A firewall that holds up one part ends the others in time. A load in which the part had no connection, or ended none, says
    /// nothing of it: it is not held.
    pub fn behind(&self) -> Option<f64> {
        let sustained = self.sustained.as_deref()?;
        if sustained.connections == 0 {
            return Some(1.0);
        }
        let due = sustained.due as f64 / sustained.seconds;
        let missing = 1.0 - sustained.held_rate() / due;
        (missing > MOST_OFF.max(GRAIN / sustained.due as f64)).then_some(missing)
    }

    /// How it failed, as the end of a sentence.
    fn failures(&self) -> String {
        let count: u64 = self.failed.values().sum();
        if count == 0 {
            return String::new();
        }
        let ways: Vec<String> = self.failed.iter().map(|(way, count)| format!("{way} {count}")).collect();
        format!("; {count} of {} failed ({})", self.begun, ways.join(", "))
    }
}

impl MixOutcome {
    /// The part of a name.
    pub fn part(&self, name: &str) -> Option<&PartOutcome> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// The share of the completed transactions, or of their bytes, that a part came out with; `None` where nothing completed.
    pub fn came_out(&self, part: &PartOutcome, of: SharesOf) -> Option<f64> {
        let count = |part: &PartOutcome| match of {
            SharesOf::Transactions => part.completed,
            SharesOf::Bytes => part.bytes,
        };
        let all: u64 = self.parts.iter().map(count).sum();
        (all > 0).then(|| count(part) as f64 / all as f64)
    }

    /// Every part whose share of the completed transactions is not what was asked for, or that had no turn, in words: then the trial carried
    /// another mix. Where some have too little, those that have too much for that are left out. Empty where nothing completed.
    pub fn off(&self) -> Vec<String> {
        let completed: u64 = self.parts.iter().map(|part| part.completed).sum();
        // By how much more than may be a part has too much, or too little.
        let beyond = |part: &PartOutcome| {
            let expected = part.expected * completed as f64;
            let more = part.completed as f64 - expected;
            let is_off = more.abs() > expected * MOST_OFF + GRAIN * f64::from(part.each);
            if is_off { more } else { 0.0 }
        };
        let words = |part: &PartOutcome| match self.came_out(part, SharesOf::Transactions) {
            _ if part.begun == 0 => format!("part {} had no turn among {completed} transactions", part.name),
            came => format!(
                "part {} had {:.1} % of the completed transactions instead of {:.1} %{}",
                part.name,
                came.unwrap_or(0.0) * 100.0,
                part.expected * 100.0,
                part.failures()
            ),
        };
        let among = |is_off: &dyn Fn(&PartOutcome) -> bool| -> Vec<String> {
            self.parts.iter().filter(|part| completed > 0 && is_off(part)).map(words).collect()
        };
        let short = among(&|part| part.begun == 0 || beyond(part) < 0.0);
        if short.is_empty() { among(&|part| beyond(part) > 0.0) } else { short }
    }

    /// Every part that is worse off than the whole, in words: its failures, and how far its connections were behind.
    pub fn worst(&self) -> Vec<String> {
        let words = |part: &PartOutcome| {
            let has_connections = part.sustained.as_ref().is_none_or(|sustained| sustained.due > 0);
            let behind = part.behind().map(|share| match has_connections {
                true => format!("; {:.0} % of what was due ended late", share * 100.0),
                false => "; no connection was due".to_owned(),
            });
            let said = format!("{}{}", part.failures(), behind.unwrap_or_default());
            (!said.is_empty()).then(|| format!("part {}: {}", part.name, said.trim_start_matches("; ")))
        };
        self.parts.iter().filter_map(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{FtpMode, FtpTransfer, FtpVerb};

    const FTP: Protocol = Protocol::Ftp(FtpTransfer { mode: FtpMode::Passive, verb: FtpVerb::Get });

    fn mix(shares: SharesOf, parts: &[(Protocol, PartFiles, u32, f64)]) -> Mix {
        let part = |(place, (protocol, files, transactions, share)): (usize, &(_, PartFiles, _, _))| Part {
            name: format!("part-{place}"),
            protocol: *protocol,
            files: files.clone(),
            transactions: *transactions,
            share: *share,
        };
        let parts = parts.iter().enumerate().map(part).collect();
        Mix { name: "m".into(), title: "M".into(), source: None, shares, parts }
    }

    fn near(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn shares_of_connections_follow_from_those_of_transactions_or_bytes() {
        let kb = |kb: u32| PartFiles::Kb(vec![kb]);
        for (shares, parts, transactions, connections, each) in [
            (
                SharesOf::Transactions,
                [(Protocol::Http11, kb(1), 1, 0.75), (FTP, kb(100), 1, 0.25)],
                [0.75, 0.25],
                [0.75, 0.25],
                1.0,
            ),
            // Ten a connection, so that a tenth of the connections is enough.
            (
                SharesOf::Transactions,
                [(Protocol::Http11, kb(1), 10, 0.5), (FTP, kb(100), 1, 0.5)],
                [0.5, 0.5],
                [1.0 / 11.0, 10.0 / 11.0],
                20.0 / 11.0,
            ),
            // Files of a hundred times the size, so that a hundredth of the transactions brings as many bytes.
            (
                SharesOf::Bytes,
                [(Protocol::Http2, kb(1), 1, 0.5), (FTP, PartFiles::Kb(vec![50, 150]), 1, 0.5)],
                [100.0 / 101.0, 1.0 / 101.0],
                [100.0 / 101.0, 1.0 / 101.0],
                1.0,
            ),
        ] {
            let mix = mix(shares, &parts);
            assert!(near(&mix.transaction_shares(), &transactions), "{:?}", mix.transaction_shares());
            assert!(near(&mix.connection_shares(), &connections), "{:?}", mix.connection_shares());
            assert!((mix.transactions_a_connection() - each).abs() < 1e-9, "{parts:?}");
        }
    }

    #[test]
    fn the_files_of_the_nstl_benchmark_are_those_of_the_report() {
        let parts = [(Protocol::Http10, PartFiles::Nstl, 1, 0.5), (FTP, PartFiles::Nstl, 1, 0.5)];
        let mix = mix(SharesOf::Transactions, &parts);
        let means: Vec<f64> = mix.parts.iter().map(Part::mean_bytes).collect();
        // 165 KB in 8 pages and 407.5 in 9 pictures; 480 in 4 archives.
        assert!(near(&means, &[572.5 * 1024.0 / 17.0, 120.0 * 1024.0]), "{means:?}");
    }

    /// However many connections there are, no part is as much as two ahead or behind.
    #[test]
    fn turns_keep_the_shares_at_every_moment() {
        let shares = [0.6, 0.25, 0.1, 0.049, 0.001];
        let parts = shares.map(|share| (Protocol::Http11, PartFiles::Mixed, 1, share));
        let mut turns = Turns::of(&mix(SharesOf::Transactions, &parts));
        let mut dealt = [0u64; 5];
        for number in 1..=5000 {
            dealt[turns.next_part().unwrap()] += 1;
            for (share, dealt) in shares.iter().zip(&dealt) {
                assert!((share * f64::from(number) - *dealt as f64).abs() < GRAIN, "{number}: {dealt}");
            }
        }
        assert_eq!(dealt[4], 5, "the smallest has its turns too");
        assert_eq!([turns.next_file(1), turns.next_file(1), turns.next_file(0)], [0, 1, 0]);
        assert_eq!(Turns::default().next_part(), None);
    }

    /// Parts of half the transactions each, of which so many were begun and completed.
    fn outcome(parts: [(u64, u64); 2]) -> MixOutcome {
        let part = |(place, (begun, completed)): (usize, (u64, u64))| PartOutcome {
            name: ["pages", "files"][place].into(),
            asked: 0.5,
            expected: 0.5,
            each: 1,
            begun,
            completed,
            failed: [("reset".to_owned(), begun - completed)].into_iter().filter(|(_, n)| *n > 0).collect(),
            bytes: completed * [1000, 3000][place],
            ..PartOutcome::default()
        };
        let parts = parts.into_iter().enumerate().map(part).collect();
        MixOutcome { name: "m".into(), shares: SharesOf::Transactions, parts }
    }

    #[test]
    fn a_part_that_came_out_with_another_share_is_named() {
        let lost = "part files had 0.0 % of the completed transactions instead of 50.0 %; 500 of 500 failed (reset 500)";
        for (parts, said) in [
            ([(500, 500), (500, 500)], None),
            // A connection more or less is nobody's fault.
            ([(3, 3), (5, 5)], None),
            ([(500, 500), (501, 480)], None),
            ([(500, 500), (500, 0)], Some(lost)),
            ([(500, 500), (500, 400)], Some("part files had 44.4 %")),
            ([(0, 0), (0, 0)], None),
            ([(1, 1), (0, 0)], Some("part files had no turn among 1 transactions")),
        ] {
            let off = outcome(parts).off().join("; ");
            assert!(said.map_or(off.is_empty(), |said| off.contains(said)), "{parts:?}: {off}");
        }
    }

    #[test]
    fn shares_come_out_of_transactions_and_of_bytes() {
        let outcome = outcome([(30, 30), (10, 10)]);
        let files = outcome.part("files").unwrap();
        assert_eq!(outcome.came_out(files, SharesOf::Transactions), Some(0.25));
        assert_eq!(outcome.came_out(files, SharesOf::Bytes), Some(0.5));
        let nothing = self::outcome([(1, 0), (1, 0)]);
        assert_eq!(nothing.came_out(&nothing.parts[0], SharesOf::Bytes), None);
        assert_eq!(
            nothing.worst(),
            ["part pages: 1 of 1 failed (reset 1)", "part files: 1 of 1 failed (reset 1)"]
        );
    }

    /// A part whose connections are held up is behind, even where the others end in time.
    #[test]
    fn a_part_that_is_held_up_is_behind() {
        let part = |due: u64, ended: u64| PartOutcome {
            sustained: Some(Box::new(Sustained {
                seconds: 1.0,
                due,
                connections: ended,
                ..Sustained::default()
            })),
            ..PartOutcome::default()
        };
        for (due, ended, is_behind) in [
            (100, 100, false),
            (100, 96, false),
            (100, 90, true),
            (100, 0, true),
            (3, 2, false),
            (3, 0, true),
            (1, 0, true),
            (0, 0, true),
        ] {
            assert_eq!(part(due, ended).behind().is_some(), is_behind, "{ended} of {due}");
        }
    }
}
