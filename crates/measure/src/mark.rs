//! Marks: what a reader must know about a value, one row a kind.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Something the reader must know about a point.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Mark {
    /// Kind.
    pub kind: MarkKind,
    /// Round that it is about, from 0, where it is about one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// How much of it there is, as a share of 1: by how much rounds differ, what the hypervisor took, how near to `wire`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// In words.
    pub text: String,
}

impl Mark {
    /// A mark in words.
    pub fn new(kind: MarkKind, text: impl Into<String>) -> Self {
        Self { kind, round: None, share: None, text: text.into() }
    }

    /// The same with its share.
    #[must_use]
    pub fn with_share(self, share: f64) -> Self {
        Self { share: Some(share), ..self }
    }
}

/// What a mark of [`MarkKind::NotMeasured`] says.
pub(crate) const NOT_MEASURED: &str = "not measured";
/// The same of a loss curve, which ends early.
pub(crate) const NOT_MEASURED_BELOW: &str = "not measured: two higher loads had shown no loss";

impl<'de> Deserialize<'de> for Mark {
    /// Earlier benches wrote a round without a value as a note with these words.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            kind: MarkKind,
            #[serde(default)]
            round: Option<u32>,
            #[serde(default)]
            share: Option<f64>,
            text: String,
        }
        let Written { mut kind, round, share, text } = Written::deserialize(deserializer)?;
        let of_round = text.split_once(": ").filter(|(of, _)| of.starts_with("round "));
        let words = of_round.map_or(text.as_str(), |(_, words)| words);
        if kind == MarkKind::Note && [NOT_MEASURED, NOT_MEASURED_BELOW].contains(&words) {
            kind = MarkKind::NotMeasured;
        }
        Ok(Self { kind, round, share, text })
    }
}

/// Kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// Within 10 % of the `wire` figure for the same frames: the generator may have been the limit.
    GeneratorLimited,
    /// The rounds differ by more than 10 % (EANTC), and more than the rounds of the other firewalls explain.
    Unstable,
    /// The policy could not be proved; the point is invalid.
    PolicyNotProved,
    /// The ledger does not sum to zero; the point is invalid.
    LedgerUnbalanced,
    /// The generator was behind its schedule; the point is invalid.
    GeneratorBehind,
    /// The firewall could not be set up, or it changed its mind, stopped or died during the trial; the point is invalid.
    FirewallFailed,
    /// Illegal traffic got through; the point is invalid.
    IllegalGotThrough,
    /// Traffic that the policy allows was dropped beside a load that passed; the point is invalid.
    AllowedDropped,
    /// Client and server disagree about what passed between them; the point is invalid.
    NotServed,
    /// The parts of a mix did not come out with the shares that were asked for; the point is invalid.
    SharesOff,
    /// Frames came out of another port than that of their destination; the point is invalid.
    WrongPort,
    /// Frames arrived more than once; the point is invalid.
    Repeated,
    /// Frames arrived damaged; the point is invalid.
    Damaged,
    /// Frames arrived with headers that a forwarder has no business to change; the point is invalid.
    Altered,
    /// Frames arrived that the generator never made; the point is invalid.
    Forged,
    /// Frames of no trial, or of an earlier one, arrived among those of the trial; the point is invalid.
    Foreign,
    /// The firewall cannot do what the test asks, so nothing was measured; the point is invalid.
    NotSupported,
    /// The search ended without a lower bound; the point is invalid.
    NoLowerBound,
    /// The search reached the highest load it may offer without loss.
    NoUpperBound,
    /// A few frames were lost at the load found, no more than ten in a million: the search took such losses for none, because
    /// which trials meet one is luck.
    RareLoss,
    /// The hypervisor took time.
    StolenTime,
    /// Other programs used the processors during the trials, although those were run again.
    ForeignLoad,
    /// The firewall had work done on cores that the trial does not own, so that the value is not one of so many cores; the
    /// point is invalid.
    WorkElsewhere,
    /// A firewall that enforces no policy stands here beside others that do: says no more than its role does.
    Baseline,
    /// A round has no such value, because it need not have measured it. The value is that of the other rounds.
    NotMeasured,
    /// Anything else.
    Note,
}

