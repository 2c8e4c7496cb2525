//! Names that rules of the packet filter go by. Whoever started the gateway learns their addresses, and says that the packet filter has them, before
//! a client does: the client's first packet may come at once. Plain names are looked up besides, so that their addresses are known when no client has
//! asked.

use super::super::{Shared, lock};
use super::{Key, find};
use crate::config::{Dns, Gateway, Protocol};
use crate::dns::answer::Answer;
use crate::dns::decide::{self, Own};
use crate::dns::name::Wire;
use crate::event::Learned;
use domain::base::Name;
use domain::base::iana::Rtype;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Addresses of an answer that are announced.
const MOST_ADDRESSES: usize = 1024;
/// Names of which it is remembered that they were announced.
const MOST_REMEMBERED: usize = 4096;
/// How long a client's answer waits for the packet filter: whoever asks waits for 5 s.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked which names are to be looked up, and how soon the same is at the earliest.
const LOOK: Duration = Duration::from_millis(250);
const LEAST: Duration = Duration::from_secs(4);

/// A name, and which addresses of it: `A` or `AAAA`.
type About = (String, Rtype);
/// The addresses that were announced of it, and until when they hold.
type Known = (Vec<IpAddr>, Instant);

/// What has been announced to the packet filter, and who waits for its acknowledgement.
#[derive(Debug, Default)]
pub(in super::super) struct Announcements {
    to: OnceLock<SyncSender<Learned>>,
    known: Mutex<HashMap<About, Known>>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    count: AtomicU64,
}

impl Announcements {
    /// From now on names are announced to this one.
    pub(in super::super) fn set(&self, to: SyncSender<Learned>) {
        let _ = self.to.set(to);
    }

    /// The packet filter has what was announced by these numbers.
    pub(in super::super) fn acknowledged(&self, numbers: &[u64]) {
        let mut waiting = lock(&self.waiting);
        for number in numbers {
            // Who waited may have given up.
            waiting.remove(number).map(|waiting| waiting.send(()));
        }
    }

    /// Other names count from now on.
    pub(in super::super) fn forget(&self) {
        lock(&self.known).clear();
    }

    fn is_known(&self, key: &About, addresses: &[IpAddr], until: Instant) -> bool {
        lock(&self.known).get(key).is_some_and(|(known, end)| known == addresses && until <= *end)
    }

    fn note(&self, key: About, addresses: Vec<IpAddr>, until: Instant) {
        let mut known = lock(&self.known);
        if known.len() >= MOST_REMEMBERED {
            // Whoever asks for thousands of names has others announced anew, and nothing else.
            known.clear();
        }
        known.insert(key, (addresses, until));
    }
}

/// Whether rules of the packet filter go by the addresses of a name.
fn is_wanted(dns: &Dns, name: &str, kind: Rtype) -> bool {
    matches!(kind, Rtype::A | Rtype::AAAA) && dns.domains.iter().any(|it| decide::is_name(it, name))
}

/// The addresses of an answer that the packet filter has to have before a client does; `None` if it has them, or needs none.
pub(super) fn to_announce(
    shared: &Shared,
    dns: &Dns,
    (name, kind): (&str, Rtype),
    answer: &Answer,
    left: u32,
) -> Option<Vec<IpAddr>> {
    let addresses = || answer.addresses(MOST_ADDRESSES);
    is_wanted(dns, name, kind).then(|| news(shared, (name, kind), addresses(), left)).flatten()
}

/// Addresses that are to be announced; `None` if there are none, or it was done.
fn news(
    shared: &Shared,
    (name, kind): (&str, Rtype),
    addresses: Vec<IpAddr>,
    left: u32,
) -> Option<Vec<IpAddr>> {
    let until = Instant::now() + Duration::from_secs(left.into());
    let is_known = shared.dns.announced.is_known(&(name.to_owned(), kind), &addresses, until);
    (!addresses.is_empty() && !is_known).then_some(addresses)
}

/// Announces addresses that hold for so many seconds. False if the packet filter does not have them in time.
pub(super) async fn announce(
    shared: &Shared,
    (name, kind): (&str, Rtype),
    addresses: Vec<IpAddr>,
    left: u32,
) -> bool {
    let announced = &shared.dns.announced;
    let until = Instant::now() + Duration::from_secs(left.into());
    let Some(to) = announced.to.get() else { return true };
    // No number of an earlier process is one of this.
    let number =
        u64::from(std::process::id()) << 32 | announced.count.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff;
    let (sender, receiver) = oneshot::channel();
    lock(&announced.waiting).insert(number, sender);
    let learned = Learned { number, name: name.to_owned(), addresses: addresses.clone(), lifetime: left };
    let is_taken = to.try_send(learned).is_ok() && matches!(timeout(PATIENCE, receiver).await, Ok(Ok(())));
    lock(&announced.waiting).remove(&number);
    if is_taken {
        announced.note((name.to_owned(), kind), addresses, until);
    }
    is_taken
}

/// Looks plain names up, for ever: when a policy names them, and when what is known of them ends.
pub(super) async fn look_up(shared: Arc<Shared>) {
    let next: Rc<RefCell<HashMap<About, Instant>>> = Rc::default();
    loop {
        let gateway = shared.gateway();
        let wanted = plain_names(&gateway);
        next.borrow_mut().retain(|key, _| wanted.contains(key));
        let now = Instant::now();
        for key in wanted {
            if next.borrow().get(&key).is_some_and(|at| now < *at) {
                continue;
            }
            next.borrow_mut().insert(key.clone(), now + gateway.limits.answer_time + PATIENCE + LEAST);
            let (shared, gateway, next) = (Arc::clone(&shared), Arc::clone(&gateway), Rc::clone(&next));
            tokio::task::spawn_local(async move {
                let left = look_up_one(&shared, &gateway, &key.0, key.1).await;
                let time = left.map_or(LEAST, |left| Duration::from_secs(left.into()).max(LEAST));
                next.borrow_mut().insert(key, Instant::now() + time);
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn plain_names(gateway: &Gateway) -> Vec<About> {
    let Protocol::Dns(dns) = &gateway.protocol else { return Vec::new() };
    let plain = dns.domains.iter().filter(|name| !name.starts_with("*."));
    plain.flat_map(|name| [(name.clone(), Rtype::A), (name.clone(), Rtype::AAAA)]).collect()
}

/// Looks a name up and announces it; for how many seconds that holds. `None`: nobody could say, or the packet filter does not have it.
async fn look_up_one(shared: &Shared, gateway: &Gateway, name: &str, kind: Rtype) -> Option<u32> {
    let Protocol::Dns(dns) = &gateway.protocol else { return None };
    let (addresses, left) = match decide::own(gateway, dns, name) {
        Own::Known(addresses, left) => (addresses, left),
        Own::Nobody => return None,
        Own::Ask { private_answers } => {
            let wire: Wire = Name::vec_from_str(name).ok()?;
            let key = Key { name: wire, kind, signatures: false, unchecked: false };
            let (outcome, left) = find(shared, gateway, &key, gateway.listen.ip()).await;
            let answer = outcome?;
            if answer.is_private && !private_answers {
                return None;
            }
            (answer.addresses(MOST_ADDRESSES), left)
        }
    };
    let addresses = addresses.into_iter().filter(|it| it.is_ipv4() == (kind == Rtype::A)).collect();
    match news(shared, (name, kind), addresses, left) {
        Some(addresses) => announce(shared, (name, kind), addresses, left).await.then_some(left),
        None => Some(left),
    }
}
