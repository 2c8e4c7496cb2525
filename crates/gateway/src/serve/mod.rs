//! The sockets of a gateway: clients are accepted by a thread for each processor, each with its own connections to servers. Every wait has an end.

mod client;
mod client_names;
mod decisions;
mod dns;
mod forward;
mod ftp;
mod logins;
mod name_server;
mod page;
mod pool;
mod relay;
mod resolve;
mod tunnel;
mod upstream;

use crate::config::{Gateway, Protocol};
use crate::decide::{Asked, Decision};
use crate::dns::lookup;
use crate::event::{Counts, Event, Learned};
use crate::reach;
use decisions::{Decisions, Question};
use passwords::throttle::network;
use pool::Pool;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Threads at most.
const MOST_THREADS: usize = 8;
/// How long a thread rests that cannot accept, because there are no descriptors left.
const REST: Duration = Duration::from_millis(100);
/// How often connections to servers are looked through that nobody needs any more.
const LOOK_THROUGH: Duration = Duration::from_secs(10);
/// Connections that may wait to be accepted, if the kernel's own limit is not lower.
const BACKLOG: i32 = 1024;
/// How long it is known whether an address may be connected to, and of how many.
const REACHED_FOR: Duration = Duration::from_secs(1);
const KNOWN_ADDRESSES: usize = 4096;

/// A gateway that runs until its process ends.
#[derive(Debug)]
pub struct Server {
    gateway: watch::Sender<Arc<Gateway>>,
    shared: Arc<Shared>,
}

/// What its threads share.
#[derive(Debug)]
struct Shared {
    gateway: watch::Receiver<Arc<Gateway>>,
    /// The name servers of the machine.
    resolvers: Vec<SocketAddr>,
    names: Mutex<lookup::Cache>,
    client_names: Mutex<client_names::ClientNames>,
    decisions: Mutex<Decisions>,
    clients: Mutex<HashMap<IpAddr, u32>>,
    expected: ftp::Expected,
    logins: logins::Logins,
    dns: dns::State,
    counted: Counted,
    events: SyncSender<Event>,
}

#[derive(Debug, Default)]
struct Counted {
    open: AtomicU64,
    connections: AtomicU64,
    turned_away: AtomicU64,
    carried: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    to_servers: AtomicU64,
    reused: AtomicU64,
    suppressed: AtomicU64,
}

/// What a thread has for itself.
struct Local {
    shared: Arc<Shared>,
    pool: RefCell<Pool>,
    /// Whether addresses that transparent clients ask for may be connected to, as it was found a moment ago.
    reached: RefCell<HashMap<IpAddr, (Option<&'static str>, Instant)>>,
    /// How many threads there are.
    threads: usize,
}

impl Server {
    /// Serves a listener. `resolvers` are the name servers of the machine, and events go to `events` as far as there is room.
    ///
    /// # Errors
    /// The kernel has no descriptors or threads left.
    pub fn start(
        gateway: Gateway,
        listener: TcpListener,
        resolvers: Vec<SocketAddr>,
        events: SyncSender<Event>,
    ) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(Arc::new(gateway));
        let shared = Arc::new(Shared {
            gateway: receiver,
            resolvers,
            names: Mutex::default(),
            client_names: Mutex::default(),
            decisions: Mutex::default(),
            clients: Mutex::default(),
            expected: ftp::Expected::default(),
            logins: logins::Logins::new()?,
            dns: dns::State::default(),
            counted: Counted::default(),
            events,
        });
        listener.set_nonblocking(true)?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = processors.min(MOST_THREADS);
        for _ in 0..threads {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (listener, shared) = (listener.try_clone()?, Arc::clone(&shared));
            std::thread::Builder::new().spawn(move || {
                let local =
                    Rc::new(Local { shared, pool: RefCell::default(), reached: RefCell::default(), threads });
                LocalSet::new().block_on(&runtime, accept(listener, local))
            })?;
        }
        Ok(Self { gateway: sender, shared })
    }

    /// Serves datagrams, too, by a thread of its own.
    ///
    /// # Errors
    /// The kernel has no descriptors or threads left.
    pub fn serve_datagrams(&self, socket: UdpSocket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().spawn(move || {
            LocalSet::new().block_on(&runtime, dns::serve_datagrams(socket, shared));
        })?;
        Ok(())
    }

    /// From now on it does this. Requests that are under way end as they began; tunnels are judged again. Where it listens stays.
    pub fn set(&self, gateway: Gateway) {
        let before = self.shared.gateway();
        let asks_others = before.resolvers != gateway.resolvers;
        let has_other_domains = domains(&before) != domains(&gateway);
        self.gateway.send_replace(Arc::new(gateway));
        if has_other_domains {
            self.shared.dns.announced.forget();
        }
        if asks_others {
            self.shared.dns.forget();
        }
    }

    /// Announces the addresses of domains from now on, as far as there is room. A client hears of them when [`Server::acknowledged`] says that the packet
    /// filter has them.
    pub fn announce_to(&self, to: SyncSender<Learned>) {
        self.shared.dns.announced.set(to);
    }

