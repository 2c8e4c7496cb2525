//! `rampart stations`: who is behind which interface of a bridge.

use super::shown;
use crate::api::{Operation, Station, Stations};
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::table::{Side, Table, span};
use rampart_client::Client;

pub(crate) fn stations(args: &AskArgs, json: bool) -> Result<String, Failure> {
    let stations: Stations = Client::new(args.socket.as_deref())?.ask(Operation::Stations, &[])?;
    shown(&stations, json, text)
}

fn text(stations: &Stations) -> String {
    if stations.stations.is_empty() {
        return "no stations: bridges of more than two interfaces learn them from their frames\n".to_owned();
    }
    let mut table = Table::new(&[
        ("bridge", Side::Left),
        ("VLAN", Side::Right),
        ("station", Side::Left),
        ("interface", Side::Left),
        ("last heard", Side::Right),
        ("there for", Side::Right),
        ("moved", Side::Left),
    ]);
    for station in &stations.stations {
        table.row([
            station.bridge.clone(),
            station.vlan.map_or_else(|| "-".to_owned(), |vlan| vlan.to_string()),
            station.address.clone(),
            station.interface.clone(),
            span(station.seen_seconds),
            span(station.moved_seconds),
            moved(station),
        ]);
    }
    format!("{}{}\n", table.text(), crate::table::of(stations.stations.len() as u64, "station"))
}

fn moved(station: &Station) -> String {
    if station.home != station.interface {
        return format!("from {}", station.home);
    }
    if station.claimed { "was elsewhere, too" } else { "-" }.to_owned()
}
