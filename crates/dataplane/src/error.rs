//! What can go wrong between the firewall and the kernel.

/// A fault of the data plane. A dropped packet is an outcome, not an error.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// The kernel refused something.
    #[error("{doing} failed: {source}")]
    Bpf {
        /// What was being done.
        doing: String,
        /// The loader's answer.
        source: libbpf_rs::Error,
    },
    /// A system call failed.
    #[error("{doing} failed: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// More rules than counters were made for.
    #[error(
        "the policy has {rules} rules, and the firewall was started for at most {most}; start it with room for more"
    )]
    TooManyRules {
        /// Rules of the policy.
        rules: u32,
        /// Counters.
        most: u32,
    },
    /// More rules with limits than there is room for.
    #[error(
        "rule `{rule}` is one too many: {rules} rules have `limit` or `alert`, and there can be {most}; a group of objects \
         says in one rule what would take many"
    )]
    TooManyLimits {
        /// The first that is too many.
        rule: String,
        /// Rules with limits or alerts.
        rules: u32,
        /// How many there can be.
        most: u32,
    },
    /// A policy with lists of addresses, and nothing is known of what is on them.
    #[error("the policy has lists of addresses, and what is on them has not been read")]
    NoLists,
    /// More interfaces, or zones, than there is room for.
    #[error("no room for {what}: there may be {most}")]
    NoRoom {
        /// What there is no room for.
        what: String,
        /// How many there may be.
        most: u32,
    },
    /// Somebody else's program is where the firewall's would be.
    #[error(
        "`{interface}` has {who}, which is not the firewall's: take it away (`ip link set dev {interface} xdp off`, \
         `tc filter del dev {interface} ...`), or choose the other hook with --hook"
    )]
    Occupied {
        /// The interface.
        interface: String,
        /// What is there, in words.
        who: String,
    },
    /// A size that cannot be.
    #[error("{what} must be from {least} to {most}, not {value}")]
    Size {
        /// What has the size.
        what: &'static str,
        /// The least.
        least: u32,
        /// The greatest.
        most: u32,
        /// What was asked for.
        value: u32,
    },
}

impl DataplaneError {
    pub(crate) fn bpf(doing: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Bpf { doing, source }
    }

    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}
