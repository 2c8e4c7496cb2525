//! What the policy itself knows of names: for whom, which addresses they have. Clients inside may know other addresses of a name than those outside.

use super::answer::{Answer, TooLong};
use super::name::{self, Wire, is_within};
use super::question::Question;
use crate::config::{Addresses, Dns};
use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{CharStr, Name, Record, Serial, Ttl};
use domain::rdata::{A, Aaaa, AllRecordData, Hinfo, Ptr, Soa};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// For how many seconds such answers hold: another policy may say something else.
pub(super) const LIFETIME: u32 = 60;
/// For how many seconds it holds that nobody gets all records of a name.
const LIFETIME_OF_ANY: u32 = 3600;

/// Names with their addresses, as some clients know them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Clients; `None`: everybody.
    pub source: Option<Addresses>,
    /// Addresses of names; none of names that only have others below them.
    pub names: BTreeMap<String, Vec<IpAddr>>,
    /// Names of addresses.
    pub addresses: BTreeMap<IpAddr, String>,
}

impl View {
    /// From files in the form of `/etc/hosts`: addresses, each with its names. What an earlier file says of a name, a later one does not change.
    pub fn new<'a>(
        source: Option<Addresses>,
        files: impl IntoIterator<Item = &'a [(IpAddr, Vec<String>)]>,
        local: &[String],
    ) -> Self {
        let mut view = Self { source, ..Self::default() };
        for file in files {
            let mut of_file: BTreeMap<&String, Vec<IpAddr>> = BTreeMap::new();
            for (address, names) in file {
                for name in names {
                    of_file.entry(name).or_default().push(*address);
                }
                if let Some(first) = names.first() {
                    view.addresses.entry(*address).or_insert_with(|| first.clone());
                }
            }
            for (name, mut addresses) in of_file {
                addresses.dedup();
                view.names.entry(name.clone()).or_insert(addresses);
            }
        }
        view.add_names_above(local);
        view
    }

    /// Names between a name and its zone exist, too (RFC 8020).
    fn add_names_above(&mut self, local: &[String]) {
        let names: Vec<String> = self.names.keys().cloned().collect();
        for known in names {
            let Some(zone) = zone_of(&known, local) else { continue };
            let above = std::iter::successors(name::parent(&known), |it| name::parent(it));
            for between in above.take_while(|it| name::is_below(it, zone)) {
                self.names.entry(between.to_owned()).or_default();
            }
        }
    }
}

/// The smallest of these zones that has a name.
fn zone_of<'a>(name: &str, zones: &'a [String]) -> Option<&'a str> {
    zones.iter().filter(|zone| is_within(name, zone)).max_by_key(|zone| zone.len()).map(String::as_str)
}

/// What the policy knows of a question; `None`: others are to be asked.
pub fn answer(dns: &Dns, client: IpAddr, question: &Question) -> Option<Answer> {
    let text = question.text.as_str();
    let view = dns.views.iter().find(|view| view.source.as_ref().is_none_or(|it| it.has(client)));
    let zone = zone_of(text, &dns.local);
    let known = view.and_then(|view| view.names.get(text));
    let of_zone = zone.unwrap_or(text);
    if let Some(addresses) = known {
        return match question.kind {
            Rtype::A | Rtype::AAAA => Some(of_addresses(question, addresses, of_zone)),
            // What browsers ask besides would lead around the address.
            Rtype::HTTPS | Rtype::SVCB => Some(nothing(question, of_zone, Rcode::NOERROR)),
            Rtype::ANY => None,
            _ => zone.map(|zone| nothing(question, zone, Rcode::NOERROR)),
        };
    }
    let of_address = view.zip(name::reversed(text)).and_then(|(view, address)| view.addresses.get(&address));
    if let Some(target) = of_address {
        return match (question.kind, Name::vec_from_str(target)) {
            (Rtype::PTR, Ok(target)) => Some(write(question, &[AllRecordData::Ptr(Ptr::new(target))])),
            (Rtype::ANY, _) => None,
            _ => Some(nothing(question, of_zone, Rcode::NOERROR)),
        };
    }
    let zone = zone?;
    match question.kind {
        Rtype::SOA if text == zone => Some(write(question, &[AllRecordData::Soa(soa(&question.name))])),
        _ if text == zone => Some(nothing(question, zone, Rcode::NOERROR)),
        _ => Some(nothing(question, zone, Rcode::NXDOMAIN)),
    }
}

