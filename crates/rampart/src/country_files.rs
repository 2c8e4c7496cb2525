//! Countries from MaxMind DB files (<https://maxmind.github.io/MaxMind-DB/>), such as GeoLite2 Country and tables that others publish in this form. A
//! file may come from anywhere: its tree is walked no further than a tree of its size can go.

use ipnet::IpNet;
use maxminddb::{PathElement, Reader, WithinOptions};
use policy::address::AddressSet;
use policy::ranges::RangeSet;
use std::collections::HashMap;
use std::net::IpAddr;

/// What stands before the description of a file, in its last part.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
/// That part's length.
pub(crate) const LAST_PART: u64 = 128 << 10;

/// Where a record has the code of its country.
const CODE: [PathElement<'static>; 2] = [PathElement::Key("country"), PathElement::Key("iso_code")];

/// Whether a file is a MaxMind DB, by its last part.
pub(crate) fn is_database(last_part: &[u8]) -> bool {
    last_part.windows(MARKER.len()).any(|bytes| bytes == MARKER)
}

/// The addresses of some countries, whose codes are in upper case.
///
/// # Errors
/// A phrase that says what is wrong with the file; callers write the name of the file before it.
pub(crate) fn read(bytes: Vec<u8>, codes: &[String]) -> Result<AddressSet, String> {
    if codes.is_empty() {
        let what = "is a MaxMind DB file: write which countries are meant (countries = [\"CH\"], or \"country:CH\" in a rule)";
        return Err(what.to_owned());
    }
    let unreadable =
        |error: maxminddb::MaxMindDbError| format!("is no MaxMind DB file that can be read: {error}");
    let reader = Reader::from_source(bytes).map_err(unreadable)?;
    let kind = reader.metadata().database_type.clone();
    // Nodes of a tree have so many ends; a file whose nodes lead back to others has more.
    let mut ends = u64::from(reader.metadata().node_count) + 1;
    // Many networks share a record.
    let mut wanted: HashMap<usize, Option<usize>> = HashMap::new();
    let mut found = vec![false; codes.len()];
    let mut has_countries = false;
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for result in
        reader.networks(WithinOptions::default().include_networks_without_data()).map_err(unreadable)?
    {
        let result = result.map_err(unreadable)?;
        ends = ends
            .checked_sub(1)
            .ok_or("is no MaxMind DB file that can be read: its tree leads back to itself")?;
        let Some(record) = result.offset() else { continue };
        let place = match wanted.get(&record) {
            Some(known) => *known,
            None => {
                let code = result.decode_path::<String>(&CODE).map_err(unreadable)?;
                has_countries |= code.is_some();
                let place =
                    code.and_then(|code| codes.iter().position(|wanted| wanted.eq_ignore_ascii_case(&code)));
                wanted.insert(record, place);
                place
            }
        };
        let Some(place) = place else { continue };
        found[place] = true;
        let network = result.network().map_err(unreadable)?;
        let network = IpNet::new(network.ip(), network.prefix())
            .map_err(|_| "has a network that is none".to_owned())?;
        match (network.network(), network.broadcast()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => v4.push((first.into(), last.into())),
            (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.into(), last.into())),
            _ => {}
        }
    }
    if !has_countries {
        return Err(format!(
            "is a MaxMind DB file that knows no countries ({kind}): take one with `country` and `iso_code`"
        ));
    }
    let missing: Vec<&str> =
        codes.iter().zip(&found).filter(|(_, found)| !**found).map(|(code, _)| code.as_str()).collect();
    if !missing.is_empty() {
        return Err(format!("no network has the country {}", missing.join(", ")));
    }
    Ok(AddressSet { v4: RangeSet::of(v4), v6: RangeSet::of(v6) })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file as MaxMind's programs write it, with records of 24 bits: networks, each with the code of a country.
    pub(crate) fn database(key: &str, networks: &[(&str, &str)]) -> Vec<u8> {
        const NONE: u32 = u32::MAX;
        let mut nodes = vec![[NONE; 2]];
        let mut ends: Vec<(usize, usize, usize)> = Vec::new();
        let mut data = Vec::new();
        for (network, code) in networks {
            let network: IpNet = network.parse().unwrap();
            let (bits, length) = match network {
                IpNet::V4(v4) => (u128::from(u32::from(v4.network())), 96 + usize::from(v4.prefix_len())),
                IpNet::V6(v6) => (v6.network().into(), usize::from(v6.prefix_len())),
            };
            let mut node = 0;
            for depth in 0..length {
                let side = (bits >> (127 - depth) & 1) as usize;
                if depth + 1 == length {
                    ends.push((node, side, data.len()));
                } else if nodes[node][side] == NONE {
                    nodes[node][side] = nodes.len() as u32;
                    nodes.push([NONE; 2]);
                    node = nodes.len() - 1;
                } else {
                    node = nodes[node][side] as usize;
                }
            }
            data.extend([[0xe1].as_slice(), &text(key), &[0xe1], &text("iso_code"), &text(code)].concat());
        }
        let count = nodes.len() as u32;
        for (node, side, at) in ends {
            nodes[node][side] = count + 16 + at as u32;
        }
        let record =
            |number: &u32| (if *number == NONE { count } else { *number }).to_be_bytes()[1..].to_vec();
        let tree: Vec<u8> = nodes.iter().flatten().flat_map(record).collect();
        [tree, vec![0; 16], data, description(count)].concat()
    }

    fn text(text: &str) -> Vec<u8> {
        [&[0x40 | text.len() as u8], text.as_bytes()].concat()
    }

    fn description(nodes: u32) -> Vec<u8> {
        let small = |number: u8| vec![0xa1, number];
        let entries: [(&str, Vec<u8>); 9] = [
            ("node_count", [[0xc4].as_slice(), &nodes.to_be_bytes()].concat()),
            ("record_size", small(24)),
            ("ip_version", small(6)),
            ("database_type", text("Test-Country")),
            ("languages", vec![0x00, 0x04]),
            ("binary_format_major_version", small(2)),
            ("binary_format_minor_version", small(0)),
            ("build_epoch", vec![0x01, 0x02, 1]),
            ("description", vec![0xe0]),
        ];
        let map: Vec<u8> =
            entries.iter().flat_map(|(key, value)| [text(key), value.clone()].concat()).collect();
        [MARKER, &[0xe0 | entries.len() as u8], &map].concat()
    }

    const NETWORKS: [(&str, &str); 5] = [
        ("192.0.2.0/24", "CH"),
        ("198.51.100.0/25", "DE"),
        ("198.51.100.128/25", "CH"),
        ("2001:db8::/32", "CH"),
        ("10.0.0.1/32", "LI"),
    ];

    fn codes(codes: &[&str]) -> Vec<String> {
        codes.iter().map(|code| (*code).to_owned()).collect()
    }

    #[test]
    fn networks_of_countries() {
        let file = database("country", &NETWORKS);
        assert!(is_database(&file));
        for (wanted, expected) in [
            (codes(&["CH"]), "192.0.2.0/24 198.51.100.128/25 2001:db8::/32"),
            (codes(&["DE", "LI"]), "198.51.100.0/25 10.0.0.1"),
            (codes(&["CH", "DE"]), "192.0.2.0/24 198.51.100.0/24 2001:db8::/32"),
        ] {
            let expected: Vec<AddressSet> =
                expected.split(' ').map(|it| AddressSet::parse(it).unwrap()).collect();
            assert_eq!(read(file.clone(), &wanted), Ok(AddressSet::union(&expected)), "{wanted:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let whole = database("country", &NETWORKS);
        let mut loop_ = whole.clone();
        // Both sides of the first nodes lead back to the root.
        for node in 0..3 {
            loop_[node * 6..node * 6 + 6].fill(0);
        }
        for (file, wanted, expected) in [
            (whole.clone(), codes(&[]), "write which countries"),
            (whole.clone(), codes(&["CH", "FR", "IT"]), "no network has the country FR, IT"),
            (database("continent", &NETWORKS), codes(&["CH"]), "knows no countries (Test-Country)"),
            (whole[whole.len() - 200..].to_vec(), codes(&["CH"]), "no MaxMind DB file that can be read"),
            (whole[..whole.len() - 20].to_vec(), codes(&["CH"]), "no MaxMind DB file that can be read"),
            (loop_, codes(&["CH"]), "no MaxMind DB file that can be read"),
            (MARKER.to_vec(), codes(&["CH"]), "no MaxMind DB file that can be read"),
        ] {
            let why = read(file, &wanted).unwrap_err();
            assert!(why.contains(expected), "{why}: {expected}");
        }
    }

    /// Each byte of a file is changed once: it is read or refused, and never hangs or panics.
    #[test]
    fn damaged_files_end_soon() {
        let whole = database("country", &NETWORKS);
        for at in 0..whole.len() {
            for change in [0xff, 0x01, 0x80] {
                let mut file = whole.clone();
                file[at] ^= change;
                let _ = read(file, &codes(&["CH"]));
            }
        }
    }
}
