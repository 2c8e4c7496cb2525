//! What can go wrong between the bench and the kernel.

/// A fault of the generator or the sink. Lost frames are outcomes, not errors.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The kernel refused the BPF object.
    #[error(
        "the kernel refused the bench's BPF programs while {doing}: {source}; `rampart-bench doctor` tells what this kernel lacks"
    )]
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
    /// The request cannot be carried out.
    #[error("{0}")]
    Impossible(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl TrafficError {
    pub(crate) fn bpf(doing: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Bpf { doing, source }
    }

    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }
}
