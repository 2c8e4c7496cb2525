//! Ends of TCP that do what RFC 9293 and RFC 5961 say, and a network that loses, repeats and reorders on both sides of the firewall, while
//! ends forget and stop listening: what its receiver would act upon passes, on all hooks. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
#[path = "honest/end.rs"]
mod end;

use bed::{Bed, Fate, Side};
use dataplane::Hook;
use end::{End, RST, SYN, Segment, State};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::packet::{Frame, Tcp};
use testkit::random::Random;

const STEPS: usize = 150;

/// A segment, and how many were sent before it.
type Sent = (u32, Segment);

/// A client inside, a server outside, and what is on its way: to the firewall, and behind it.
struct World {
    random: Random,
    port: u16,
    ends: [End; 2],
    before: [Vec<Sent>; 2],
    behind: [Vec<Sent>; 2],
    /// How many were sent, and which of each end's was a reset that has passed last.
    count: u32,
    reset: [u32; 2],
    said: Vec<String>,
}

impl World {
    fn new(seed: u64, port: u16) -> Self {
        let mut random = Random::new(seed);
        let scale = |random: &mut Random| [None, Some(0), Some(7)][random.below(3)];
        let (client, server) = (scale(&mut random), scale(&mut random));
        let room = |scale: Option<u8>| if scale == Some(7) { 1 << 20 } else { 65535 };
        let ends = [End::new(false, room(client), client), End::new(true, room(server), server)];
        Self {
            random,
            port,
            ends,
            before: Default::default(),
            behind: Default::default(),
            count: 1,
            reset: [0; 2],
            said: vec![],
        }
    }

    fn number(&mut self) -> u32 {
        self.random.below(1 << 32) as u32
    }

    /// What the ends do of themselves.
    fn acts(&mut self) {
        let who = self.random.below(2);
        let first = self.number();
        let end = &mut self.ends[who];
        let what = self.random.below(12);
        let sent: Vec<Segment> = match what {
            0 if who == 0 && !end.is_open() => vec![end.connect(first)],
            1 => {
                end.send(1 + self.random.below(5000) as u32);
                end.sends()
            }
            2 | 3 if self.random.is_one_in(4) => {
                end.close();
                end.sends()
            }
            4 if self.random.is_one_in(6) => end.abort().into_iter().collect(),
            5 if self.random.is_one_in(8) => {
                end.forget();
                vec![]
            }
            6 if who == 1 && self.random.is_one_in(12) => {
                end.stop_listening();
                vec![]
            }
            7 if end.state == State::Established => vec![end.keep_alive()],
            8 if end.state == State::Established && self.random.is_one_in(3) => {
                end.make_room([0, 1000, 65535][self.random.below(3)]);
                vec![end.acknowledges()]
            }
            _ => end.repeats().into_iter().collect(),
        };
        let begins = self.ends[who].state == State::SynSent && what == 0;
        if begins || (matches!(what, 5 | 6) && !self.ends[who].is_open()) {
            // Who begins anew is quiet for as long as anything of the time before may be on its way (RFC 9293 section 3.4.2).
            self.before.iter_mut().chain(&mut self.behind).for_each(Vec::clear);
        }
        self.sends(who, sent);
    }

    fn sends(&mut self, who: usize, all: Vec<Segment>) {
        for segment in all {
            self.before[who].push((self.count, segment));
            self.count += 1;
        }
    }

    /// Takes one of what is on its way, mostly the oldest, and perhaps leaves it there.
    fn pick(random: &mut Random, queue: &mut Vec<Sent>) -> Option<Sent> {
        if queue.is_empty() {
            return None;
        }
        let at = if random.is_one_in(8) { random.below(queue.len()) } else { 0 };
        Some(if random.is_one_in(16) { queue[at] } else { queue.remove(at) })
    }

    fn arrives(&mut self, who: usize, segment: &Segment) {
        let first = self.number();
        let answers = self.ends[who].receives(segment, first);
        self.sends(who, answers);
        let more = self.ends[who].sends();
        self.sends(who, more);
    }