    /// The packet filter has what was announced by these numbers.
    pub fn acknowledged(&self, numbers: &[u64]) {
        self.shared.dns.announced.acknowledged(numbers);
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        let counted = &self.shared.counted;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            open: read(&counted.open),
            connections: read(&counted.connections),
            turned_away: read(&counted.turned_away),
            carried: read(&counted.carried),
            refused: read(&counted.refused),
            failed: read(&counted.failed),
            to_servers: read(&counted.to_servers),
            reused: read(&counted.reused),
            suppressed: read(&counted.suppressed),
        }
    }
}

/// Names whose addresses are announced.
fn domains(gateway: &Gateway) -> &[String] {
    match &gateway.protocol {
        Protocol::Dns(dns) => &dns.domains,
        _ => &[],
    }
}

/// A socket that listens at an address. `transparent` is the mark by which the packet filter knows a socket that it may give connections to other
/// addresses; to set it takes CAP_NET_RAW or CAP_NET_ADMIN.
///
/// # Errors
/// The address is nobody's here, or somebody else has it.
pub fn listen(address: SocketAddr, transparent: Option<u32>) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!(transparent.is_some() && address.ip().is_unspecified()))?;
    }
    if let Some(mark) = transparent {
        // One flag for both families.
        socket.set_ip_transparent_v4(true)?;
        socket.set_mark(mark)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket for datagrams at an address.
///
/// # Errors
/// The address is nobody's here, or somebody else has it.
pub fn listen_datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

async fn accept(listener: TcpListener, local: Rc<Local>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let pool_of = Rc::clone(&local);
    tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(LOOK_THROUGH).await;
            pool_of.pool.borrow_mut().look_through(Instant::now());
        }
    });
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let local = Rc::clone(&local);
                tokio::task::spawn_local(async move { client::serve(&local, stream, from).await });
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

impl Local {
    /// Why nothing is connected to at an address that a transparent client asks for; `None` if it may be.
    fn refusal(&self, address: IpAddr, gateway: &Gateway) -> Option<&'static str> {
        let now = Instant::now();
        let mut reached = self.reached.borrow_mut();
        if let Some((refusal, until)) = reached.get(&address)
            && now < *until
        {
            return *refusal;
        }
        if reached.len() >= KNOWN_ADDRESSES {
            reached.clear();
        }
        let refusal = reach::refusal(address, &gateway.reach, reach::is_own);
        reached.insert(address, (refusal, now + REACHED_FOR));
        refusal
    }
}

impl Shared {
    fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway.borrow())
    }

    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Records an event, with the name of its client if the gateway looks names of clients up.
    fn record(self: &Arc<Self>, event: Event) {
        if self.gateway.borrow().client_names { client_names::record(self, event) } else { self.send(event) }
    }

    fn send(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            Self::count(&self.counted.suppressed);
        }
    }

    /// What is decided about a request; as before, if it was decided lately under the same rules.
    fn decide(
        &self,
        gateway: &Arc<Gateway>,
        question: impl FnOnce() -> Question,
        decide: impl FnOnce() -> Decision,
    ) -> Decision {
        if !decisions::are_kept(gateway) {
            return decide();
        }
        let (now, question) = (Instant::now(), question());
        if let Some(known) = lock(&self.decisions).known(gateway, &question, now) {
            return known;
        }
        // Without the lock: who decides about something new keeps nobody else waiting.
        let decision = decide();
        lock(&self.decisions).keep(gateway, question, &decision, now);
        decision
    }

    /// Counts a client's connection, if there may be one more.
    fn admit(self: &Arc<Self>, client: IpAddr) -> Option<Admitted> {
        let gateway = self.gateway();
        let key = network(client);
        let mut clients = lock(&self.clients);
        let of_client = clients.entry(key).or_default();
        let is_full = self.counted.open.load(Ordering::Relaxed) >= u64::from(gateway.limits.connections);
        if is_full || *of_client >= gateway.limits.connections_per_client {
            if *of_client == 0 {
                clients.remove(&key);
            }
            Self::count(&self.counted.turned_away);
            return None;
        }
        *of_client += 1;
        Self::count(&self.counted.open);
        Some(Admitted { shared: Arc::clone(self), key })
    }
}

impl Asked {
    fn question(&self, client: IpAddr, method: &str) -> Question {
        Question {
            client,
            method: method.to_owned(),
            host: self.host(),
            path: self.path.as_ref().map(|path| path.judged.clone()),
            user: self.who.as_ref().map(|who| who.name.clone()),
        }
    }
}

/// A client's connection that is counted.
struct Admitted {
    shared: Arc<Shared>,
    key: IpAddr,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.counted.open.fetch_sub(1, Ordering::Relaxed);
        let mut clients = lock(&self.shared.clients);
        if let Some(count) = clients.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.key);
            }
        }
    }
}

/// A thread that panicked while it held this has left it whole: nothing here is changed in two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
