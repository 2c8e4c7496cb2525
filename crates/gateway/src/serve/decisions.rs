//! What was decided about requests lately, under one set of rules, within bounds: of number, and of what a client may write into a question. Without a
//! clock: the moment is an argument.

use crate::config::Gateway;
use crate::decide::Decision;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Rules from which on to look for a decision takes less time than to decide.
const WORTH_KEEPING: usize = 32;
/// Decisions that are kept at most.
const KEPT: usize = 65_536;
/// Bytes of a question that is kept. Paths may have as many as heads: kept whole, they would take a gigabyte.
const LONGEST: usize = 512;

/// All that a decision depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) client: IpAddr,
    pub(super) method: String,
    /// Host and port.
    pub(super) host: String,
    pub(super) path: Option<String>,
    pub(super) user: Option<String>,
}

impl Question {
    fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.method.len() + self.host.len() + length(&self.path) + length(&self.user)
    }
}

/// Whether decisions of a gateway are kept at all.
pub(super) fn are_kept(gateway: &Gateway) -> bool {
    !gateway.decisions.is_zero() && gateway.rules.len() >= WORTH_KEEPING
}

/// Decisions.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    of: Option<Arc<Gateway>>,
    known: HashMap<Question, (Decision, Instant)>,
}

impl Decisions {
    /// What was decided under the same rules, if that still holds.
    pub(super) fn known(
        &self,
        gateway: &Arc<Gateway>,
        question: &Question,
        now: Instant,
    ) -> Option<Decision> {
        let (decision, until) = self.known.get(question).filter(|_| self.is_of(gateway))?;
        (now < *until).then(|| decision.clone())
    }

    /// Keeps a decision, if there is room for its question.
    pub(super) fn keep(
        &mut self,
        gateway: &Arc<Gateway>,
        question: Question,
        decision: &Decision,
        now: Instant,
    ) {
        if question.bytes() > LONGEST {
            return;
        }
        if !self.is_of(gateway) {
            *self = Self { of: Some(Arc::clone(gateway)), known: HashMap::new() };
        }
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(question, (decision.clone(), now + gateway.decisions));
    }

    fn is_of(&self, gateway: &Arc<Gateway>) -> bool {
        self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, gateway))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Addresses, Limits, Mode, Protocol};
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    fn gateway() -> Arc<Gateway> {
        Arc::new(Gateway {
            name: "web".to_owned(),
            protocol: Protocol::Http,
            listen: ([127, 0, 0, 1], 3128).into(),
            mode: Mode::Explicit,
            rules: Vec::new(),
            host_sets: Vec::new(),
            reach: Addresses::default(),
            ports: vec![80],
            connect_ports: Vec::new(),
            resolvers: Vec::new(),
            look_up: false,
            client_names: false,
            decisions: MINUTE,
            forwarded_for: false,
            users: None,
            limits: Limits::default(),
        })
    }

    fn question(path: String) -> Question {
        let (method, host) = ("GET".to_owned(), "www.test:80".to_owned());
        Question { client: [10, 0, 0, 1].into(), method, host, path: Some(path), user: None }
    }

    #[test]
    fn decisions_are_kept_for_their_time_under_their_rules_and_within_bounds() {
        let (gateway, other, start) = (gateway(), gateway(), Instant::now());
        let short = question("/a".to_owned());
        let room = LONGEST - question(String::new()).bytes();
        let [longest, longer] = [room, room + 1].map(|length| question("a".repeat(length)));
        let mut decisions = Decisions::default();
        for question in [&short, &longest, &longer] {
            decisions.keep(&gateway, question.clone(), &Decision::Allow(3), start);
        }
        let late = start + MINUTE;
        for (what, of, question, now, is_known) in [
            ("at once", &gateway, &short, start, true),
            ("until its end", &gateway, &short, late - Duration::from_millis(1), true),
            ("after its end", &gateway, &short, late, false),
            ("under other rules", &other, &short, start, false),
            ("as long as may be", &gateway, &longest, start, true),
            ("longer", &gateway, &longer, start, false),
            ("of another path", &gateway, &self::question("/b".to_owned()), start, false),
        ] {
            let known = decisions.known(of, question, now);
            assert_eq!(known, is_known.then_some(Decision::Allow(3)), "{what}");
        }
        for number in 0..2 * KEPT {
            decisions.keep(&gateway, self::question(number.to_string()), &Decision::Allow(3), start);
        }
        assert!(decisions.known.len() <= KEPT, "{}", decisions.known.len());
        decisions.keep(&other, short.clone(), &Decision::Allow(1), start);
        assert_eq!((decisions.known.len(), decisions.known(&gateway, &short, start)), (1, None));
    }
}
