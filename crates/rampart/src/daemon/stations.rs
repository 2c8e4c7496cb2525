//! The stations that bridges have heard of.

use super::{Daemon, Refused};
use crate::api::Stations;

impl Daemon {
    /// By bridge, VLAN and address.
    pub(crate) fn stations(&self) -> Result<Stations, Refused> {
        self.with(|running| Ok(Stations { stations: running.attachments.plane.stations()? }))
    }
}
