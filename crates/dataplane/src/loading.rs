//! Loads the programs into the kernel. Verifying the large programs takes nearly all of the time, and the kernel verifies programs side
//! by side: only those in use are loaded, each large one by a thread of its own.

use crate::DataplaneError;
use crate::earlier::{Earlier, RODATA, SECRETS, Secret};
use crate::firewall::Settings;
use crate::ports::{Hook, Programs};
use crate::relocated::{Relocated, prepare, take};
use crate::shared::{Program, bind_map, has_tracepoint};
use crate::skeleton::types::sizes;
use crate::skeleton::{FirewallSkel, FirewallSkelBuilder, OpenFirewallSkel};
use crate::tracking;
use libbpf_rs::skel::{OpenSkel, Skel as _, SkelBuilder};
use libbpf_rs::{ErrorKind, ProgramMut, ProgramType};
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Programs that take long to verify: those of the three hooks, and of what the firewall itself sends.
const XDP: &str = "firewall_xdp";
const TC: &str = "firewall_tc";
const OUT: &str = "firewall_out";
/// Asked by the kernel's own forwarding, which Linux before 6.4 does not do.
const NETFILTER: &str = "firewall_netfilter";
/// Run on the flow table by user space.
const SWEEP: &str = "sweep_flows";
/// The same, when flows are carried over from another firewall's table.
const TAKE: &str = "take_flow";
const LARGE: [&str; 6] = [XDP, TC, OUT, NETFILTER, SWEEP, TAKE];
/// Beside the firewall's own forwarding; the same kernels have it.
const GATE: &str = "gate";
/// The tracepoints of frames that XDP redirected and that did not leave, with their programs.
pub(crate) const UNSENT: [(&str, &str); 2] =
    [("unsent_by_driver", "xdp_devmap_xmit"), ("unsent_at_once", "xdp_redirect_err")];
/// Where sockets are looked for; where the kernel forwards there are no transparent gateways.
const GATEWAY: &str = "listen_for_gateway";
/// What only tests ask.
const JUDGE: &str = "judge";
pub(crate) const LOADING: &str =
    "loading the firewall into the kernel (this needs root, and memory for the flow table)";
/// How long a load that is interrupted is tried again.
const INTERRUPTED: Duration = Duration::from_secs(60);

/// What a firewall that is loaded has to do with an earlier one.
#[derive(Clone, Copy)]
pub(crate) enum Before<'e> {
    /// Nothing.
    Nothing,
    /// It goes on with the earlier one's maps, which are of the same build.
    Maps(&'e Earlier),
    /// It takes flows from a table that it cannot use.
    Flows,
}

/// What was loaded.
pub(crate) struct Loaded {
    /// The maps, and the programs that are quickly verified.
    pub(crate) skel: FirewallSkel<'static>,
    /// Those that packets meet.
    pub(crate) programs: Programs,
    pub(crate) sweep_flows: Program,
    /// For [`Before::Flows`].
    pub(crate) take_flow: Option<Program>,
}

/// Makes the maps, or takes those of an earlier firewall of the same build, and loads what these hooks need.
pub(crate) fn load(
    settings: &Settings,
    cores: u32,
    clock_is_held: bool,
    before: Before<'_>,
    hooks: &[Hook],
) -> Result<Loaded, DataplaneError> {
    while_interrupted(|| load_once(settings, cores, clock_is_held, before, hooks))
}

