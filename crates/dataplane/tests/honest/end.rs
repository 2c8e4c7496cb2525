//! An end of a TCP connection as RFC 9293 and RFC 5961 have it, as far as a firewall can see it: states, numbers, windows, answers. It has no
//! clock and no application; who uses it says what happens. Data is a number of bytes, and what comes out of order is not kept.

/// Bytes of a segment at most.
const MOST: u32 = 1460;

/// A segment without its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) window: u16,
    pub(crate) scale: Option<u8>,
    pub(crate) length: u32,
}

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// What an end knows. Two that are equal behave the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) state: State,
    /// It goes back to listening.
    listens: bool,
    first: u32,
    unacknowledged: u32,
    next: u32,
    expected: u32,
    /// Of the other end's SYN.
    other_first: u32,
    /// Bytes that it takes at once, and by how much it shifts them if both scale.
    room: u32,
    scale: Option<u8>,
    other_scale: Option<u8>,
    /// Bytes that the other end takes.
    allowed: u32,
    /// Bytes that wait to be sent, and whether nothing comes after them.
    waiting: u32,
    ends: bool,
}

const fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Segment {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn bytes(&self) -> u32 {
        self.length + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}

impl End {
    pub(crate) fn new(listens: bool, room: u32, scale: Option<u8>) -> Self {
        let state = if listens { State::Listen } else { State::Closed };
        Self {
            state,
            listens,
            first: 0,
            unacknowledged: 0,
            next: 0,
            expected: 0,
            other_first: 0,
            room,
            scale,
            other_scale: None,
            allowed: 0,
            waiting: 0,
            ends: false,
        }
    }

    /// Has forgotten everything.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.listens, self.room, self.scale);
    }

    /// Nobody listens here any more.
    pub(crate) fn stop_listening(&mut self) {
        self.listens = false;
        self.forget();
    }

    pub(crate) fn connect(&mut self, first: u32) -> Segment {
        self.forget();
        (self.state, self.first, self.unacknowledged, self.next) =
            (State::SynSent, first, first, first.wrapping_add(1));
        self.own_syn()
    }

    pub(crate) const fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed | State::Listen | State::TimeWait)
    }

    fn scales(&self) -> bool {
        self.scale.is_some() && self.other_scale.is_some()
    }

    fn segment(&self, flags: u8, sequence: u32, length: u32) -> Segment {
        let shift = if self.scales() && flags & SYN == 0 { self.scale.unwrap_or(0) } else { 0 };
        let window = (self.room >> shift).min(65535) as u16;
        let acknowledgement = if flags & ACK == 0 { 0 } else { self.expected };
        Segment { flags, sequence, acknowledgement, window, scale: None, length }
    }

    fn own_syn(&self) -> Segment {
        let is_answer = self.state == State::SynReceived;
        let offers = !is_answer || self.other_scale.is_some();
        let flags = if is_answer { SYN | ACK } else { SYN };
        Segment { scale: self.scale.filter(|_| offers), ..self.segment(flags, self.first, 0) }
    }

    /// What it says without having anything to say: a challenge, an acknowledgement, an opened window.
    pub(crate) fn acknowledges(&self) -> Segment {
        self.segment(ACK, self.next, 0)
    }

    /// A probe of an idle connection (RFC 9293 section 3.8.4).
    pub(crate) fn keep_alive(&self) -> Segment {
        self.segment(ACK, self.next.wrapping_sub(1), 0)
    }

    /// Opens or shuts its window; it takes back nothing that it allowed.
    pub(crate) fn make_room(&mut self, room: u32) {
        self.room = room;
    }

    pub(crate) fn send(&mut self, bytes: u32) {
        if matches!(self.state, State::Established | State::CloseWait) && !self.ends {
            self.waiting += bytes;
        }
    }

    pub(crate) fn close(&mut self) {
        if matches!(self.state, State::Established | State::CloseWait | State::SynReceived) {
            self.ends = true;
        }
    }

    /// Gives the connection up, with a reset.
    pub(crate) fn abort(&mut self) -> Option<Segment> {
        let was = self.clone();
        if !self.is_open() {
            return None;
        }
        self.forget();
        (was.state != State::SynSent).then(|| was.segment(RST | ACK, was.next, 0))
    }

    /// What it may send now.
    pub(crate) fn sends(&mut self) -> Vec<Segment> {
        let mut all = Vec::new();
        let may = matches!(self.state, State::Established | State::CloseWait);
        while may && self.waiting > 0 {
            let room = self.allowed.saturating_sub(self.next.wrapping_sub(self.unacknowledged));
            let bytes = self.waiting.min(MOST).min(room);
            if bytes == 0 {
                break;
            }
            all.push(self.segment(ACK, self.next, bytes));
            self.next = self.next.wrapping_add(bytes);
            self.waiting -= bytes;
        }
        if self.ends && self.waiting == 0 && may {
            all.push(self.segment(FIN | ACK, self.next, 0));
            self.next = self.next.wrapping_add(1);
            self.state = if self.state == State::CloseWait { State::LastAck } else { State::FinWait1 };
        }
        all
    }

    /// What it repeats when its timer ends: a SYN, the oldest data, a FIN, or a probe of a shut window.
    pub(crate) fn repeats(&self) -> Option<Segment> {
        let under_way = self.next.wrapping_sub(self.unacknowledged);
        let is_finished = matches!(self.state, State::FinWait1 | State::Closing | State::LastAck);
        match self.state {
            State::SynSent | State::SynReceived => Some(self.own_syn()),
            State::Closed | State::Listen | State::TimeWait => None,
            _ if under_way == 0 && self.waiting > 0 => Some(self.segment(ACK, self.next, 1)),
            _ if under_way == 0 => None,
            _ => {
                let data = under_way - u32::from(is_finished);
                let flags = if data == 0 { FIN | ACK } else { ACK };
                Some(self.segment(flags, self.unacknowledged, data.min(MOST)))
            }
        }
    }

    /// RFC 9293 section 3.10.7.1.
    fn refuses(&self, s: &Segment) -> Vec<Segment> {
        if s.has(RST) {
            return vec![];
        }
        let none = Segment {
            flags: RST,
            sequence: s.acknowledgement,
            acknowledgement: 0,
            window: 0,
            scale: None,
            length: 0,
        };
        if s.has(ACK) {
            return vec![none];
        }
        let acknowledgement = s.sequence.wrapping_add(s.bytes());
        vec![Segment { flags: RST | ACK, sequence: 0, acknowledgement, ..none }]
    }

    fn hears_syn(&mut self, s: &Segment) {
        self.expected = s.sequence.wrapping_add(1);
        self.other_first = s.sequence;
        self.other_scale = s.scale;
        self.allowed = u32::from(s.window);
    }

    /// A segment comes; returns what it answers. `first` is the number that a new connection would begin with.
    pub(crate) fn receives(&mut self, s: &Segment, first: u32) -> Vec<Segment> {
        match self.state {
            State::Closed => self.refuses(s),
            State::Listen if s.has(RST) => vec![],
            State::Listen if s.has(ACK) || !s.has(SYN) => self.refuses(s),
            State::Listen => self.accepts(s, first),
            State::SynSent => self.receives_in_syn_sent(s),
            _ => self.receives_synchronized(s, first),
        }
    }

    fn accepts(&mut self, s: &Segment, first: u32) -> Vec<Segment> {
        self.forget();
        self.hears_syn(s);
        (self.state, self.first, self.unacknowledged, self.next) =
            (State::SynReceived, first, first, first.wrapping_add(1));
        vec![self.own_syn()]
    }

    fn receives_in_syn_sent(&mut self, s: &Segment) -> Vec<Segment> {
        let is_right = s.has(ACK) && s.acknowledgement == self.next;
        if s.has(ACK) && !is_right {
            return self.refuses(s);
        }
        if s.has(RST) {
            if is_right {
                self.forget();
            }
            return vec![];
        }
        if !s.has(SYN) {
            return vec![];
        }
        self.hears_syn(s);
        if !is_right {
            self.state = State::SynReceived;
            return vec![self.own_syn()];
        }
        self.unacknowledged = s.acknowledgement;
        self.state = State::Established;
        vec![self.acknowledges()]
    }

    fn is_acceptable(&self, s: &Segment) -> bool {
        let (begin, bytes) = (s.sequence.wrapping_sub(self.expected), s.bytes());
        match (bytes, self.room) {
            (0, 0) => begin == 0,
            (0, room) => begin < room,
            (_, 0) => false,
            (bytes, room) => begin < room || begin.wrapping_add(bytes - 1) < room,
        }
    }

    fn receives_synchronized(&mut self, s: &Segment, first: u32) -> Vec<Segment> {
        if self.state == State::SynReceived && s.has(SYN) && !s.has(RST) && s.sequence == self.other_first {
            // Simultaneous open, or the same SYN again.
            if s.has(ACK) && s.acknowledgement == self.next {
                self.unacknowledged = self.next;
                self.state = State::Established;
                return vec![self.acknowledges()];
            }
            return vec![self.own_syn()];
        }
        let is_new = s.flags & (SYN | ACK | RST) == SYN && is_before(self.expected, s.sequence);
        if self.state == State::TimeWait && is_new && self.listens {
            return self.accepts(s, first);
        }
        if s.has(RST) {
            let is_challenged = self.is_acceptable(s) && s.sequence != self.expected;
            if s.sequence == self.expected {
                self.forget();
            }
            return if is_challenged { vec![self.acknowledges()] } else { vec![] };
        }
        if !self.is_acceptable(s) || s.has(SYN) {
            let probe = self.room == 0 && s.sequence == self.expected;
            if probe && s.has(ACK) {
                self.hears_acknowledgement(s);
            }
            return vec![self.acknowledges()];
        }
        if !s.has(ACK) {
            return vec![];
        }
        if is_before(self.next, s.acknowledgement) {
            return if self.state == State::SynReceived {
                self.refuses(s)
            } else {
                vec![self.acknowledges()]
            };
        }
        if self.state == State::SynReceived {
            if s.acknowledgement != self.next {
                return self.refuses(s);
            }
            self.state = State::Established;
        }
        self.hears_acknowledgement(s);
        if matches!(self.state, State::Closed | State::Listen) {
            return vec![];
        }
        self.takes(s)
    }

    fn hears_acknowledgement(&mut self, s: &Segment) {
        if is_before(s.acknowledgement, self.unacknowledged) {
            return;
        }
        self.unacknowledged = s.acknowledgement;
        let shift = if self.scales() { self.other_scale.unwrap_or(0) } else { 0 };
        self.allowed = u32::from(s.window) << shift;
        if self.unacknowledged != self.next {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.state = State::TimeWait,
            State::LastAck => self.forget(),
            _ => {}
        }
    }

    /// Data and FIN.
    fn takes(&mut self, s: &Segment) -> Vec<Segment> {
        if s.bytes() == 0 {
            return vec![];
        }
        let known = self.expected.wrapping_sub(s.sequence);
        if is_before(self.expected, s.sequence) {
            return vec![self.acknowledges()];
        }
        if known <= s.length {
            self.expected = s.sequence.wrapping_add(s.length);
            if s.has(FIN) {
                self.expected = self.expected.wrapping_add(1);
                self.state = match self.state {
                    State::Established => State::CloseWait,
                    State::FinWait1 => State::Closing,
                    State::FinWait2 => State::TimeWait,
                    other => other,
                };
            }
        }
        vec![self.acknowledges()]
    }
}
