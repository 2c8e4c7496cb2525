//! Notifies a supervisor (sd_notify(3)) that the firewall is up, so that what needs the firewall is started after it and not beside it, and
//! from then on that the daemon still looks after the firewall, so that one that hangs is replaced. Its flows go on meanwhile.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Reports to whoever started this process that it is ready, if that asked to know.
///
/// # Errors
/// The socket cannot be reached.
pub(crate) fn ready() -> io::Result<()> {
    std::env::var_os("NOTIFY_SOCKET").map_or(Ok(()), |address| notify(&address, b"READY=1"))
}

/// Reports to the supervisor that the daemon is alive, if that watches it (`WatchdogSec=`). A supervisor that cannot be reached notices by
/// itself.
pub(crate) fn alive() {
    let watched = std::env::var_os("WATCHDOG_USEC").and_then(|_| std::env::var_os("NOTIFY_SOCKET"));
    if let Some(address) = watched {
        let _ = notify(&address, b"WATCHDOG=1");
    }
}

fn notify(address: &OsString, what: &[u8]) -> io::Result<()> {
    let bytes = address.as_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_address_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("@rampart-test-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
        for (address, socket) in [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap()),
            (OsString::from(&name), UnixDatagram::bind_addr(&named).unwrap()),
        ] {
            notify(&address, b"READY=1").unwrap();
            let mut bytes = [0; 16];
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], b"READY=1", "{address:?}");
        }
    }
}
