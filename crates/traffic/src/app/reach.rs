//! Single connections that show what a proxy takes and what it does not, before any traffic.

use super::client::{Stop, connect};
use super::run::Side;
use crate::TrafficError;
use crate::namespace::inside;
use measure::application::Failure;
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::{Duration, timeout};

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Somebody took it.
    Taken,
    /// It was refused by a reset or by an ICMP error.
    Refused,
    /// Nobody answered within the limit.
    Nothing,
}

/// Opens a connection from a side's first address, and closes it.
///
/// # Errors
/// The namespace cannot be entered, or this machine cannot open a connection.
pub fn reach(from: &Side, to: SocketAddr, limit: Duration) -> Result<Reached, TrafficError> {
    let source = from.addresses.first().copied();
    let source = source.ok_or_else(|| TrafficError::Impossible("a side without addresses".to_owned()))?;
    let open = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(async { judged(timeout(limit, connect(source, to)).await) })
    };
    inside(from.namespace.as_deref(), open)?
        .map_err(TrafficError::system(format!("opening a connection to {to}")))
}

fn judged(opened: Result<Result<TcpStream, Stop>, Elapsed>) -> io::Result<Reached> {
    match opened {
        Ok(Ok(_)) => Ok(Reached::Taken),
        Err(_) | Ok(Err(Stop::Failed(Failure::ConnectTimeout))) => Ok(Reached::Nothing),
        Ok(Err(Stop::Failed(_))) => Ok(Reached::Refused),
        Ok(Err(Stop::Own(error))) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_takes_a_connection_and_who_does_not() {
        let here = Side { namespace: None, addresses: vec![[127, 77, 90, 1].into()] };
        let listener = TcpListener::bind("127.77.90.2:0").unwrap();
        let taken = listener.local_addr().unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(reach(&here, taken, minute).unwrap(), Reached::Taken);
        drop(listener);
        assert_eq!(reach(&here, taken, minute).unwrap(), Reached::Refused);
        for (failure, reached) in [
            (Failure::ConnectTimeout, Reached::Nothing),
            (Failure::Refused, Reached::Refused),
            (Failure::Unreachable, Reached::Refused),
        ] {
            assert_eq!(judged(Ok(Err(failure.into()))).unwrap(), reached, "{failure:?}");
        }
        let nobody = Side { namespace: None, addresses: Vec::new() };
        assert!(reach(&nobody, taken, minute).is_err());
    }
}
