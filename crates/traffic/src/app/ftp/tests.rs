//! A client of FTP servers that do not do what they should, and a server with such clients.

use super::{extended, of_epsv, of_extended, of_pasv, of_six_numbers, six_numbers};
use crate::app::client::{Order, Stop, transact};
use crate::app::content::FileSet;
use crate::app::seal::Secret;
use crate::app::server::{Kept, Service, listen, serve};
use measure::application::{Failure, FtpMode, FtpTransfer, FtpVerb, Protocol};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

const MINUTE: Duration = Duration::from_secs(60);
const PATH: &str = "/zip/32768.zip";

/// What a server says, and what it does with its file. Where a client has no reason to go on, the rest is not said.
#[derive(Clone, Copy)]
struct Server {
    greeting: &'static str,
    password: &'static str,
    /// With the port of the data connection.
    passive: fn(u16) -> String,
    transfer: &'static str,
    /// What it sends of the file.
    sends: fn(&[u8]) -> Vec<u8>,
    last: &'static str,
    bye: &'static [u8],
}

const HONEST: Server = Server {
    greeting: "220-Welcome\r\n220 to all",
    password: "230 in",
    passive: |port| format!("227 here (127,77,8,1,{},{})", port >> 8, port & 255),
    transfer: "150 now",
    sends: <[u8]>::to_vec,
    last: "226 done",
    bye: b"221 bye",
};

/// What a client makes of such a server.
fn met(server: Server, mode: FtpMode) -> Result<(), Stop> {
    let set = FileSet::nstl(7);
    let file = set.named(PATH).unwrap().clone();
    // An active server calls from 127.0.0.1, which the kernel chooses.
    let own = if mode == FtpMode::Active { "127.0.0.1:0" } else { "127.77.8.1:0" };
    let [control, data] = [(); 2].map(|()| TcpListener::bind(own).unwrap());
    let to = control.local_addr().unwrap();
    let bytes = file.bytes.clone();
    let serving = std::thread::spawn(move || {
        // A client that has found fault goes away.
        let _ = act(server, &control, &data, &bytes);
    });
    let transfer = FtpTransfer { mode, verb: FtpVerb::Get };
    let order = Order {
        from: "127.77.8.2".parse().unwrap(),
        to,
        host: "server01",
        file: &file,
        protocol: Protocol::Ftp(transfer),
        limit: MINUTE,
        tls: None,
        requests: None,
        is_last: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(transact(&mut None, &order, &mut [0; 1000])).map(drop);
    serving.join().unwrap();
    result
}

fn act(server: Server, control: &TcpListener, data: &TcpListener, bytes: &[u8]) -> std::io::Result<()> {
    let (stream, _) = control.accept()?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let say = |text: &str| (&stream).write_all(format!("{text}\r\n").as_bytes());
    let mut port = None;
    say(server.greeting)?;
    while let Some(line) = lines.next().transpose()? {
        match line.split(' ').next().unwrap_or_default() {
            "USER" => say("331 password")?,
            "PASS" => say(server.password)?,
            "TYPE" => say("200 so be it")?,
            "PASV" => say(&(server.passive)(data.local_addr()?.port()))?,
            "PORT" => {
                port = of_six_numbers(line.split(' ').next_back().unwrap_or_default());
                say("200 I shall call")?;
            }
            // Active; the last reply comes before the data connection.
            "RETR" if port.is_some() => {
                say(&format!("{}\r\n{}", server.transfer, server.last))?;
                let calls: Vec<SocketAddr> = port.into_iter().collect();
                TcpStream::connect(&calls[..])?.write_all(&(server.sends)(bytes))?;
            }
            "RETR" => {
                say(server.transfer)?;
                if server.transfer.starts_with("150") {
                    data.accept()?.0.write_all(&(server.sends)(bytes))?;
                    say(server.last)?;
                }
            }
            _ => return (&stream).write_all(&[server.bye, b"\r\n"].concat()),
        }
    }
    Ok(())
}

#[test]
fn what_a_server_does_wrong_is_named() {
    assert!(met(HONEST, FtpMode::Passive).is_ok());
    assert!(met(HONEST, FtpMode::Active).is_ok());
    let changed: fn(&[u8]) -> Vec<u8> = |bytes| bytes.iter().map(|byte| byte ^ 1).collect();
    let rows = [
        (Server { greeting: "421 not now", ..HONEST }, Failure::Status),
        (Server { greeting: "HTTP/1.0 200 OK", ..HONEST }, Failure::Protocol),
        (Server { password: "530 no", ..HONEST }, Failure::Status),
        (Server { passive: |_| "227 somewhere".into(), ..HONEST }, Failure::Protocol),
        // Somebody else's address, as an attacker would name to have the client go there.
        (Server { passive: |_| "227 there (127,77,8,9,0,80)".into(), ..HONEST }, Failure::Protocol),
        (Server { passive: |_| "227 nobody (127,77,8,1,0,1)".into(), ..HONEST }, Failure::Refused),
        (Server { transfer: "550 no such file", ..HONEST }, Failure::Status),
        (Server { sends: changed, ..HONEST }, Failure::Content),
        (Server { sends: |bytes| bytes[1..].to_vec(), ..HONEST }, Failure::Content),
        (Server { sends: |bytes| [bytes, b"more"].concat(), ..HONEST }, Failure::Content),
        (Server { sends: |bytes| bytes[..bytes.len() - 1].to_vec(), ..HONEST }, Failure::Short),
        (Server { last: "426 ended early", ..HONEST }, Failure::Short),
        (Server { last: "451 not my file", ..HONEST }, Failure::Content),
        (Server { bye: b"221 bye\r\n221 bye", ..HONEST }, Failure::Protocol),
        // No text, which is no fault of this machine.
        (Server { bye: b"221 bye\r\n\xff", ..HONEST }, Failure::Protocol),
    ];
    for (number, (server, expected)) in rows.into_iter().enumerate() {
        match met(server, FtpMode::Passive) {
            Err(Stop::Failed(failure)) => assert_eq!(failure, expected, "row {number}"),
            other => panic!("row {number}: {other:?}"),
        }
    }
}

/// What the server answers to each line.
fn answers(lines: &[&str]) -> Vec<String> {
    let listener = TcpListener::bind("127.77.9.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let (end, ended) = oneshot::channel::<()>();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let listeners = vec![(listen(at).unwrap(), Service::Ftp)];
            ready.send(()).unwrap();
            let files = Arc::new(FileSet::nstl(7));
            let kept = Kept { files, secret: Secret::default(), longest: MINUTE, open: Arc::default() };
            serve(listeners, kept, ended).await
        })
    });
    is_ready.recv().unwrap();
    let stream = TcpStream::connect(at).unwrap();
    let mut said = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut answers = vec![said.next().unwrap()];
    for line in lines {
        (&stream).write_all(format!("{line}\r\n").as_bytes()).unwrap();
        answers.extend(said.next());
    }
    end.send(()).unwrap();
    let served = serving.join().unwrap();
    assert_eq!(served.answers, 0);
    answers.into_iter().map(|line| line[..3].to_owned()).collect()
}