/// What is answered about this machine.
pub fn localhost(question: &Question) -> Answer {
    of_addresses(question, &[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()], &question.text)
}

/// That there is no such name, by the authority of nobody but this gateway (RFC 6303 section 3).
pub fn no_such_name(question: &Question, zone: &str) -> Answer {
    nothing(question, zone, Rcode::NXDOMAIN)
}

/// What is answered to whoever wants all records of a name (RFC 8482).
pub fn of_any(question: &Question) -> Answer {
    let word = |bytes: &[u8]| CharStr::from_octets(bytes.to_vec()).unwrap_or_else(|_| CharStr::empty());
    let data = AllRecordData::Hinfo(Hinfo::new(word(b"RFC8482"), word(b"")));
    written(question, Rcode::NOERROR, [&[data], &[]], LIFETIME_OF_ANY, &question.name)
}

type Data = AllRecordData<Vec<u8>, Wire>;

fn of_addresses(question: &Question, addresses: &[IpAddr], zone: &str) -> Answer {
    let data: Vec<Data> = addresses
        .iter()
        .filter_map(|address| match (address, question.kind) {
            (IpAddr::V4(v4), Rtype::A) => Some(AllRecordData::A(A::new(*v4))),
            (IpAddr::V6(v6), Rtype::AAAA) => Some(AllRecordData::Aaaa(Aaaa::new(*v6))),
            _ => None,
        })
        .collect();
    if data.is_empty() { nothing(question, zone, Rcode::NOERROR) } else { write(question, &data) }
}

fn write(question: &Question, data: &[Data]) -> Answer {
    written(question, Rcode::NOERROR, [data, &[]], LIFETIME, &question.name)
}

/// That a name has nothing of the kind, or that there is none: the zone's record says for how long.
fn nothing(question: &Question, zone: &str, code: Rcode) -> Answer {
    let zone = Name::vec_from_str(zone).unwrap_or_else(|_| question.name.clone());
    let data = AllRecordData::Soa(soa(&zone));
    written(question, code, [&[], &[data]], LIFETIME, &zone)
}

fn soa(zone: &Wire) -> Soa<Wire> {
    let of_nobody = Name::vec_from_str("nobody.invalid").unwrap_or_else(|_| zone.clone());
    let seconds = Ttl::from_secs;
    Soa::new(
        zone.clone(),
        of_nobody,
        Serial::from(1),
        seconds(3600),
        seconds(1200),
        seconds(604_800),
        seconds(LIFETIME),
    )
}

fn written(question: &Question, code: Rcode, data: [&[Data]; 2], lifetime: u32, zone: &Wire) -> Answer {
    let asked = (&question.name, question.kind);
    let records = |owner: &Wire, data: &[Data]| -> Vec<Record<Wire, Data>> {
        data.iter()
            .map(|it| Record::new(owner.clone(), Class::IN, Ttl::from_secs(lifetime), it.clone()))
            .collect()
    };
    let [answer, authority] = [records(&question.name, data[0]), records(zone, data[1])];
    let [cut, none] = [&answer[..answer.len().min(MOST_RECORDS)], &[]];
    let attempt = |answer| Answer::write(asked, code, [answer, &authority[..]], lifetime, true);
    attempt(cut).or_else(|TooLong| attempt(none)).unwrap_or_else(|TooLong| Answer::empty(asked.0, asked.1))
}

/// Addresses of a name in an answer, at most.
const MOST_RECORDS: usize = 256;