/// What reports say of a kind of marks, and what it does to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkRow {
    /// The kind.
    pub kind: MarkKind,
    /// In two or three words, for example `stolen time`.
    pub name: &'static str,
    /// Its letter in tables. Kinds that a table need not tell from one another share one.
    pub letter: char,
    /// Whether a point with such a mark may not be used.
    pub invalidates: bool,
    /// What the letter means.
    pub meaning: &'static str,
}

const fn row(
    kind: MarkKind,
    name: &'static str,
    letter: char,
    invalidates: bool,
    meaning: &'static str,
) -> MarkRow {
    MarkRow { kind, name, letter, invalidates, meaning }
}

const VALID: bool = false;
const INVALID: bool = true;

/// Every kind.
pub const MARKS: &[MarkRow] = &[
    row(
        MarkKind::GeneratorLimited,
        "generator-limited",
        'g',
        VALID,
        "generator-limited: within 10 % of the figure with nothing between, so the firewall may be faster",
    ),
    row(
        MarkKind::Unstable,
        "unstable",
        'u',
        VALID,
        "unstable: the rounds differ by more than 10 %, and more than those of the other firewalls explain; whether its ratio holds, the ratio's own interval tells",
    ),
    row(
        MarkKind::PolicyNotProved,
        "policy not proved",
        'p',
        INVALID,
        "invalid: the policy could not be proved",
    ),
    row(
        MarkKind::LedgerUnbalanced,
        "ledger unbalanced",
        'l',
        INVALID,
        "invalid: the ledger does not sum to zero",
    ),
    row(
        MarkKind::GeneratorBehind,
        "generator behind schedule",
        'b',
        INVALID,
        "invalid: the generator was behind its schedule",
    ),
    row(
        MarkKind::FirewallFailed,
        "firewall failed",
        'f',
        INVALID,
        "invalid: the firewall could not be set up, or it changed, stopped or died during a trial",
    ),
    row(
        MarkKind::IllegalGotThrough,
        "illegal traffic got through",
        'i',
        INVALID,
        "invalid: traffic that the policy forbids got through",
    ),
    row(
        MarkKind::AllowedDropped,
        "allowed traffic dropped",
        'k',
        INVALID,
        "invalid: beside a load that passed, the firewall dropped other traffic that its policy allows",
    ),
    row(
        MarkKind::NotServed,
        "client and server disagree",
        'd',
        INVALID,
        "invalid: client and server disagree about what passed between them",
    ),
    row(
        MarkKind::SharesOff,
        "shares of the mix off",
        'j',
        INVALID,
        "invalid: the parts of the mix did not come out with the shares that were asked for, so the value is one of another mix",
    ),
    row(
        MarkKind::WrongPort,
        "wrong port",
        'q',
        INVALID,
        "invalid: frames came out of another port than that of their destination",
    ),
    row(MarkKind::Repeated, "repeated frames", 't', INVALID, "invalid: frames arrived more than once"),
    row(MarkKind::Damaged, "damaged frames", 'v', INVALID, "invalid: frames arrived damaged"),
    row(
        MarkKind::Altered,
        "altered frames",
        'a',
        INVALID,
        "invalid: frames arrived with headers that a firewall has no business to change",
    ),
    row(
        MarkKind::Forged,
        "forged frames",
        'x',
        INVALID,
        "invalid: frames arrived that the generator never made",
    ),
    row(
        MarkKind::Foreign,
        "foreign frames",
        'y',
        INVALID,
        "invalid: frames of no trial, or of an earlier one, arrived among those of the trial",
    ),
    row(
        MarkKind::WorkElsewhere,
        "work done elsewhere",
        'e',
        INVALID,
        "invalid: the firewall used cores that the trial does not own",
    ),
    row(
        MarkKind::NotSupported,
        "not supported",
        'c',
        INVALID,
        "no value: the firewall cannot do what the test asks",
    ),
    row(
        MarkKind::NoLowerBound,
        "no lower bound found",
        'o',
        INVALID,
        "invalid: the search found no load that passes",
    ),
    row(
        MarkKind::NoUpperBound,
        "no upper bound found",
        'm',
        VALID,
        "the search reached the highest load that it may offer: the firewall may be faster",
    ),
    row(
        MarkKind::RareLoss,
        "rare loss",
        'r',
        VALID,
        "rare loss: a few frames were lost at this rate, no more than ten in a million; the remark has how many",
    ),
    row(
        MarkKind::StolenTime,
        "stolen time",
        's',
        VALID,
        "the hypervisor took processor time during the point",
    ),
    row(
        MarkKind::ForeignLoad,
        "foreign load",
        'w',
        VALID,
        "other programs used the processors during the point",
    ),
    row(MarkKind::Baseline, "baseline", 'n', VALID, "a note, in the list of remarks"),
    row(
        MarkKind::NotMeasured,
        "not measured",
        'h',
        VALID,
        "not measured in every round: the value is that of the others, and the remark says why",
    ),
    row(MarkKind::Note, "note", 'n', VALID, "a note, in the list of remarks"),
];

