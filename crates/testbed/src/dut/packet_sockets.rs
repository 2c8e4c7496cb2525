//! What a firewall needs whose daemon takes frames from packet sockets on its ends. The kernel's stack must not have the same frames
//! a second time: it would free each as one that it dropped. And what a full socket loses must be counted, because the kernel names
//! no reason for it.

use crate::bed::FirewallSide;
use crate::error::TestbedError;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{TC_INGRESS, TcHookBuilder};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

include!(concat!(env!("OUT_DIR"), "/sockets_alone.skel.rs"));
use generated::SocketsAloneSkelBuilder;

/// From now on frames that come in go to packet sockets and no further, for as long as the interfaces are there.
pub(super) fn have_frames_alone(side: &FirewallSide) -> Result<(), TestbedError> {
    // Interface indices mean something only inside the namespace.
    side.namespace.enter(|| attach(side))?
}

/// Frames go to the kernel's stack again.
pub(super) fn have_frames_no_more(side: &FirewallSide) -> Result<(), TestbedError> {
    side.ends().try_for_each(|end| {
        side.namespace.run("tc", &["qdisc", "del", "dev", &end.device, "clsact"]).map(drop)
    })
}

fn attach(side: &FirewallSide) -> Result<(), TestbedError> {
    let failed = |action| move |source| TestbedError::Bpf { action, source };
    let mut storage = MaybeUninit::uninit();
    let open = SocketsAloneSkelBuilder::default().open(&mut storage).map_err(failed("open"))?;
    let loaded = open.load().map_err(failed("load"))?;
    let mut builder = TcHookBuilder::new(loaded.progs.take.as_fd());
    builder.replace(true).handle(1).priority(1);
    for end in side.ends() {
        let mut hook = builder.ifindex(end.ifindex as i32).hook(TC_INGRESS);
        hook.create().and_then(|mut hook| hook.attach()).map_err(failed("attach"))?;
    }
    Ok(())
}

/// Frames that packet sockets on the ends did not take in, because they were full.
pub(super) fn lost(side: &FirewallSide) -> Result<u64, TestbedError> {
    Ok(sum(&sockets(side)?, &devices(side), lost_by))
}

/// Waits until their owner has taken every frame out of the sockets on the ends; for when no more come in.
pub(super) fn wait_until_empty(side: &FirewallSide, patience: Duration) -> Result<(), TestbedError> {
    let begun = Instant::now();
    while sum(&sockets(side)?, &devices(side), waiting_in) > 0 {
        if begun.elapsed() > patience {
            return Err(TestbedError::Impossible(format!(
                "after {} s frames are still waiting in the firewall's sockets",
                patience.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn devices(side: &FirewallSide) -> Vec<&str> {
    side.ends().map(|end| end.device.as_str()).collect()
}

/// A line a socket: `p_raw WAITING 0 *:DEVICE * skmem:(r0,rb212992,…,dLOST)`.
fn sockets(side: &FirewallSide) -> Result<String, TestbedError> {
    side.namespace.run("ss", &["--packet", "--numeric", "--memory", "--oneline", "--no-header"])
}

/// Of the sockets on these devices.
fn sum(listed: &str, devices: &[&str], of: fn(&str) -> Option<u64>) -> u64 {
    let on_one = |line: &&str| {
        let address = line.split_whitespace().nth(3).and_then(|address| address.rsplit_once(':'));
        address.is_some_and(|(_, device)| devices.contains(&device))
    };
    listed.lines().filter(on_one).filter_map(of).sum()
}

fn waiting_in(line: &str) -> Option<u64> {
    line.split_whitespace().nth(1)?.parse().ok()
}

fn lost_by(line: &str) -> Option<u64> {
    let (_, memory) = line.split_once("skmem:(")?;
    let (counts, _) = memory.split_once(')')?;
    counts.split(',').find_map(|count| count.strip_prefix('d')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::Wiring;
    use crate::bed::{Bed, BedSpec, CoreSplit};
    use measure::frame::FrameSize;
    use measure::shape::{Placement, ZoneForm};

    #[test]
    fn needs_root_the_filter_can_be_put_on_and_taken_off_again() {
        let bed = Bed::build(&BedSpec {
            zones: ZoneForm::Two,
            wiring: Wiring::Firewall,
            largest_frame: FrameSize::new(1518).unwrap(),
            placement: Placement::Inline,
            cores: CoreSplit::of(Placement::Inline, 1).unwrap(),
            link_bits_per_second: None,
        })
        .unwrap();
        let side = bed.firewall_side("a test").unwrap();
        let is_on = |end: &str| {
            let listed = side.namespace.run("tc", &["filter", "show", "dev", end, "ingress"]);
            listed.is_ok_and(|text| text.contains("direct-action"))
        };
        for _ in 0..2 {
            have_frames_alone(&side).unwrap();
            assert!(side.ends().all(|end| is_on(&end.device)));
            have_frames_no_more(&side).unwrap();
            assert!(!side.ends().any(|end| is_on(&end.device)));
        }
    }

    #[test]
    fn losses_of_sockets_are_those_on_the_ends() {
        let listed = "p_raw 4160   0        *:va0 * \tskmem:(r4160,rb4000,t0,tb212992,f0,w0,o0,bl0,d45)\n\
                      p_raw 0      0       ip:vb0 * \tskmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d7)        \n\
                      p_dgr 0      0        *:va01 * \tskmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d100)\n";
        for (devices, lost, waiting) in
            [(&["va0", "vb0"][..], 52, 4160), (&["va0"], 45, 4160), (&["va01"], 100, 0), (&["v"], 0, 0)]
        {
            assert_eq!(sum(listed, devices, lost_by), lost, "{devices:?}");
            assert_eq!(sum(listed, devices, waiting_in), waiting, "{devices:?}");
        }
        assert_eq!(sum("", &["va0"], lost_by), 0);
    }
}
