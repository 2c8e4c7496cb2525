//! The idle round trip between two zones: what RFC 6349 section 3.2 calls the baseline. Bytes go there and back over a connection of
//! their own while nothing else is under way. One thread has both ends, so that nobody has to be woken.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use testbed::netns::Namespace;

/// Round trips, of which the least counts: the others waited for something.
const ROUND_TRIPS: usize = 200;
/// How long anything of it may take: a way that is this slow is none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for the connection.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// The least round trip from one namespace to an address of another. The port must be free there.
///
/// # Errors
/// Nothing connects, or nothing comes back.
pub(super) fn least(
    client: &Namespace,
    server: &Namespace,
    address: IpAddr,
    port: u16,
) -> io::Result<Duration> {
    let address = SocketAddr::new(address, port);
    let listener = server.enter(|| TcpListener::bind(address)).map_err(io::Error::other)??;
    let near =
        client.enter(|| TcpStream::connect_timeout(&address, PATIENCE)).map_err(io::Error::other)??;
    let far = accept(&listener)?;
    for end in [&near, &far] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(PATIENCE))?;
    }
    let mut least = PATIENCE;
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        pass(&near, &far)?;
        pass(&far, &near)?;
        least = least.min(begun.elapsed());
    }
    Ok(least)
}

/// The connection that was made; the last packet of its handshake may still be under way.
fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => return stream.set_nonblocking(false).map(|()| stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {
                std::thread::sleep(LOOK_EVERY);
            }
            Err(error) => return Err(error),
        }
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    from.write_all(&[0])?;
    to.read_exact(&mut [0])
}
