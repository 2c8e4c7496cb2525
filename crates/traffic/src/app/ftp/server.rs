//! The FTP servers: one account, files that can be got and put. A file that is put is compared with the server's own and not kept.

use super::{Control, PASSWORD, USER};
use super::{listen_for_data, of_extended, of_six_numbers, six_numbers};
use crate::app::client::{Stop, connect};
use crate::app::server::World;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What is read of a file at once.
const BUFFER_BYTES: usize = 32 * 1024;

/// Serves one control connection to its end.
pub(in crate::app) async fn session(mut stream: TcpStream, world: &World) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (own, peer) = (stream.local_addr()?.ip(), stream.peer_addr()?.ip());
    let control = Control::new(&mut stream);
    let mut session = Session { world, control, own, peer, user: false, logged_in: false, data: None };
    session.control.say("220 rampart-bench").await?;
    while let Some(line) = session.control.line().await? {
        let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
        let reply = match verb {
            "QUIT" => break,
            "RETR" | "STOR" if session.logged_in => session.transfer(verb == "RETR", argument).await?,
            _ => session.obey(verb, argument),
        };
        session.control.say(&reply).await?;
    }
    session.control.say("221 Goodbye").await?;
    stream.shutdown().await
}

/// Where the next data connection goes or comes from.
enum Data {
    /// The client connects.
    Passive(TcpListener),
    /// The server connects.
    Active(SocketAddr),
}

struct Session<'a> {
    world: &'a World,
    control: Control<'a>,
    own: IpAddr,
    peer: IpAddr,
    /// Whether the account was named.
    user: bool,
    logged_in: bool,
    data: Option<Data>,
}

impl Session<'_> {
    /// Carries out what needs no data connection.
    fn obey(&mut self, verb: &str, argument: &str) -> String {
        match verb {
            "USER" => {
                (self.user, self.logged_in) = (argument == USER, false);
                "331 Password, please".into()
            }
            "PASS" => {
                self.logged_in = self.user && argument == PASSWORD;
                if self.logged_in { "230 Welcome".into() } else { "530 Wrong user or password".into() }
            }
            _ if !self.logged_in => "530 Log in first".into(),
            "TYPE" if argument == "I" => "200 Bytes as they are".into(),
            "TYPE" => "504 Only TYPE I".into(),
            "PASV" | "EPSV" => self.await_data(verb == "EPSV"),
            "PORT" => self.call_back(of_six_numbers(argument)),
            "EPRT" => self.call_back(of_extended(argument)),
            _ => "502 Not implemented".into(),
        }
    }

    fn await_data(&mut self, is_extended: bool) -> String {
        let listening = listen_for_data(self.own).and_then(|listener| Ok((listener.local_addr()?, listener)));
        match (listening, self.own) {
            (Err(error), _) => {
                self.world.fault(error);
                "425 No port".into()
            }
            (Ok((at, listener)), own) => {
                self.data = Some(Data::Passive(listener));
                match own {
                    IpAddr::V4(own) if !is_extended => {
                        format!("227 Entering passive mode ({})", six_numbers(own, at.port()))
                    }
                    _ => format!("229 Entering extended passive mode (|||{}|)", at.port()),
                }
            }
        }
    }

    /// Only the client itself is called: who could name others would use the server to reach them (RFC 2577 section 3).
    fn call_back(&mut self, at: Option<SocketAddr>) -> String {
        match at {
            Some(at) if at.ip() == self.peer => {
                self.data = Some(Data::Active(at));
                "200 I shall call".into()
            }
            Some(_) => "504 Not to somebody else".into(),
            None => "501 No address".into(),
        }
    }

    /// Sends or takes a file; the last reply.
    async fn transfer(&mut self, sends: bool, path: &str) -> io::Result<String> {
        self.world.served.borrow_mut().requests += 1;
        let files = self.world.kept.files.clone();
        let (Some(file), Some(data)) = (files.named(path), self.data.take()) else {
            return Ok("550 No such file, or no data connection".into());
        };
        self.control.say("150 Here it comes").await?;
        let Some(mut stream) = self.open(data).await? else { return Ok("425 No data connection".into()) };
        if sends {
            // The client counts the file after the last reply, which comes after this count.
            stream.write_all(&file.bytes).await?;
            stream.shutdown().await?;
        } else if let Err(reply) = take(&mut stream, &file.bytes).await? {
            return Ok(reply.into());
        }
        self.world.count(file.bytes.len());
        Ok("226 Done".into())
    }

    /// The data connection; none if there is no way. A client that goes away ends the wait.
    async fn open(&mut self, data: Data) -> io::Result<Option<TcpStream>> {
        let (own, peer) = (self.own, self.peer);
        let opened = async {
            match data {
                Data::Passive(listener) => loop {
                    let (stream, from) = listener.accept().await.map_err(Stop::Own)?;
                    if from.ip() == peer {
                        return Ok(stream);
                    }
                },
                // From a port that the kernel chooses, as many servers do, and not from 20.
                Data::Active(at) => connect(own, at).await,
            }
        };
        tokio::select! {
            biased;
            stream = opened => match stream {
                Ok(stream) => Ok(Some(stream)),
                Err(Stop::Failed(_)) => Ok(None),
                Err(Stop::Own(error)) => {
                    self.world.fault(error);
                    Ok(None)
                }
            },
            // Before the last reply a client has nothing to say.
            _ = self.control.line() => Err(ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Compares what comes with the file; what to say if it is not the same.
async fn take(stream: &mut TcpStream, expected: &[u8]) -> io::Result<Result<(), &'static str>> {
    let (mut rest, mut buffer) = (expected, vec![0; BUFFER_BYTES]);
    loop {
        match stream.read(&mut buffer).await? {
            0 if rest.is_empty() => return Ok(Ok(())),
            0 => return Ok(Err("426 The file ended early")),
            count => match rest.strip_prefix(&buffer[..count]) {
                Some(after) => rest = after,
                None => return Ok(Err("451 Not what this file holds")),
            },
        }
    }
}
