//! Questions to the kernel and announcements from it, by netlink (rtnetlink(7)), as far as forwarding needs them.

use super::RoutesError;
use super::links::Link;
use super::own::Listed;
use crate::forwarding::LocalKind;
use crate::interface::Interface;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// `RT_TABLE_LOCAL`: addresses that this machine takes for its own, broadcast addresses included.
const TABLE_LOCAL: u8 = 255;
/// Multicast groups of rtnetlink: links, neighbours, addresses, routes, rules, next hops.
const GROUPS: [u32; 9] = [1, 3, 5, 7, 8, 9, 11, 19, 32];
/// Announcements of a whole routing table fit.
const EVENT_BUFFER_BYTES: u32 = 8 << 20;
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;
const EEXIST: i32 = 17;
const EAFNOSUPPORT: i32 = 97;
/// The routing table and the rule by which packets that transparent gateways take are for this machine. The rule comes before those of others.
const GATEWAY_TABLE: u32 = 0x5247;
const GATEWAY_PRIORITY: u32 = 1;
const LOOPBACK: u32 = 1;
const ENOBUFS: i32 = 105;

/// A neighbour as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) ifindex: u32,
    pub(super) address: IpAddr,
    /// None: packets cannot be sent there.
    pub(super) link_address: Option<Vec<u8>>,
    /// It has sent nothing for a while, and nobody asks.
    pub(super) is_doubted: bool,
}

/// What was announced.
#[derive(Debug, Default)]
pub(super) struct Announced {
    pub(super) routes: bool,
    pub(super) addresses: bool,
    pub(super) links: bool,
    pub(super) neighbours: Vec<Neighbour>,
    /// Announcements were lost: anything may have changed.
    pub(super) lost: bool,
}

/// The socket that announcements come to.
#[derive(Debug)]
pub(super) struct Events {
    socket: Socket,
    lost: bool,
}

impl Events {
    pub(super) fn open() -> Result<Self, RoutesError> {
        let attempt = || -> std::io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_rx_buf_sz(EVENT_BUFFER_BYTES)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            GROUPS.into_iter().try_for_each(|group| socket.add_membership(group))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = attempt().map_err(failed("listening to announcements"))?;
        Ok(Self { socket, lost: false })
    }

    /// The next [`Self::read`] says that everything may have changed.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Everything that is there.
    pub(super) fn read(&mut self) -> Result<Announced, RoutesError> {
        let mut announced = Announced { lost: std::mem::take(&mut self.lost), ..Announced::default() };
        loop {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => messages(&bytes, |message| announced.add(message)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(announced),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => announced.lost = true,
                Err(error) => return Err(failed("reading announcements")(error)),
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The kernel's announcements of interfaces that come, go and change, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct LinkWatch(Socket);

impl LinkWatch {
    /// Begins to listen.
    ///
    /// # Errors
    /// No file descriptors left.
    pub fn open() -> Result<Self, RoutesError> {
        const LINKS: u32 = 1;
        let attempt = || -> std::io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            socket.add_membership(LINKS)?;
            Ok(socket)
        };
        attempt().map(Self).map_err(failed("listening to announcements"))
    }

    /// Waits for the next announcement. One that was lost counts as one. Returns the numbers of interfaces that are gone: another may
    /// have the number of one of them already.
    ///
    /// # Errors
    /// The kernel does not let the socket be read.
    pub fn wait(&mut self) -> Result<Vec<u32>, RoutesError> {
        let bytes = match self.0.recv_from_full() {
            Err(error) if error.raw_os_error() == Some(ENOBUFS) => return Ok(Vec::new()),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Vec::new()),
            other => other.map_err(failed("reading announcements"))?.0,
        };
        let mut gone = Vec::new();
        messages(&bytes, |message| {
            // A bridge announces its ports by the same message, of another family.
            if let Some(NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link))) = message
                && link.header.interface_family == AddressFamily::Unspec
            {
                gone.push(link.header.index);
            }
        });
        Ok(gone)
    }
}

impl Announced {
    /// None is a message of a kind that is not known here: a change of next hops, for one.
    fn add(&mut self, message: Option<NetlinkPayload<RouteNetlinkMessage>>) {
        use RouteNetlinkMessage as M;
        match message {
            Some(NetlinkPayload::InnerMessage(M::NewNeighbour(neighbour) | M::GetNeighbour(neighbour))) => {
                self.neighbours.extend(neighbour_of(&neighbour, true));
            }
            Some(NetlinkPayload::InnerMessage(M::DelNeighbour(neighbour))) => {
                self.neighbours.extend(neighbour_of(&neighbour, false));
            }
            Some(NetlinkPayload::InnerMessage(M::NewLink(_) | M::DelLink(_))) => {
                self.links = true;
                self.routes = true;
            }
            Some(NetlinkPayload::InnerMessage(M::NewAddress(_) | M::DelAddress(_))) => self.addresses = true,
            Some(NetlinkPayload::InnerMessage(M::NewRoute(route) | M::DelRoute(route))) => {
                self.routes = true;
                self.addresses |= route.header.table == TABLE_LOCAL;
            }
            _ => self.routes = true,
        }
    }
}

