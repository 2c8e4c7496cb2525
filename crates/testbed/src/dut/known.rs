//! The known box: `xdp-redirect` with one behaviour more (`bpf/redirect/known.h`), of which it is known exactly how much. A bench that
//! measures it shows how true its own figures are. It is no firewall that suites can name.

/// What the box does beside forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing: what the others are compared with.
    OnlyForwards,
    /// A frame passes if it finds a token in a bucket.
    Bucket {
        /// From one token to the next, in nanoseconds, above 0.
        interval_ns: u64,
        /// Tokens that the bucket holds, at least 1.
        depth: u64,
    },
    /// Every frame waits for so many nanoseconds, up to 1,000,000, and holds its core meanwhile.
    Delay {
        /// Nanoseconds.
        ns: u64,
    },
    /// The last of so many frames is lost, at least 1.
    LosesOneIn(u64),
    /// A table of connections over IPv4; one for which there is no entry is refused by a reset.
    Table {
        /// Its entries, 1 to 65,536.
        entries: u64,
    },
    /// The last of so many connections over IPv4 is refused by a reset, at least 1.
    ResetsOneIn(u64),
    /// A connection over IPv4 is opened so many nanoseconds after the one before, up to 1,000,000. Its SYN holds the core meanwhile, and what
    /// comes behind it waits in the queue of the link.
    OpensOneEach {
        /// Nanoseconds.
        ns: u64,
    },
}

impl Behaviour {
    /// The globals `what`, `interval_ns`, `depth` and `one_in` of the program; the first is an `enum behaviour`.
    pub(super) const fn numbers(self) -> (u32, u64, u64, u64) {
        match self {
            Self::OnlyForwards => (0, 0, 0, 0),
            Self::Bucket { interval_ns, depth } => (1, interval_ns, depth, 0),
            Self::Delay { ns } => (2, ns, 0, 0),
            Self::LosesOneIn(one_in) => (3, 0, 0, one_in),
            Self::Table { entries } => (4, 0, entries, 0),
            Self::ResetsOneIn(one_in) => (5, 0, 0, one_in),
            Self::OpensOneEach { ns } => (6, ns, 0, 0),
        }
    }
}
