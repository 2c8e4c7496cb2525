//! What an agent does about what stands for its group. Pure: the time is an argument.

use crate::key::PublicKey;
use crate::report::OrderState;
use crate::statement::{Confirmation, Order, Post};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How far clocks may be apart: an order from later than this would be the last that an agent ever takes.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(5);

/// Who decides whose orders count.
#[derive(Debug, Clone)]
pub struct Member {
    /// The group.
    pub group: String,
    /// Keys whose signatures hold.
    pub trust: Vec<PublicKey>,
}

/// What an agent has done so far. It outlives the agent, so that nobody can have an old order obeyed again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// When the last order that it has acted upon was made.
    pub order: Option<Timestamp>,
    /// What came of it.
    pub state: OrderState,
    /// SHA-256 of its policy, in hexadecimal digits.
    #[serde(default)]
    pub sha256: String,
}

/// What a firewall says of the policy in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InForce<'a> {
    /// SHA-256 of its text, in hexadecimal digits.
    pub sha256: &'a str,
    /// Whether it goes away unless somebody confirms it.
    pub waits: bool,
}

impl Memory {
    /// What has come of the order meanwhile: its time may be over, and somebody at the firewall may have confirmed it or gone back.
    #[must_use]
    pub fn looked_at(&self, now: InForce<'_>) -> OrderState {
        match &self.state {
            OrderState::Waiting { .. } if now.sha256 != self.sha256 => OrderState::RolledBack,
            OrderState::Waiting { .. } if !now.waits => OrderState::Confirmed,
            other => other.clone(),
        }
    }

    /// Whether somebody has put another policy in force than the order that stays.
    #[must_use]
    pub fn is_replaced(&self, now: InForce<'_>) -> bool {
        self.state == OrderState::Confirmed && now.sha256 != self.sha256
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Put an order in force, to be confirmed when the group has it.
    Try(Order),
    /// Put an order in force that is confirmed for the group already. It stays if the server can still be reached.
    Follow(Order),
    /// Confirm the order that is in force.
    Confirm {
        /// Its number in the firewall's history.
        number: Option<u64>,
    },
}

impl Member {
    /// What is to be done about what stands for the group.
    ///
    /// # Errors
    /// Why it is not obeyed.
    pub fn step(&self, post: &Post, memory: &Memory, now: Timestamp) -> Result<Step, String> {
        let order: Order = post.order.read(&self.trust)?;
        if order.group != self.group {
            return Err(format!("it was signed for the group {:?}", order.group));
        }
        if order.made_at > now + CLOCKS_APART {
            return Err(format!("it was made at {}, which is yet to come: is a clock wrong?", order.made_at));
        }
        if memory.order.is_some_and(|last| order.made_at < last) {
            return Err(format!("it was made at {}, and a later one was obeyed already", order.made_at));
        }
        let is_confirmed = self.is_confirmed(post, &order)?;
        if memory.order == Some(order.made_at) {
            return Ok(match &memory.state {
                OrderState::Waiting { number, .. } if is_confirmed => Step::Confirm { number: *number },
                _ => Step::Rest,
            });
        }
        let is_in_time = now < order.made_at + SignedDuration::from_secs(order.confirm_seconds.into());
        Ok(match (is_confirmed, is_in_time) {
            (true, _) => Step::Follow(order),
            (false, true) => Step::Try(order),
            // Nobody confirms it any more.
            (false, false) => Step::Rest,
        })
    }

