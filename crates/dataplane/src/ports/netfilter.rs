//! The third place where packets meet the firewall: netfilter's hooks, where the kernel forwards, delivers and sends
//! (`docs/decisions/0032-the-kernel-forwards.md`). One program, at three hooks of both families.

use super::pins::{self, Folder};
use crate::DataplaneError;
use crate::shared::{NetfilterPlace, Program, attach_netfilter};
use libbpf_rs::{NF_INET_FORWARD, NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT, NFPROTO_IPV4, NFPROTO_IPV6};
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};

/// Behind the translation of destinations (-100), and before the rules of others (0) and the translation of sources (100). The
/// kernel wants one for each program, and what is there already keeps its own.
const PRIORITIES: RangeInclusive<i32> = -20..=-1;

/// `BPF_F_NETFILTER_IP_DEFRAG`: the program sees whole packets, never fragments. Linux 6.6 and newer.
const WHOLE_PACKETS: u32 = 1;

const TAKING_AWAY: &str = "taking the firewall away from netfilter";

const FAMILIES: [(i32, &str); 2] = [(NFPROTO_IPV4, "ipv4"), (NFPROTO_IPV6, "ipv6")];

/// The firewall at netfilter's hooks, for as long as this lives; if it outlives us, until [`close_leftovers`].
pub(crate) struct Netfilter {
    _links: Vec<OwnedFd>,
    /// The names by which they outlive us, if they do.
    folder: Option<Folder>,
}

/// What a program is asked about.
pub(super) struct Asked {
    hooks: &'static [(i32, &'static str)],
    /// It sees no fragments. Then the kernel puts together whatever comes in to this network namespace, also what the firewall leaves to
    /// it to be forwarded in fragments, and that never is all of a datagram.
    whole_packets: bool,
}

const LOCAL: [(i32, &str); 2] = [(NF_INET_LOCAL_IN, "in"), (NF_INET_LOCAL_OUT, "out")];

impl Netfilter {
    /// Of a program that is asked about everything.
    pub(super) const FORWARDING: Asked =
        Asked { hooks: &[(NF_INET_FORWARD, "forward"), LOCAL[0], LOCAL[1]], whole_packets: true };
    /// Of one that is asked about the machine's own packets, and by interface alone.
    pub(super) const LOCAL: Asked = Asked { hooks: &LOCAL, whole_packets: false };

    /// Attaches to hooks of this network namespace, and then takes away what an earlier firewall left at any.
    pub(super) fn open(program: &Program, asked: &Asked, outlives: bool) -> Result<Self, DataplaneError> {
        let mut links = Vec::new();
        for (family, family_name) in FAMILIES {
            for &(hook, hook_name) in asked.hooks {
                let (priority, link) = attach(program, family, hook, asked.whole_packets).map_err(
                    DataplaneError::system(format!(
                        "attaching to netfilter ({hook_name}, {family_name}; the kernel needs \
                         CONFIG_NETFILTER_BPF_LINK)"
                    )),
                )?;
                links.push((format!("{family_name}-{hook_name}{priority}"), link));
            }
        }
        let doing = "keeping the firewall at netfilter";
        let keep = || pins::replace(&links).map_err(DataplaneError::system(doing));
        let folder = if outlives { keep()? } else { None };
        Ok(Self { _links: links.into_iter().map(|(_, link)| link).collect(), folder })
    }

    /// Ends, for who comes later too.
    pub(super) fn close(self) -> Result<(), DataplaneError> {
        let removed = self.folder.as_ref().map_or(Ok(()), Folder::remove);
        removed.map_err(DataplaneError::system(TAKING_AWAY))
    }
}

/// Takes away what outlives us, or an earlier firewall.
pub(crate) fn close_leftovers() -> Result<(), DataplaneError> {
    pins::replace(&[]).map(drop).map_err(DataplaneError::system(TAKING_AWAY))
}

/// At the first priority that is free. Returns it.
fn attach(program: &Program, family: i32, hook: i32, whole_packets: bool) -> io::Result<(i32, OwnedFd)> {
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::ResourceBusy;
    for priority in PRIORITIES {
        let at = |flags| {
            let place = NetfilterPlace { family: family as u32, hook: hook as u32, priority, flags };
            attach_netfilter(program.as_fd(), place)
        };
        // A kernel that does not put packets together for us shows their fragments, which follow their first.
        let wanted = if whole_packets { WHOLE_PACKETS } else { 0 };
        let done = at(wanted).or_else(|error| if is_taken(&error) { Err(error) } else { at(0) });
        match done {
            Err(error) if is_taken(&error) => {}
            done => return done.map(|link| (priority, link)),
        }
    }
    Err(io::Error::new(ErrorKind::ResourceBusy, "others have all priorities from -20 to -1"))
}
