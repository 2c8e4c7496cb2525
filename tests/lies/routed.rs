//! A network in which a router between clients and servers lies: of tests whose clients have real sockets.

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::OriginalDst;
use std::io;
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::namespace::Namespace;

/// Clients, a router, and servers.
pub(crate) struct Bed {
    pub(crate) clients: Namespace,
    pub(crate) router: Namespace,
    pub(crate) servers: Namespace,
}

impl Bed {
    /// `rules` is what the router does with packets of clients, besides forwarding.
    pub(crate) fn build(rules: &str) -> Self {
        let [clients, router, servers] = ["clients", "router", "servers"].map(Namespace::create);
        for (end, net) in [(&clients, 7), (&servers, 8)] {
            let hosts: String =
                (2..10).map(|host| format!("address add 10.{net}.0.{host}/24 dev e{net}\n")).collect();
            router.ip(&format!(
                "link add b{net} type veth peer name e{net} netns {}
                 address add 10.{net}.0.1/24 dev b{net}
                 link set b{net} up",
                end.name()
            ));
            end.ip(&format!("{hosts}link set e{net} up\nroute add default via 10.{net}.0.1"));
        }
        router.set(&[("ipv4/ip_forward", "1")]);
        router.nft(&format!("table ip lie {{\n{rules}\n}}"));
        // A question for a neighbour that is lost while the links come up is asked again after a second.
        clients.run("ping", &["-n", "-c", "1", "-W", "30", "10.8.0.2"]);
        Self { clients, router, servers }
    }

    /// What `work` gives, while `pass` has each connection that the router turns to a port of its own. `pass` ends with its connection; what it
    /// gives is nobody's business, because a client may go away.
    pub(crate) fn with_proxy<T>(
        &self,
        port: u16,
        pass: impl Fn(TcpStream) -> io::Result<()> + Sync,
        work: impl FnOnce() -> T,
    ) -> T {
        let listener = self.router.enter(|| TcpListener::bind(("0.0.0.0", port))).unwrap();
        let (ended, pass) = (AtomicBool::new(false), &pass);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for client in listener.incoming() {
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                    scope.spawn(move || client.and_then(pass));
                }
            });
            let found = work();
            ended.store(true, Ordering::Relaxed);
            // The listener looks whether the work has ended when somebody comes.
            let _ = self.router.enter(|| TcpStream::connect(("127.0.0.1", port)));
            found
        })
    }

    /// A connection from the router with the server that a client meant.
    pub(crate) fn connect(&self, server: SocketAddrV4) -> io::Result<TcpStream> {
        self.router.enter(|| TcpStream::connect(server))
    }
}

/// The server that a client meant whose connection the router turned to itself.
pub(crate) fn meant_by(client: &TcpStream) -> io::Result<SocketAddrV4> {
    let to = getsockopt(client, OriginalDst).map_err(io::Error::from)?;
    Ok(SocketAddrV4::new(u32::from_be(to.sin_addr.s_addr).into(), u16::from_be(to.sin_port)))
}
