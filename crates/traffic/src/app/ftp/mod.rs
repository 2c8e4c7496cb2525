//! FTP (RFC 959, RFC 2428): what client and server have in common. Lines of the control connection, the account, and addresses of data
//! connections as text. Nothing here connects anywhere.

pub(super) mod client;
pub(super) mod server;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The only account of the servers.
const USER: &str = "nstl";
const PASSWORD: &str = "firewall";
/// The longest line of a control connection.
const LONGEST_LINE: usize = 4096;

/// A control connection, read by lines.
struct Control<'a> {
    stream: &'a mut TcpStream,
    unread: Vec<u8>,
}

impl<'a> Control<'a> {
    const fn new(stream: &'a mut TcpStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// The next line without its end, or none where the other end has closed. A line that is no text, or too long, is
    /// [`ErrorKind::InvalidData`].
    async fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let text = str::from_utf8(&line).map_err(|_| ErrorKind::InvalidData)?;
                return Ok(Some(text.trim_end().to_owned()));
            }
            if self.unread.len() > LONGEST_LINE {
                return Err(ErrorKind::InvalidData.into());
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn say(&mut self, line: &str) -> io::Result<()> {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).await
    }
}

/// Listens at a port that the kernel chooses, for one data connection.
fn listen_for_data(address: IpAddr) -> io::Result<TcpListener> {
    loop {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A port whose last connection waits for its end may be used again.
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::new(address, 0))?;
        match socket.listen(1) {
            // Another thread was given the same port and listened first.
            Err(error) if error.kind() == ErrorKind::AddrInUse => (),
            listening => return listening,
        }
    }
}

/// Address and port as `PORT` and the answer to `PASV` have them: `10,0,0,1,4,210`.
fn six_numbers(address: Ipv4Addr, port: u16) -> String {
    let [a, b, c, d] = address.octets();
    let [high, low] = port.to_be_bytes();
    format!("{a},{b},{c},{d},{high},{low}")
}

fn of_six_numbers(text: &str) -> Option<SocketAddr> {
    let numbers: Vec<u8> = text.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
    let [a, b, c, d, high, low] = numbers[..] else { return None };
    Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])).into())
}

/// The address in the answer to `PASV`, which stands in brackets.
fn of_pasv(text: &str) -> Option<SocketAddr> {
    of_six_numbers(text.split_once('(')?.1.split_once(')')?.0)
}

/// The argument of `EPRT` (RFC 2428 section 2).
fn extended(at: SocketAddr) -> String {
    let family = if at.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{}|{}|", at.ip(), at.port())
}

fn of_extended(text: &str) -> Option<SocketAddr> {
    let ["", family, address, port, ""] = text.split('|').collect::<Vec<_>>()[..] else { return None };
    let at = SocketAddr::new(address.parse().ok()?, port.parse().ok()?);
    let is_family = family == if at.is_ipv4() { "1" } else { "2" };
    is_family.then_some(at)
}

/// The port in the answer to `EPSV` (RFC 2428 section 3), `(|||PORT|)`.
fn of_epsv(text: &str) -> Option<u16> {
    text.split_once("(|||")?.1.split_once("|)")?.0.parse().ok()
}