    fn is_confirmed(&self, post: &Post, order: &Order) -> Result<bool, String> {
        let Some(confirmation) = &post.confirmation else { return Ok(false) };
        let confirmation: Confirmation =
            confirmation.read(&self.trust).map_err(|why| format!("its confirmation: {why}"))?;
        Ok(confirmation.group == self.group && confirmation.order == order.made_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Signed;
    use crate::statement::tests::key;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-27T10:{text}Z").parse().unwrap()
    }

    #[test]
    fn an_order_is_obeyed_once_in_time_and_by_those_it_is_for() {
        let (own, foreign) = (key(), key());
        let member = Member { group: "branches".to_owned(), trust: vec![own.public()] };
        let order = |group: &str| Order {
            group: group.to_owned(),
            made_at: at("10:00"),
            file: "p.toml".to_owned(),
            text: "[zones]".to_owned(),
            confirm_seconds: 60,
        };
        let after = |order: &str, state| Memory { order: Some(at(order)), state, ..Memory::default() };
        let waiting = || after("10:00", OrderState::Waiting { until: at("11:00"), number: Some(7) });
        let refused = || after("10:00", OrderState::Refused { why: String::new() });
        let new = Memory::default;
        let try_it = || Ok(Step::Try(order("branches")));
        let follow = || Ok(Step::Follow(order("branches")));
        let confirm = || Ok(Step::Confirm { number: Some(7) });
        for (what, key, group, confirmed, memory, now, expected) in [
            ("new", &own, "branches", "", new(), "10:05", try_it()),
            ("at its last moment", &own, "branches", "", new(), "10:59", try_it()),
            ("too late", &own, "branches", "", new(), "11:00", Ok(Step::Rest)),
            ("too late, and confirmed for the others", &own, "branches", "10:00", new(), "40:00", follow()),
            (
                "after an older one",
                &own,
                "branches",
                "",
                after("09:00", OrderState::Confirmed),
                "10:05",
                try_it(),
            ),
            ("confirmed", &own, "branches", "10:00", waiting(), "10:30", confirm()),
            ("another one is confirmed", &own, "branches", "09:00", waiting(), "10:30", Ok(Step::Rest)),
            ("not confirmed yet", &own, "branches", "", waiting(), "10:30", Ok(Step::Rest)),
            (
                "confirmed too late",
                &own,
                "branches",
                "10:00",
                after("10:00", OrderState::RolledBack),
                "12:00",
                Ok(Step::Rest),
            ),
            ("refused before", &own, "branches", "", refused(), "10:30", Ok(Step::Rest)),
            (
                "an old one again",
                &own,
                "branches",
                "10:00",
                after("11:00", OrderState::Confirmed),
                "12:00",
                Err("a later one was"),
            ),
            ("from the future", &own, "branches", "", new(), "04:59", Err("is a clock wrong?")),
            ("signed by somebody", &foreign, "branches", "", new(), "10:05", Err("no key under `trust`")),
            ("for others", &own, "all", "", new(), "10:05", Err("signed for the group \"all\"")),
        ] {
            let confirmation = (!confirmed.is_empty())
                .then(|| Confirmation { group: group.to_owned(), order: at(confirmed) });
            let confirmation = confirmation.map(|it| Signed::new(&it, key).unwrap());
            let post = Post { order: Signed::new(&order(group), key).unwrap(), confirmation };
            let now = at(now);
            match (member.step(&post, &memory, now), expected) {
                (Ok(step), Ok(expected)) => assert_eq!(step, expected, "{what}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{what}: {why}"),
                (step, _) => panic!("{what}: {step:?}"),
            }
        }
    }

    #[test]
    fn who_may_not_sign_cannot_confirm() {
        let (own, foreign) = (key(), key());
        let member = Member { group: "g".to_owned(), trust: vec![own.public()] };
        let order = Order {
            group: "g".to_owned(),
            made_at: at("00:00"),
            file: String::new(),
            text: String::new(),
            confirm_seconds: 60,
        };
        let confirmation = Confirmation { group: "g".to_owned(), order: order.made_at };
        let post = Post {
            order: Signed::new(&order, &own).unwrap(),
            confirmation: Some(Signed::new(&confirmation, &foreign).unwrap()),
        };
        let waiting = OrderState::Waiting { until: at("01:00"), number: None };
        let memory = Memory { order: Some(order.made_at), state: waiting, ..Memory::default() };
        assert!(member.step(&post, &memory, at("00:30")).unwrap_err().contains("its confirmation: no key"));
    }

    #[test]
    fn what_has_come_of_an_order_is_seen_at_the_firewall() {
        let waiting = || OrderState::Waiting { until: at("11:00"), number: Some(7) };
        for (state, sha256, waits, expected, is_replaced) in [
            (waiting(), "own", true, waiting(), false),
            (waiting(), "own", false, OrderState::Confirmed, false),
            (waiting(), "other", false, OrderState::RolledBack, false),
            (waiting(), "other", true, OrderState::RolledBack, false),
            (OrderState::Confirmed, "own", false, OrderState::Confirmed, false),
            (OrderState::Confirmed, "other", false, OrderState::Confirmed, true),
            (OrderState::RolledBack, "other", false, OrderState::RolledBack, false),
            (OrderState::None, "other", false, OrderState::None, false),
        ] {
            let memory = Memory { order: None, state, sha256: "own".to_owned() };
            let now = InForce { sha256, waits };
            assert_eq!(memory.looked_at(now), expected, "{memory:?} {now:?}");
            assert_eq!(memory.is_replaced(now), is_replaced, "{memory:?} {now:?}");
        }
    }
}
