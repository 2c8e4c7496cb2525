//! What the machine must have for a policy: a kernel that is new enough, and interfaces that exist and that the firewall can judge.

use super::bridging;
use crate::plane::PlaneError;
use dataplane::Interface;
use nix::net::if_::if_nametoindex;
use policy::Policy;
use policy::model::pattern;
use policy::settings::Forwarding;
use std::path::Path;

/// The first Linux that has BPF programs at netfilter.
const KERNEL_FORWARDING: (u32, u32) = (6, 4);

/// Whether an interface is no network card. Network cards have a device.
pub(super) fn is_virtual(interface: &str) -> bool {
    !Path::new("/sys/class/net").join(interface).join("device").exists()
}

/// Whether a network card can be among the interfaces of a policy: one is, or interfaces are to come.
pub(super) fn may_have_cards(policy: &Policy) -> bool {
    let mut names = policy.zones.iter().flat_map(|zone| &zone.interfaces);
    names.any(|name| pattern(name).is_some() || if_nametoindex(name.as_str()).is_err() || !is_virtual(name))
}

/// Whether this machine's kernel can do what a policy's `forwarding` asks for.
///
/// # Errors
/// It is too old; complete, with what to do.
pub(crate) fn can_forward(policy: &Policy) -> Result<(), PlaneError> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    can_forward_on(policy, release.trim()).map_err(PlaneError::Machine)
}

/// The same on a release of Linux. One that cannot be read is not refused: loading the programs finds out.
fn can_forward_on(policy: &Policy, release: &str) -> Result<(), String> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return Ok(()) };
    if policy.settings.forwarding == Forwarding::Fast || (major, minor) >= KERNEL_FORWARDING {
        return Ok(());
    }
    let ((least, sublevel), file) = (KERNEL_FORWARDING, &policy.file);
    Err(format!(
        "{file}: `forwarding = \"kernel\"` needs Linux {least}.{sublevel} or newer (BPF programs at netfilter), and this is \
         {release}: boot a newer kernel, or leave the setting out, if nothing but this firewall forwards here"
    ))
}

/// Checks that every interface of a policy exists, and is one that the firewall can judge.
///
/// # Errors
/// The first that does not or is not.
pub(crate) fn all_there(policy: &Policy) -> Result<(), PlaneError> {
    // The kernel forwards from and to links of any kind.
    let links = if policy.settings.forwarding == Forwarding::Kernel { Vec::new() } else { links()? };
    for zone in &policy.zones {
        for interface in zone.named_interfaces() {
            if if_nametoindex(interface).is_err() {
                return Err(PlaneError::Machine(format!("zone `{}`: {}", zone.name, missing(interface))));
            }
            fit(interface, &links)
                .map_err(|error| PlaneError::Machine(format!("zone `{}`: {error}", zone.name)))?;
        }
    }
    bridging::refuse_unfit(policy, &links)
}

/// Interfaces of a policy that are here and that the firewall cannot judge: for each its name and why.
pub(crate) fn unfit(policy: &Policy) -> Vec<(String, String)> {
    // As in all_there().
    if policy.settings.forwarding == Forwarding::Kernel {
        return Vec::new();
    }
    // Whoever checks a policy need not be allowed to ask.
    let links = dataplane::routes::interfaces().unwrap_or_default();
    let named = |link: &&Interface| policy.zone_of_interface(&link.name).is_some() && !link.is_loopback();
    links.iter().filter(named).filter_map(|link| Some((link.name.clone(), link.unfit()?))).collect()
}

pub(super) fn links() -> Result<Vec<Interface>, PlaneError> {
    dataplane::routes::interfaces().map_err(|error| PlaneError::Machine(error.to_string()))
}

pub(super) fn fit(interface: &str, links: &[Interface]) -> Result<(), PlaneError> {
    let why = links.iter().find(|link| link.name == interface).and_then(Interface::unfit);
    why.map_or(Ok(()), |why| Err(PlaneError::Machine(why)))
}

pub(super) fn missing(interface: &str) -> PlaneError {
    let there: Vec<String> = nix::net::if_::if_nameindex()
        .map(|all| all.iter().filter_map(|it| it.name().to_str().ok().map(str::to_owned)).collect())
        .unwrap_or_default();
    PlaneError::Machine(format!(
        "there is no interface `{interface}` in this network namespace; there are: {}",
        there.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_refused_what_it_cannot_do() {
        let policy = |settings: &str| {
            let zones = "[zones]\na = { interfaces = 'e0' }\n";
            Policy::parse("p.toml", &format!("{settings}{zones}")).unwrap()
        };
        let kernel = policy("[settings]\nforwarding = 'kernel'\n");
        for (release, can) in [
            ("6.1.0-31-amd64", false),
            ("6.3.13", false),
            ("5.15.0", false),
            ("6.4.0", true),
            ("6.12.9+deb13-amd64", true),
            ("10.0", true),
            ("unreadable", true),
        ] {
            let said = can_forward_on(&kernel, release);
            assert_eq!(said.is_ok(), can, "{release}");
            assert!(said.err().is_none_or(|text| text.contains("6.4") && text.contains(release)));
            assert_eq!(can_forward_on(&policy(""), release), Ok(()));
        }
    }
}
