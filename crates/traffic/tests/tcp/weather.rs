//! A filter before the bed's router that does to connections what bad firewalls do (`bpf/test/tcp_weather.bpf.c`).

use super::bed::Bed;
use testkit::filter::{Filter, Only, TCP_WEATHER};

/// What happens to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "not every test binary needs all")]
pub(crate) enum Weather {
    /// After any RST, whatever its sequence number, nothing of its connection passes.
    ForgetOnReset,
    /// With every SYN, the connection longest open is reset in both directions if it was silent for so long.
    ResetIdle {
        /// Milliseconds.
        ms: u32,
    },
    /// A FIN overtakes the acknowledgement before it.
    FinFirst,
}

/// The filter, attached. It goes with the bed.
pub(crate) struct Sky(Only);

impl Sky {
    pub(crate) fn over(bed: &Bed, weather: Weather) -> Self {
        let filter = Filter::load(TCP_WEATHER);
        let links = ["left", "right"].map(|link| bed.router().ifindex(link));
        // The kinds of `enum kind`, in its order.
        let (kind, ms) = match weather {
            Weather::ForgetOnReset => (1, 0),
            Weather::ResetIdle { ms } => (2, ms),
            Weather::FinFirst => (3, 0),
        };
        let mut bytes = [kind, ms, links[0], links[1]].map(u32::to_ne_bytes).concat();
        bytes.extend([2, 0, 0, 0, 0, 0x11, 0, 0, 2, 0, 0, 0, 0, 0x12, 0, 0]);
        filter.only("settings").set_bytes(bytes);
        filter.attach("filter", bed.router(), &links);
        Self(filter.only("hits"))
    }

    /// Connections or pairs of frames hit.
    pub(crate) fn hits(&self) -> u64 {
        self.0.count()
    }
}
