//! Keeps the kernel from forwarding by itself. The firewall forwards; a kernel that did too would forward everything as soon
//! as the firewall is gone (`docs/decisions/0013-what-a-dead-firewall-leaves.md`). Never turns it on once a firewall has run.

use crate::before::Before;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where the kernel's settings of this network namespace are.
pub(crate) const SETTINGS: &str = "/proc/sys/net";

/// The switches of the two families: each stands for all interfaces, and for those that are yet to come.
const SWITCHES: [&str; 2] = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"];

/// A switch of the kernel that could not be read or written.
#[derive(Debug)]
pub(crate) struct SettingError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot set or note {}: {}; it takes root, and a /proc/sys and a /run that can be written",
            self.path.display(),
            self.source
        )
    }
}

/// Turns the kernel's forwarding off. Returns the switches that were on.
///
/// Of IPv6 the switch of all interfaces decides about forwarding, and an interface's own whether it behaves as a router's:
/// says so to its neighbours, and believes no router advertisements. So those of our interfaces are on.
///
/// # Errors
/// When a switch cannot be written.
pub(crate) fn close<'i>(
    settings: &Path,
    interfaces: impl IntoIterator<Item = &'i str>,
    before: &Before,
) -> Result<Vec<&'static str>, SettingError> {
    let mut were_on = Vec::new();
    for switch in SWITCHES {
        if is_on(settings, switch)? {
            write(settings, switch, "0")?;
            were_on.push(switch);
        }
    }
    interfaces.into_iter().try_for_each(|interface| behave_as_router(settings, interface, before))?;
    Ok(were_on)
}

/// The machine behaves as a router on an interface of IPv6. What the switch was is noted.
///
/// # Errors
/// When the switch cannot be written.
pub(crate) fn behave_as_router(
    settings: &Path,
    interface: &str,
    before: &Before,
) -> Result<(), SettingError> {
    let switch = format!("ipv6/conf/{interface}/forwarding");
    // Without IPv6, or without the interface, there is nothing to behave; a missing interface is reported elsewhere.
    if !settings.join(&switch).exists() {
        return Ok(());
    }
    before.note(settings, &switch)?;
    match write(settings, &switch, "1") {
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Turns switches on again that [`close`] turned off, for a firewall that could not be started after all.
///
/// # Errors
/// When one cannot be written.
pub(crate) fn reopen(settings: &Path, switches: &[&str]) -> Result<(), SettingError> {
    switches.iter().try_for_each(|switch| write(settings, switch, "1"))
}

/// The switches that somebody turned on.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn opened(settings: &Path) -> Result<Vec<&'static str>, SettingError> {
    let mut on = Vec::new();
    for switch in SWITCHES {
        if is_on(settings, switch)? {
            on.push(switch);
        }
    }
    Ok(on)
}

/// The switches that are off; none of a family that the kernel does not have.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn closed(settings: &Path) -> Result<Vec<&'static str>, SettingError> {
    let mut off = Vec::new();
    for switch in SWITCHES {
        if settings.join(switch).exists() && !is_on(settings, switch)? {
            off.push(switch);
        }
    }
    Ok(off)
}

/// A switch as `sysctl` calls it.
pub(crate) fn dotted(switch: &str) -> String {
    format!("net.{}", switch.replace('/', "."))
}

fn is_on(settings: &Path, switch: &str) -> Result<bool, SettingError> {
    let path = settings.join(switch);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim() != "0"),
        // A kernel without the family forwards nothing of it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SettingError { path, source }),
    }
}

fn write(settings: &Path, switch: &str, value: &str) -> Result<(), SettingError> {
    let path = settings.join(switch);
    fs::write(&path, value).map_err(|source| SettingError { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::instance::Instance;

    #[test]
    fn the_switches_are_turned_off_and_ours_behave_as_a_routers() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path();
        let before = Before::of(&Instance {
            namespace: String::new(),
            socket: PathBuf::new(),
            lock: settings.join("noted.lock"),
        });
        let read = |switch: &str| fs::read_to_string(settings.join(switch)).unwrap();
        for interface in ["all", "e0", "other"] {
            fs::create_dir_all(settings.join(format!("ipv6/conf/{interface}"))).unwrap();
            fs::write(settings.join(format!("ipv6/conf/{interface}/forwarding")), "0\n").unwrap();
        }
        fs::create_dir_all(settings.join("ipv4")).unwrap();
        fs::write(settings.join("ipv4/ip_forward"), "1\n").unwrap();
        assert_eq!(opened(settings).unwrap(), ["ipv4/ip_forward"]);
        assert_eq!(closed(settings).unwrap(), ["ipv6/conf/all/forwarding"]);
        assert_eq!(close(settings, ["e0", "missing"], &before).unwrap(), ["ipv4/ip_forward"]);
        assert_eq!(opened(settings).unwrap(), [""; 0]);
        assert_eq!(
            (read("ipv4/ip_forward"), read("ipv6/conf/e0/forwarding")),
            ("0".to_owned(), "1".to_owned())
        );
        assert_eq!(read("ipv6/conf/other/forwarding"), "0\n");
        // A kernel without IPv6.
        fs::remove_dir_all(settings.join("ipv6")).unwrap();
        assert!(close(settings, ["e0"], &before).unwrap().is_empty());
        reopen(settings, &["ipv4/ip_forward"]).unwrap();
        assert_eq!(read("ipv4/ip_forward"), "1");
        assert_eq!(dotted("ipv6/conf/all/forwarding"), "net.ipv6.conf.all.forwarding");
    }
}