impl MarkKind {
    /// Its row in [`MARKS`].
    pub fn row(self) -> &'static MarkRow {
        let found = MARKS.iter().find(|row| row.kind == self);
        found.unwrap_or(&MARKS[MARKS.len() - 1])
    }

    /// Whether the firewall did what no firewall may do, so that no further trial makes up for it.
    pub const fn is_misconduct(self) -> bool {
        matches!(
            self,
            MarkKind::IllegalGotThrough
                | MarkKind::AllowedDropped
                | MarkKind::NotServed
                | MarkKind::WrongPort
                | MarkKind::Repeated
                | MarkKind::Damaged
                | MarkKind::Altered
                | MarkKind::Forged
                | MarkKind::Foreign
        )
    }

    /// Whether a point with such a mark may not be used.
    pub fn invalidates(self) -> bool {
        self.row().invalidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_its_row() {
        let schema = serde_json::to_value(schemars::schema_for!(MarkKind)).unwrap();
        let kinds = schema["oneOf"].as_array().unwrap();
        assert_eq!(kinds.len(), MARKS.len());
        for kind in kinds {
            let kind: MarkKind = serde_json::from_value(kind["const"].clone()).unwrap();
            assert_eq!(kind.row().kind, kind);
        }
        let letters: BTreeSet<char> = MARKS.iter().map(|row| row.letter).collect();
        assert_eq!(letters.len(), MARKS.len() - 1, "notes and baselines share theirs");
    }

    #[test]
    fn a_round_without_a_value_is_read_as_older_benches_wrote_it() {
        for (written, kind) in [
            ("not measured", MarkKind::NotMeasured),
            ("round 2: not measured", MarkKind::NotMeasured),
            ("round 3: not measured: two higher loads had shown no loss", MarkKind::NotMeasured),
            ("`wire` was not measured in this cell", MarkKind::Note),
            ("not measured by anybody", MarkKind::Note),
        ] {
            let mark = Mark { round: Some(1), share: Some(0.5), ..Mark::new(MarkKind::Note, written) };
            let read: Mark = serde_json::from_value(serde_json::to_value(&mark).unwrap()).unwrap();
            assert_eq!(read, Mark { kind, ..mark });
            let now = Mark::new(MarkKind::NotMeasured, written);
            assert_eq!(serde_json::from_value::<Mark>(serde_json::to_value(&now).unwrap()).unwrap(), now);
        }
    }
}