/// Asks the kernel and waits for its answers.
#[derive(Debug)]
pub(super) struct Queries {
    socket: Socket,
    sequence: u32,
}

impl Queries {
    pub(super) fn open() -> Result<Self, RoutesError> {
        let attempt = || -> std::io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Else a question about one table is answered with all of them.
            socket.set_netlink_get_strict_chk(true)?;
            Ok(socket)
        };
        Ok(Self { socket: attempt().map_err(failed("opening a socket"))?, sequence: 0 })
    }

    /// Addresses whose packets are for this machine itself. Prefixes that are local as a whole (127.0.0.0/8, or a route
    /// of type `local` to a network) are not among them: packets to them have no route.
    pub(super) fn local_addresses(&mut self) -> Result<BTreeMap<IpAddr, LocalKind>, RoutesError> {
        let mut local = BTreeMap::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            question.header.table = TABLE_LOCAL;
            self.dump(RouteNetlinkMessage::GetRoute(question), "listing local addresses", |message| {
                if let RouteNetlinkMessage::NewRoute(route) = message {
                    local.extend(local_address(&route));
                }
            })?;
        }
        Ok(local)
    }

    /// All links.
    pub(super) fn links(&mut self) -> Result<Vec<Link>, RoutesError> {
        let mut all = Vec::new();
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.dump(question, "listing links", |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                all.push(link_of(&link));
            }
        })?;
        Ok(all)
    }

    /// The addresses of all interfaces.
    pub(super) fn addresses(&mut self) -> Result<Vec<Listed>, RoutesError> {
        let mut all = Vec::new();
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.dump(question, "listing addresses", |message| {
            if let RouteNetlinkMessage::NewAddress(address) = message {
                all.extend(listed(&address));
            }
        })?;
        Ok(all)
    }

    /// The interfaces of this network namespace.
    pub(super) fn interfaces(&mut self) -> Result<Vec<Interface>, RoutesError> {
        let mut all = Vec::new();
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.dump(question, "listing interfaces", |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                all.extend(interface_of(&link));
            }
        })?;
        Ok(all)
    }

    /// Makes an interface receive frames for other machines, or not any more. Its other flags stay as they are, even if they change meanwhile.
    pub(super) fn receive_all(&mut self, index: u32, receives: bool) -> Result<(), RoutesError> {
        let mut request = LinkMessage::default();
        request.header.index = index;
        request.header.change_mask = LinkFlags::Promisc;
        request.header.flags = if receives { LinkFlags::Promisc } else { LinkFlags::empty() };
        let doing = "making an interface receive frames for other machines";
        self.ask(RouteNetlinkMessage::SetLink(request), NLM_F_ACK, doing, |_| ())
    }

    /// Has the kernel take packets of transparent gateways for this machine's own, or not any more.
    pub(super) fn take_for_gateways(&mut self, is_v4: bool, takes: bool) -> Result<(), RoutesError> {
        let family = if is_v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let mut rule = RuleMessage::default();
        rule.header.family = family;
        rule.header.action = RuleAction::ToTable;
        rule.attributes = vec![
            RuleAttribute::Priority(GATEWAY_PRIORITY),
            RuleAttribute::FwMark(crate::GATEWAY_TAKES),
            RuleAttribute::FwMask(u32::MAX),
            RuleAttribute::Table(GATEWAY_TABLE),
        ];
        let mut route = RouteMessage::default();
        route.header.address_family = family;
        route.header.protocol = RouteProtocol::Static;
        route.header.scope = if is_v4 { RouteScope::Host } else { RouteScope::Universe };
        route.header.kind = RouteType::Local;
        route.attributes = vec![RouteAttribute::Table(GATEWAY_TABLE), RouteAttribute::Oif(LOOPBACK)];
        use RouteNetlinkMessage as M;
        let (doing, known, messages) = if takes {
            let doing = "adding the routes of transparent gateways";
            (doing, [EEXIST; 2], [M::NewRoute(route), M::NewRule(rule)])
        } else {
            (
                "removing the routes of transparent gateways",
                [ENOENT, ESRCH],
                [M::DelRule(rule), M::DelRoute(route)],
            )
        };
        let flags = if takes { NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL } else { NLM_F_ACK };
        for message in messages {
            match self.ask(message, flags, doing, |_| ()) {
                Err(RoutesError::Netlink { source, .. })
                    if source.raw_os_error().is_some_and(|error| known.contains(&error)) => {}
                // Of a family that the kernel does not have nothing is there.
                Err(RoutesError::Netlink { source, .. })
                    if !takes && source.raw_os_error() == Some(EAFNOSUPPORT) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// All neighbours.
    pub(super) fn neighbours(&mut self) -> Result<Vec<Neighbour>, RoutesError> {
        let mut all = Vec::new();
        let question = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        self.dump(question, "listing neighbours", |message| {
            if let RouteNetlinkMessage::NewNeighbour(neighbour) = message {
                all.extend(neighbour_of(&neighbour, true));
            }
        })?;
        Ok(all)
    }

    /// Tells the kernel that a neighbour is in use, so that it asks whether it is still there. One that is gone in the
    /// meantime is not made again.
    pub(super) fn use_neighbour(&mut self, neighbour: &Neighbour) -> Result<(), RoutesError> {
        let mut request = NeighbourMessage::default();
        request.header.family = family_of(neighbour.address);
        request.header.ifindex = neighbour.ifindex;
        request.header.flags = NeighbourFlags::Use;
        request.attributes.push(NeighbourAttribute::Destination(match neighbour.address {
            IpAddr::V4(a) => NeighbourAddress::Inet(a),
            IpAddr::V6(a) => NeighbourAddress::Inet6(a),
        }));
        let doing = "asking for a neighbour";
        let result = self.ask(RouteNetlinkMessage::NewNeighbour(request), NLM_F_ACK, doing, |_| ());
        match result {
            Err(RoutesError::Netlink { source, .. }) if source.raw_os_error() == Some(ENOENT) => Ok(()),
            other => other,
        }
    }

    fn dump(
        &mut self,
        question: RouteNetlinkMessage,
        doing: &'static str,
        take: impl FnMut(RouteNetlinkMessage),
    ) -> Result<(), RoutesError> {
        self.ask(question, NLM_F_DUMP, doing, take)
    }

    /// Asks, and gives every message of the answer to `take`, until the kernel says that it was the last.
    fn ask(
        &mut self,
        question: RouteNetlinkMessage,
        flags: u16,
        doing: &'static str,
        mut take: impl FnMut(RouteNetlinkMessage),
    ) -> Result<(), RoutesError> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        self.socket.send(&serialized(question, flags, sequence), 0).map_err(failed(doing))?;
        let mut outcome = None;
        while outcome.is_none() {
            let (bytes, _) = self.socket.recv_from_full().map_err(failed(doing))?;
            messages_of(&bytes, sequence, |message| match message {
                Some(NetlinkPayload::InnerMessage(inner)) => take(inner),
                Some(NetlinkPayload::Done(_)) => outcome = Some(Ok(())),
                Some(NetlinkPayload::Error(error)) if error.code.is_none() => outcome = Some(Ok(())),
                Some(NetlinkPayload::Error(error)) => outcome = Some(Err(error.to_io())),
                _ => {}
            });
        }
        outcome.unwrap_or(Ok(())).map_err(failed(doing))
    }
}

fn failed(doing: &'static str) -> impl Fn(std::io::Error) -> RoutesError {
    move |source| RoutesError::Netlink { doing, source }
}

fn serialized(message: RouteNetlinkMessage, flags: u16, sequence: u32) -> Vec<u8> {
    let mut packet = NetlinkMessage::from(message);
    packet.header.flags = NLM_F_REQUEST | flags;
    packet.header.sequence_number = sequence;
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    bytes
}

/// The messages of a datagram; None for one that cannot be understood.
fn messages(bytes: &[u8], mut take: impl FnMut(Option<NetlinkPayload<RouteNetlinkMessage>>)) {
    each_message(bytes, |_, message| take(message));
}

/// The messages that answer one question.
fn messages_of(
    bytes: &[u8],
    sequence: u32,
    mut take: impl FnMut(Option<NetlinkPayload<RouteNetlinkMessage>>),
) {
    each_message(bytes, |of, message| {
        if of == sequence {
            take(message);
        }
    });
}

/// Messages one after the other, each with its sequence number; the crate reads one, and does not say where it ended when it
/// cannot.
fn each_message(mut bytes: &[u8], mut take: impl FnMut(u32, Option<NetlinkPayload<RouteNetlinkMessage>>)) {
    const HEADER_BYTES: usize = 16;
    while bytes.len() >= HEADER_BYTES {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let length = word(0) as usize;
        if length < HEADER_BYTES || length > bytes.len() {
            return take(word(8), None);
        }
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes[..length]);
        take(word(8), message.ok().map(|message| message.payload));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn neighbour_of(message: &NeighbourMessage, is_there: bool) -> Option<Neighbour> {
    use NeighbourState as S;
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(a)) => Some(IpAddr::V4(*a)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(a)) => Some(IpAddr::V6(*a)),
        _ => None,
    })?;
    let link_address = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => Some(bytes.clone()),
        _ => None,
    });
    // The kernel's NUD_VALID.
    let valid =
        [S::Permanent, S::Noarp, S::Reachable, S::Probe, S::Stale, S::Delay].contains(&message.header.state);
    Some(Neighbour {
        ifindex: message.header.ifindex,
        address,
        link_address: (is_there && valid).then(|| link_address.unwrap_or_default()),
        is_doubted: is_there && message.header.state == S::Stale,
    })
}