fn load_once(
    settings: &Settings,
    cores: u32,
    clock_is_held: bool,
    before: Before<'_>,
    hooks: &[Hook],
) -> Result<Loaded, DataplaneError> {
    let earlier = match before {
        Before::Maps(earlier) => Some(earlier),
        Before::Nothing | Before::Flows => None,
    };
    if asks_netfilter(hooks) {
        // Without it there is nothing to be read.
        let _ = tracking::load_module();
    }
    let mut open = open(settings, cores, clock_is_held, earlier)?;
    let (has_xdp, has_tc) = (hooks.contains(&Hook::Xdp), hooks.contains(&Hook::Tc));
    let wanted = [
        (XDP, has_xdp),
        (TC, has_tc),
        (OUT, (has_xdp || has_tc) && !clock_is_held),
        (NETFILTER, asks_netfilter(hooks)),
        (TAKE, matches!(before, Before::Flows)),
    ];
    choose(&mut open, |name| match LARGE.contains(&name) {
        true => name == SWEEP || wanted.contains(&(name, true)),
        false => is_wanted(name, clock_is_held, hooks),
    });
    prepare(&open).map_err(refused)?;
    let sweep_flows = take(&mut open, SWEEP)?;
    let large = wanted.map(|(name, wanted)| wanted.then(|| take(&mut open, name)).transpose());
    let load = |program: Relocated| while_interrupted(|| program.load());
    let (skel, sweep_flows, [xdp, tc, out, netfilter, take_flow]) = thread::scope(|scope| {
        let threads = large.map(|large| Ok(large?.map(|program| scope.spawn(move || load(program)))));
        let skel = open.load().map_err(refused);
        let sweep_flows = load(sweep_flows);
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        let others = threads.map(|thread| thread.and_then(|thread| thread.map(join).transpose()));
        (skel, sweep_flows, others)
    });
    let skel = skel?;
    let programs = Programs {
        xdp: xdp?,
        resolve: program(&skel.progs.resolve)?,
        tc: tc?,
        out: out?,
        stand_still: clock_is_held,
        netfilter: netfilter?,
        way_back: program(&skel.progs.way_back)?,
        gate: if has_netfilter() { Some(program(&skel.progs.gate)?) } else { None },
    };
    if programs.netfilter.is_some() {
        hold_all(&programs.way_back, &skel)?;
    }
    Ok(Loaded { skel, programs, sweep_flows: sweep_flows?, take_flow: take_flow? })
}

/// The kernel gives up a load (`EAGAIN`) when the process gets a signal meanwhile: when it is stopped and continued, frozen, or traced.
/// libbpf tries a few times; this tries until the time is up.
fn while_interrupted<T>(load: impl Fn() -> Result<T, DataplaneError>) -> Result<T, DataplaneError> {
    let start = Instant::now();
    loop {
        match load() {
            Err(DataplaneError::Bpf { source, .. })
                if source.kind() == ErrorKind::WouldBlock && start.elapsed() < INTERRUPTED => {}
            result => return result,
        }
    }
}

fn asks_netfilter(hooks: &[Hook]) -> bool {
    hooks.contains(&Hook::Netfilter)
}

/// Whether the kernel has netfilter programs: since 6.4.
fn has_netfilter() -> bool {
    ProgramType::Netfilter.is_supported().unwrap_or(false)
}

/// Whether a program that is quickly verified is of use here.
fn is_wanted(name: &str, clock_is_held: bool, hooks: &[Hook]) -> bool {
    (cfg!(feature = "testing") || name != JUDGE)
        && (name != GATE || has_netfilter())
        && (name != GATEWAY || !(clock_is_held || asks_netfilter(hooks)))
        && UNSENT.iter().all(|(program, tracepoint)| {
            *program != name || (!asks_netfilter(hooks) && has_tracepoint(tracepoint))
        })
}

