//! Connections to servers: which address, and whether it may be connected to.

use super::forward::Exchange;
use super::pool::Key;
use super::{Local, Shared, resolve};
use crate::config::{Gateway, Mode};
use crate::decide::Asked;
use crate::http::Fault;
use crate::http::target::Host;
use crate::reach;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Addresses of a server that are tried.
const MOST_TRIED: usize = 4;

/// Where a server is: addresses that may be connected to.
pub(super) async fn addresses(exchange: &Exchange<'_>) -> Result<Vec<SocketAddr>, Fault> {
    let Exchange { local, gateway, asked, ends, .. } = *exchange;
    let shared = &local.shared;
    if let Some(server) = asked.server {
        // The policy itself names this one, or the packet filter has let the client connect to it.
        if let Some(refused) = ends.refused {
            return Err(Fault::with_status(403, refused));
        }
        if gateway.mode == Mode::Transparent && gateway.look_up {
            check_name(shared, gateway, asked, server.ip()).await?;
        }
        return Ok(vec![server]);
    }
    look_up(shared, gateway, asked).await
}

/// Addresses of what is asked for that may be connected to.
pub(super) async fn look_up(
    shared: &Shared,
    gateway: &Gateway,
    asked: &Asked,
) -> Result<Vec<SocketAddr>, Fault> {
    let found = match &asked.authority.host {
        Host::Address(address) => vec![*address],
        Host::Name(_) if !gateway.look_up => return Err(Fault::with_status(502, "no-look-ups")),
        Host::Name(name) => {
            let found = resolve::resolve(shared, gateway, name).await;
            found.map_err(|_| Fault::with_status(504, "name-server"))?
        }
    };
    if found.is_empty() {
        return Err(Fault::with_status(502, "no-such-name"));
    }
    let mut allowed = Vec::new();
    let mut why = "no-server-address";
    for address in found {
        match reach::refusal(address, &gateway.reach, reach::is_own) {
            None => allowed.push(SocketAddr::new(address, asked.port)),
            Some(refusal) => why = refusal,
        }
    }
    if allowed.is_empty() { Err(Fault::with_status(403, why)) } else { Ok(allowed) }
}

/// Whether the host that a client names has the address that it connects to. Rules are about names, and who could name any host would get past them.
async fn check_name(shared: &Shared, gateway: &Gateway, asked: &Asked, at: IpAddr) -> Result<(), Fault> {
    let Host::Name(name) = &asked.authority.host else { return Ok(()) };
    let found = resolve::resolve(shared, gateway, name).await;
    let found = found.map_err(|_| Fault::with_status(504, "name-server"))?;
    if found.contains(&at) { Ok(()) } else { Err(Fault::with_status(403, "other-address")) }
}

/// The key of a server's connections.
pub(super) fn key(address: SocketAddr, asked: &Asked) -> Key {
    (address, asked.host())
}

/// Connects to one of a server's addresses.
pub(super) async fn connect(
    local: &Local,
    gateway: &Gateway,
    addresses: &[SocketAddr],
) -> Result<(TcpStream, SocketAddr), Fault> {
    let mut fault = Fault::with_status(502, "connect");
    for address in addresses.iter().take(MOST_TRIED) {
        match timeout(gateway.limits.connect_time, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                Shared::count(&local.shared.counted.to_servers);
                return Ok((stream, *address));
            }
            Ok(Err(_)) => fault = Fault::with_status(502, "connect"),
            Err(_) => fault = Fault::with_status(504, "connect-time"),
        }
    }
    Err(fault)
}

/// A connection that is open already.
pub(super) fn pooled(
    local: &Local,
    addresses: &[SocketAddr],
    asked: &Asked,
) -> Option<(TcpStream, SocketAddr)> {
    let mut pool = local.pool.borrow_mut();
    let now = Instant::now();
    let found = addresses.iter().find_map(|address| Some((pool.take(&key(*address, asked), now)?, *address)));
    if found.is_some() {
        Shared::count(&local.shared.counted.reused);
    }
    found
}