fn interface_of(message: &LinkMessage) -> Option<Interface> {
    let name = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })?;
    let kind = message.header.link_layer_type;
    let (kind, kind_name) = (u16::from(kind), format!("{kind:?}"));
    let has = |flag| message.header.flags.contains(flag);
    let (is_up, receives_all) = (has(LinkFlags::Up), has(LinkFlags::Promisc));
    let mtu = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    let made_by = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(all) => all.iter().find_map(|info| match info {
            LinkInfo::Kind(kind) => Some(kind.to_string()),
            _ => None,
        }),
        _ => None,
    });
    // A tunnel has its remote where an Ethernet link has its broadcast address.
    let has_one_remote = message.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::Broadcast(bytes) => is_one_host(bytes),
        _ => false,
    });
    let index = message.header.index;
    Some(Interface { index, name, kind, kind_name, made_by, has_one_remote, is_up, receives_all, mtu })
}

/// Whether the bytes are an address of one host: not the unspecified address, and no group.
fn is_one_host(bytes: &[u8]) -> bool {
    let address = bytes
        .try_into()
        .map(|bytes: [u8; 4]| IpAddr::from(bytes))
        .or_else(|_| bytes.try_into().map(|bytes: [u8; 16]| IpAddr::from(bytes)));
    address.is_ok_and(|address| !address.is_unspecified() && !address.is_multicast())
}

