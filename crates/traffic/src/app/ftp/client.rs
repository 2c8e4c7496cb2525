//! One transaction of FTP: login, one file got or put over a data connection of its own, and the end of the control connection.

use super::{Control, PASSWORD, USER};
use super::{extended, listen_for_data, of_epsv, of_pasv, six_numbers};
use crate::app::client::{Order, Stop, broken, connect};
use measure::application::{Failure, FtpMode, FtpTransfer, FtpVerb};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Transfers a file over an open control connection.
pub(in crate::app) async fn transfer(
    order: &Order<'_>,
    stream: &mut TcpStream,
    how: FtpTransfer,
    buffer: &mut [u8],
) -> Result<(), Stop> {
    let mut session = Session { order, control: Control::new(stream), early: None };
    session.expect(220).await?;
    session.command(&format!("USER {USER}"), 331).await?;
    session.command(&format!("PASS {PASSWORD}"), 230).await?;
    session.command("TYPE I", 200).await?;
    let verb = match how.verb {
        FtpVerb::Get => "RETR",
        FtpVerb::Put => "STOR",
    };
    let command = format!("{verb} {}", order.file.path);
    let mut data = match how.mode {
        FtpMode::Passive => {
            let data = session.connect_data().await?;
            session.command(&command, 150).await?;
            data
        }
        FtpMode::Active => {
            let listener = session.announce().await?;
            session.command(&command, 150).await?;
            session.accept_data(&listener).await?
        }
    };
    match how.verb {
        FtpVerb::Get => get(&order.file.bytes, &mut data, buffer).await?,
        FtpVerb::Put => put(&order.file.bytes, &mut data).await?,
    }
    drop(data);
    session.expect(226).await?;
    session.command("QUIT", 221).await?;
    session.end().await
}

async fn get(expected: &[u8], data: &mut TcpStream, buffer: &mut [u8]) -> Result<(), Stop> {
    let mut rest = expected;
    loop {
        match data.read(buffer).await.map_err(broken)? {
            0 if rest.is_empty() => return Ok(()),
            0 => return Err(Failure::Short.into()),
            count => rest = rest.strip_prefix(&buffer[..count]).ok_or(Failure::Content)?,
        }
    }
}

async fn put(bytes: &[u8], data: &mut TcpStream) -> Result<(), Stop> {
    data.write_all(bytes).await.map_err(broken)?;
    data.shutdown().await.map_err(broken)
}

struct Session<'a> {
    order: &'a Order<'a>,
    control: Control<'a>,
    /// The reply after the transfer, where it was read before the data connection.
    early: Option<(u16, String)>,
}

impl Session<'_> {
    async fn command(&mut self, line: &str, code: u16) -> Result<String, Stop> {
        self.control.say(line).await.map_err(broken)?;
        self.expect(code).await
    }

    /// The text of a reply that must have this code.
    async fn expect(&mut self, code: u16) -> Result<String, Stop> {
        let (found, text) = self.reply().await?;
        if found == code { Ok(text) } else { Err(failure(found).into()) }
    }

    /// The next line, or none where the server has closed. What is no text is no FTP.
    async fn line(&mut self) -> Result<Option<String>, Stop> {
        self.control.line().await.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Failure::Protocol.into(),
            _ => broken(error),
        })
    }

    /// A reply, which ends with the first line that has a blank behind its code (RFC 959 section 4.2).
    async fn reply(&mut self) -> Result<(u16, String), Stop> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        loop {
            let line = self.line().await?.ok_or(Failure::Short)?;
            match line.split_at_checked(3).and_then(|(code, text)| Some((code.parse().ok()?, text))) {
                Some((code @ 100..600, text)) if text.is_empty() || text.starts_with(' ') => {
                    return Ok((code, text.trim_start().to_owned()));
                }
                Some((100..600, text)) if text.starts_with('-') => (),
                _ => return Err(Failure::Protocol.into()),
            }
        }
    }

    /// Opens a data connection to the server's port. Somebody else's address is not believed: who follows it can be sent anywhere.
    async fn connect_data(&mut self) -> Result<TcpStream, Stop> {
        let server = self.order.to.ip();
        let at = if server.is_ipv4() {
            of_pasv(&self.command("PASV", 227).await?)
        } else {
            of_epsv(&self.command("EPSV", 229).await?).map(|port| SocketAddr::new(server, port))
        };
        let at = at.filter(|at| at.ip() == server).ok_or(Failure::Protocol)?;
        connect(self.order.from, at).await
    }

    /// Says where the server's data connection is awaited.
    async fn announce(&mut self) -> Result<TcpListener, Stop> {
        let listener = listen_for_data(self.order.from).map_err(Stop::Own)?;
        let at = listener.local_addr().map_err(Stop::Own)?;
        let line = match at.ip() {
            IpAddr::V4(address) => format!("PORT {}", six_numbers(address, at.port())),
            IpAddr::V6(_) => format!("EPRT {}", extended(at)),
        };
        self.command(&line, 200).await?;
        Ok(listener)
    }

    /// The server's data connection, or what the server says instead. The server may have done everything before this task runs again;
    /// then the reply after the transfer can be seen first.
    async fn accept_data(&mut self, listener: &TcpListener) -> Result<TcpStream, Stop> {
        loop {
            tokio::select! {
                biased;
                accepted = listener.accept() => {
                    let (stream, from) = accepted.map_err(Stop::Own)?;
                    let is_server = from.ip() == self.order.to.ip();
                    return if is_server { Ok(stream) } else { Err(Failure::Protocol.into()) };
                }
                said = self.reply(), if self.early.is_none() => match said? {
                    done @ (226, _) => self.early = Some(done),
                    (code, _) => return Err(failure(code).into()),
                },
            }
        }
    }

    /// The server closes the control connection.
    async fn end(&mut self) -> Result<(), Stop> {
        match self.line().await? {
            None => Ok(()),
            Some(_) => Err(Failure::Protocol.into()),
        }
    }
}

/// What a reply means that is not the one awaited. The server says 426 of a file that ended early, 451 of one that is not its own.
const fn failure(code: u16) -> Failure {
    match code {
        426 => Failure::Short,
        451 => Failure::Content,
        _ => Failure::Status,
    }
}