    /// Whether the receiver of a segment would act upon it.
    fn matters(&self, to: usize, segment: &Segment) -> bool {
        // Who has given up says so by resets alone.
        if !self.ends[1 - to].is_open() && !segment.has(RST) {
            return false;
        }
        let mut end = self.ends[to].clone();
        end.receives(segment, 7);
        end != self.ends[to]
    }

    fn crosses(&mut self, bed: &mut Bed, from: usize) -> Result<(), String> {
        let Some((number, segment)) = Self::pick(&mut self.random, &mut self.before[from]) else {
            return Ok(());
        };
        if self.random.is_one_in(10) {
            return Ok(());
        }
        let fate = bed.send([Side::In, Side::Out][from], &frame(&segment, self.port, from));
        let line = format!(
            "{} {segment:?} -> {} | client {:?}, server {:?}",
            [">", "<"][from],
            fate.words(),
            self.ends[0].state,
            self.ends[1].state
        );
        self.said.push(line);
        if fate == Fate::Sent {
            if !self.random.is_one_in(10) {
                self.behind[1 - from].push((number, segment));
            }
            if segment.has(RST) {
                self.reset[from] = number;
            }
            return Ok(());
        }
        // What was overtaken by a reset finds its receiver without the connection.
        if number < self.reset[from] || !self.matters(1 - from, &segment) {
            return Ok(());
        }
        let state = bed.state(self.port);
        // A SYN that the firewall saw before a reset, and the server after it, is sent again.
        if state == "reset" && segment.has(SYN) {
            return Ok(());
        }
        Err(format!("{} in {state}", fate.words()))
    }

    fn step(&mut self, bed: &mut Bed) -> Result<(), String> {
        match self.random.below(8) {
            0 | 1 => self.acts(),
            2 => bed.pass(Duration::from_millis(200)),
            3 | 4 => {
                let from = self.random.below(2);
                self.crosses(bed, from)?;
            }
            _ => {
                let to = self.random.below(2);
                if let Some((_, segment)) = Self::pick(&mut self.random, &mut self.behind[to]) {
                    self.arrives(to, &segment);
                }
            }
        }
        Ok(())
    }
}

fn frame(segment: &Segment, port: u16, from: usize) -> Vec<u8> {
    let (ports, ends) = match from {
        0 => ((port, 80), ("198.18.1.2", "198.18.2.2")),
        _ => ((80, port), ("198.18.2.2", "198.18.1.2")),
    };
    let tcp = Tcp {
        ports,
        flags: segment.flags,
        sequence: segment.sequence,
        acknowledgement: segment.acknowledgement,
        window: segment.window,
        length: segment.length as usize,
        scale: segment.scale,
        nothings: 0,
    };
    Frame::new(ends.0, ends.1, 6, tcp.bytes()).completed().bytes()
}

fn run(hook: Hook, worlds: u64) {
    let mut bed = Bed::new(hook);
    let mut wrong = BTreeMap::<String, (u32, String)>::new();
    let (mut opened, mut segments) = (0, 0);
    for n in 0..worlds {
        let mut world = World::new(n + 1, 20_000 + (n % 30_000) as u16);
        for _ in 0..STEPS {
            if let Err(why) = world.step(&mut bed) {
                wrong.entry(why).or_insert((0, world.said.join("\n    "))).0 += 1;
                break;
            }
        }
        opened += u32::from(world.said.iter().any(|line| line.contains("Established, server Established")));
        segments += world.said.len();
    }
    let said: Vec<_> =
        wrong.iter().map(|(kind, (count, first))| format!("{count} {kind}\n    {first}")).collect();
    assert!(said.is_empty(), "{hook:?}:\n{}", said.join("\n"));
    assert!(opened > 100 && segments > 3500, "{opened} opened, {segments} segments");
}

#[test]
fn needs_root_what_an_honest_end_would_act_upon_passes() {
    for hook in [Hook::Xdp, Hook::Tc, Hook::Netfilter] {
        run(hook, 450);
    }
}