/// The maps as they are to be, or those of an earlier firewall of the same build; nothing is loaded yet.
fn open(
    settings: &Settings,
    cores: u32,
    clock_is_held: bool,
    earlier: Option<&Earlier>,
) -> Result<OpenFirewallSkel<'static>, DataplaneError> {
    // The skeleton borrows its object for as long as it lives; a firewall lives as long as its process.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open =
        FirewallSkelBuilder::default().open(storage).map_err(DataplaneError::bpf("opening bpf/firewall"))?;
    let buckets = buckets(settings.flows);
    let limit_buckets = limit_buckets(settings.flows);
    let scan_buckets = sizes::SCAN_BUCKETS.0;
    for (map, entries) in [
        (&mut open.maps.buckets, buckets),
        (&mut open.maps.flows, settings.flows),
        (&mut open.maps.proxied_flows, settings.flows),
        (&mut open.maps.limit_rows, settings.rules),
        (&mut open.maps.limit_addresses, limit_buckets),
        (&mut open.maps.scan_sources, scan_buckets),
        (&mut open.maps.hits, settings.rules.saturating_mul(cores)),
    ] {
        map.set_max_entries(entries).map_err(DataplaneError::bpf("sizing the maps"))?;
    }
    let before = earlier.and_then(Earlier::constants);
    for mut map in open.open_object_mut().maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some(shared) = earlier.filter(|_| name != RODATA).and_then(|earlier| earlier.map(&name)) {
            map.reuse_fd(shared.as_fd()).map_err(refused)?;
        }
    }
    if let Some(constants) = open.maps.rodata_data.as_mut() {
        constants.secret = match before {
            Some(before) => before.secret,
            #[cfg(feature = "testing")]
            None if clock_is_held => crate::testing::secret(),
            None => secret()?,
        };
        constants.bucket_mask = buckets - 1;
        constants.limit_bucket_mask = limit_buckets - 1;
        constants.scan_bucket_mask = scan_buckets - 1;
        constants.record_count = settings.flows;
        constants.hit_slots = settings.rules;
        constants.clock_is_held = clock_is_held.into();
        constants.own_namespace = own_namespace()?;
    }
    Ok(open)
}

/// Beside netfilter a small program is all that interfaces have, and an interface's programs are how the next firewall finds the maps.
fn hold_all(program: &Program, skel: &FirewallSkel<'_>) -> Result<(), DataplaneError> {
    let doing = "letting a program hold the firewall's maps";
    skel.object()
        .maps()
        .try_for_each(|map| bind_map(program.as_fd(), map.as_fd()))
        .map_err(DataplaneError::system(doing))
}

/// Only these programs of an object are loaded.
fn choose(open: &mut OpenFirewallSkel<'_>, wanted: impl Fn(&str) -> bool) {
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = program.name().to_str().is_some_and(&wanted);
        program.set_autoload(wanted);
    }
}

fn refused(error: libbpf_rs::Error) -> DataplaneError {
    DataplaneError::bpf(LOADING)(error)
}

pub(crate) fn program(program: &ProgramMut<'_>) -> Result<Program, DataplaneError> {
    Program::of(program).map_err(DataplaneError::system("opening the firewall's programs"))
}

/// A program once more, if it was loaded.
pub(crate) fn again(program: Option<&Program>) -> Result<Option<Program>, DataplaneError> {
    program.map(Program::again).transpose().map_err(DataplaneError::system("opening the firewall's programs"))
}

/// Buckets for so many flows, a power of two: at least three slots for each flow. With fewer, new flows find no place long before
/// the records are all in use; with more, a packet's bucket is farther from the caches.
fn buckets(flows: u32) -> u32 {
    let slots = u64::from(flows) * 3;
    // At most 2^24 flows, so it fits.
    slots.div_ceil(sizes::BUCKET_SLOTS.0.into()).next_power_of_two() as u32
}

/// Buckets for the addresses that rules count, a power of two: as many entries as flows, up to a bound.
fn limit_buckets(flows: u32) -> u32 {
    (flows.next_power_of_two().min(sizes::LIMIT_MOST.0) / sizes::LIMIT_WAYS.0).max(1)
}

/// The number of this thread's network namespace.
fn own_namespace() -> Result<u32, DataplaneError> {
    let of = std::fs::metadata("/proc/thread-self/ns/net")
        .map_err(DataplaneError::system("asking which network namespace this is"))?;
    Ok(of.ino() as u32)
}

/// What makes the places of flows in the table hard to guess.
fn secret() -> Result<Secret, DataplaneError> {
    let mut bytes = [[0; 8]; SECRETS];
    let mut source = File::open("/dev/urandom").map_err(DataplaneError::system("opening /dev/urandom"))?;
    for word in &mut bytes {
        source.read_exact(word).map_err(DataplaneError::system("reading /dev/urandom"))?;
    }
    Ok(bytes.map(u64::from_ne_bytes))
}