fn link_of(message: &LinkMessage) -> Link {
    use LinkAttribute as A;
    let find = |take: fn(&A) -> Option<u32>| message.attributes.iter().find_map(take);
    // A link below is one of this namespace only where no other is named. Of veth it is the other end.
    let is_on_top = message.attributes.iter().any(|attribute| {
        let A::LinkInfo(info) = attribute else { return false };
        info.iter().any(|info| matches!(info, LinkInfo::Kind(InfoKind::MacVlan | InfoKind::MacVtap)))
    }) && !message.attributes.iter().any(|attribute| matches!(attribute, A::LinkNetNsId(_)));
    let below = find(|attribute| if let A::Link(index) = attribute { Some(*index) } else { None });
    Link {
        ifindex: message.header.index,
        address: message.attributes.iter().find_map(|attribute| match attribute {
            A::Address(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        }),
        controller: find(|attribute| if let A::Controller(index) = attribute { Some(*index) } else { None }),
        below: below.filter(|_| is_on_top),
    }
}

fn local_address(route: &RouteMessage) -> Option<(IpAddr, LocalKind)> {
    let header = &route.header;
    // Strict kernels send only what was asked for; those before 4.20 send everything.
    if header.table != TABLE_LOCAL {
        return None;
    }
    let kind = match header.kind {
        RouteType::Local | RouteType::Anycast => LocalKind::Own,
        RouteType::Broadcast => LocalKind::Broadcast,
        _ => return None,
    };
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(a)) if header.destination_prefix_length == 32 => {
            Some(IpAddr::V4(*a))
        }
        RouteAttribute::Destination(RouteAddress::Inet6(a)) if header.destination_prefix_length == 128 => {
            Some(IpAddr::V6(*a))
        }
        _ => None,
    })?;
    Some((address, kind))
}

fn listed(message: &AddressMessage) -> Option<Listed> {
    let unfit =
        AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed | AddressHeaderFlags::Deprecated;
    // Of a point-to-point link, `Address` is the other end.
    let find = |local: bool| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(a) if local => Some(*a),
            AddressAttribute::Address(a) if !local => Some(*a),
            _ => None,
        })
    };
    Some(Listed {
        ifindex: message.header.index,
        address: find(true).or_else(|| find(false))?,
        scope: message.header.scope,
        is_unfit: message.header.flags.intersects(unfit),
    })
}