#[test]
fn the_server_does_nothing_for_strangers_and_calls_nobody_but_its_client() {
    let rows: [(&[&str], &[&str]); 7] = [
        (&["RETR /zip/32768.zip", "PASV", "QUIT"], &["220", "530", "530", "221"]),
        (&["USER nstl", "PASS wrong", "TYPE I"], &["220", "331", "530", "530"]),
        (&["PASS firewall", "USER root", "PASS firewall"], &["220", "530", "331", "530"]),
        (&["USER nstl", "PASS firewall", "TYPE A", "FROB"], &["220", "331", "230", "504", "502"]),
        (
            &["USER nstl", "PASS firewall", "PASV", "RETR ../../etc/passwd"],
            &["220", "331", "230", "227", "550"],
        ),
        (&["USER nstl", "PASS firewall", "RETR /zip/32768.zip"], &["220", "331", "230", "550"]),
        // The bounce attack (RFC 2577 section 3).
        (
            &["USER nstl", "PASS firewall", "PORT 127,77,9,9,0,25", "EPRT |1|127.77.9.9|25|", "PORT 1,2"],
            &["220", "331", "230", "504", "504", "501"],
        ),
    ];
    for (lines, expected) in rows {
        assert_eq!(answers(lines), expected, "{lines:?}");
    }
}

#[test]
fn addresses_are_read_as_they_are_written_and_nothing_else_is() {
    for at in ["10.0.0.1:1234", "255.254.253.252:65535"] {
        let at: SocketAddr = at.parse().unwrap();
        let IpAddr::V4(address) = at.ip() else { panic!("IPv4") };
        assert_eq!(of_six_numbers(&six_numbers(address, at.port())), Some(at));
        assert_eq!(of_pasv(&format!("Entering ({}).", six_numbers(address, at.port()))), Some(at));
    }
    for at in ["10.0.0.1:1234", "[fd00::1]:21"] {
        let at: SocketAddr = at.parse().unwrap();
        assert_eq!(of_extended(&extended(at)), Some(at));
    }
    assert_eq!(of_epsv("Entering extended passive mode (|||6446|)"), Some(6446));
    for wrong in ["", "1,2,3,4,5", "1,2,3,4,5,6,7", "1,2,3,4,5,256", "1,2,3,4,-5,6", "a,b,c,d,e,f"] {
        assert_eq!(of_six_numbers(wrong), None, "{wrong}");
    }
    for wrong in ["", "|1|10.0.0.1|21", "|2|10.0.0.1|21|", "|1|::1|21|", "|1|10.0.0.1|65536|", "|3|x|21|"] {
        assert_eq!(of_extended(wrong), None, "{wrong}");
    }
    for wrong in ["(||6446|)", "(|||65536|)", "(|||x|)", "|||6446|"] {
        assert_eq!(of_epsv(wrong), None, "{wrong}");
    }
}
