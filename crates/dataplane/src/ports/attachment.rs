//! A program at an interface, attached in the ways that outlive a process that is killed: then the firewall goes on judging
//! packets by its last policy, and the next one takes its place without a gap
//! (`docs/decisions/0013-what-a-dead-firewall-leaves.md`). A BPF link would vanish with the process and leave the machine's own
//! services open.

use crate::DataplaneError;
use crate::shared::Program;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHookBuilder, Xdp, XdpFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Our program in drivers, as the kernel lists it: names have 15 characters there.
const OURS: &str = "firewall_xdp";

/// A program at an interface. The program is detached when this is dropped.
pub(super) struct Attachment {
    program: OwnedFd,
    index: i32,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Driver,
    Filter(TcAttachPoint),
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // The interface may be gone, and the program with it.
        let _ = match self.at {
            At::Driver => Xdp::new(self.program.as_fd()).detach(self.index, XdpFlags::DRV_MODE),
            At::Filter(point) => filter(self.program.as_fd(), self.index).hook(point).detach(),
        };
    }
}

impl Attachment {
    /// Attaches a program to the interface's driver, in place of one that a killed firewall left, but of nobody else's.
    pub(super) fn driver(program: &Program, index: u32) -> Result<Self, libbpf_rs::Error> {
        let xdp = Xdp::new(program.as_fd());
        let there = xdp.query_id(index as i32, XdpFlags::DRV_MODE).unwrap_or(0);
        let flags = if is_ours(there) {
            XdpFlags::DRV_MODE
        } else {
            XdpFlags::DRV_MODE | XdpFlags::UPDATE_IF_NOEXIST
        };
        xdp.attach(index as i32, flags)?;
        Self::of(program, index, At::Driver)
    }

    /// Attaches a program behind the driver, as a filter of clsact, which Linux has since 4.5.
    pub(super) fn filter(
        program: &Program,
        index: u32,
        point: TcAttachPoint,
        name: &str,
    ) -> Result<Self, DataplaneError> {
        let builder = filter(program.as_fd(), index as i32);
        let done = builder.hook(point).attach();
        done.and_then(|_| Self::of(program, index, At::Filter(point)))
            .map_err(DataplaneError::bpf(format!("putting the firewall on `{name}` (TC)")))
    }

    fn of(program: &Program, index: u32, at: At) -> Result<Self, libbpf_rs::Error> {
        let program = program.as_fd().try_clone_to_owned().map_err(libbpf_rs::Error::from)?;
        Ok(Self { program, index: index as i32, at })
    }
}

/// Adds clsact to an interface. It stays, and costs nothing as long as no filter is in it.
pub(super) fn prepare(program: &Program, index: u32) -> Result<(), libbpf_rs::Error> {
    let mut builder = TcHookBuilder::new(program.as_fd());
    // libbpf complains on standard error about a clsact that is there already, which is as good.
    let print = libbpf_rs::set_print(None);
    let made = builder.ifindex(index as i32).hook(TC_INGRESS | TC_EGRESS).create();
    libbpf_rs::set_print(print);
    made.map(drop)
}

/// The same place for every firewall, so that one takes the place of the one before.
fn filter(program: BorrowedFd<'_>, index: i32) -> TcHookBuilder<'_> {
    let mut builder = TcHookBuilder::new(program);
    builder.ifindex(index).replace(true).handle(1).priority(1);
    builder
}

fn is_ours(id: u32) -> bool {
    id != 0 && ProgInfoIter::default().any(|info| info.id == id && info.name.to_str() == Some(OURS))
}
