//! What somebody does who directs a fleet: sends a policy to a group, and confirms it once every firewall works by it.

use crate::FleetError;
use crate::key::{PrivateKey, PublicKey};
use crate::report::{OrderState, Report};
use crate::server::{Heard, Server};
use crate::statement::{Confirmation, Order, Post, Signed, Statement};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::sleep;

/// Who has not been heard for so long is stale: three reports and a half.
pub const STALE: SignedDuration = SignedDuration::from_secs(35);
/// Between two looks at what agents say.
const LOOKS: Duration = Duration::from_millis(500);

/// A policy for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The group.
    pub group: String,
    /// The policy's file, for messages.
    pub file: String,
    /// The policy.
    pub text: String,
    /// Seconds after which firewalls go back unless the order is confirmed.
    pub confirm_seconds: u32,
}

/// What came of a policy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// When the order was made.
    pub made_at: Timestamp,
    /// Whether it is confirmed everywhere, and stays.
    pub is_confirmed: bool,
    /// What came of it at each firewall of the group, by name; null of those that said nothing in time.
    pub firewalls: Vec<(String, Option<OrderState>)>,
    /// Agents of the group that were stale when it was sent. They take it when they are back, if it stays.
    pub stale: Vec<String>,
}

/// Whether an agent has not been heard for too long.
#[must_use]
pub fn is_stale(heard: &Heard, now: Timestamp) -> bool {
    now.duration_since(heard.at) > STALE
}

/// Sends a policy to a group. It stays if every firewall whose agent is there works by it and still reaches the server.
///
/// # Errors
/// Nobody of the group is there, another policy is being tried, or the server does not take it.
pub async fn apply(
    server: &Server,
    key: &PrivateKey,
    wish: Wish,
    say: &dyn Fn(&str),
) -> Result<Outcome, FleetError> {
    let now = Timestamp::now();
    let members: Vec<Heard> =
        server.heard().await?.into_iter().filter(|heard| heard.report.group == wish.group).collect();
    let (stale, there): (Vec<_>, Vec<_>) = members.into_iter().partition(|heard| is_stale(heard, now));
    let names = |heard: Vec<Heard>| heard.into_iter().map(|heard| heard.report.name).collect::<Vec<_>>();
    let (stale, there) = (names(stale), names(there));
    if there.is_empty() {
        return Err(FleetError::Server(nobody_there(&wish.group, &stale)));
    }
    let before = server.post(&wish.group).await?;
    if let Some(posted) = &before {
        refuse_beside(&posted.post, key.public(), now)?;
    }
    let group = wish.group.clone();
    let order = Order {
        group: wish.group,
        made_at: now,
        file: wish.file,
        text: wish.text,
        confirm_seconds: wish.confirm_seconds,
    };
    let mut post = Post { order: signed(&order, key)?, confirmation: None };
    let revision = server.put_post(&group, &post, before.map(|posted| posted.revision)).await?;
    say(&format!("sent to {}", there.join(", ")));
    // Who confirms needs time to reach the firewalls before they go back.
    let seconds = SignedDuration::from_secs(order.confirm_seconds.into());
    let is_tried = |state: &OrderState| *state != OrderState::None;
    let mut firewalls = wait(server, &there, now, now + seconds * 2 / 3, &is_tried, say).await?;
    let works = |state: &Option<OrderState>| {
        matches!(state, Some(OrderState::Waiting { .. } | OrderState::Confirmed))
    };
    let mut is_confirmed = firewalls.iter().all(|(_, state)| works(state));
    if is_confirmed {
        post.confirmation = Some(signed(&Confirmation { group: group.clone(), order: now }, key)?);
        server.put_post(&group, &post, Some(revision)).await?;
        let is_over = |state: &OrderState| !matches!(state, OrderState::None | OrderState::Waiting { .. });
        firewalls = wait(server, &there, now, now + seconds, &is_over, say).await?;
        is_confirmed = firewalls.iter().all(|(_, state)| *state == Some(OrderState::Confirmed));
    }
    Ok(Outcome { made_at: now, is_confirmed, firewalls, stale })
}

fn signed(statement: &impl Statement, key: &PrivateKey) -> Result<Signed, FleetError> {
    Signed::new(statement, key).map_err(|error| FleetError::Wrong(format!("cannot write JSON: {error}")))
}

fn nobody_there(group: &str, stale: &[String]) -> String {
    let seconds = STALE.as_secs();
    match stale {
        [] => format!(
            "no agent says that it is of the group {group}: `rampart fleet status` lists those there are"
        ),
        _ => format!(
            "no agent of the group {group} was heard in the last {seconds} s; stale: {}",
            stale.join(", ")
        ),
    }
}

/// An order that is being tried, and one that is from a later time than this clock's, are not replaced. One that this key has not signed is: anybody
/// who may use the server could keep others from it.
fn refuse_beside(post: &Post, own: PublicKey, now: Timestamp) -> Result<(), FleetError> {
    let Ok(order) = post.order.read::<Order>(&[own]) else { return Ok(()) };
    if order.made_at >= now {
        let made_at = order.made_at;
        return Err(FleetError::Wrong(format!(
            "an order of {made_at} stands there: is this machine's clock behind?"
        )));
    }
    let until = order.made_at + SignedDuration::from_secs(order.confirm_seconds.into());
    if post.confirmation.is_none() && now < until {
        return Err(FleetError::Server(format!(
            "another policy is being tried until {until:.0}: try again after that"
        )));
    }
    Ok(())
}

/// Waits until all of these firewalls have come so far with the order, or until a time.
async fn wait(
    server: &Server,
    names: &[String],
    order: Timestamp,
    until: Timestamp,
    is_far: &dyn Fn(&OrderState) -> bool,
    say: &dyn Fn(&str),
) -> Result<Vec<(String, Option<OrderState>)>, FleetError> {
    let mut said: Vec<(String, Option<OrderState>)> = names.iter().map(|name| (name.clone(), None)).collect();
    loop {
        let reports: Vec<Report> = server.heard().await?.into_iter().map(|heard| heard.report).collect();
        for (name, state) in &mut said {
            let report = reports.iter().find(|report| report.name == *name && report.order == Some(order));
            let new = report.map(|report| report.order_state.clone());
            if new.is_some() && new != *state {
                say(&format!("{name}: {}", new.as_ref().map_or_else(String::new, OrderState::in_words)));
                *state = new;
            }
        }
        if said.iter().all(|(_, state)| state.as_ref().is_some_and(is_far)) || Timestamp::now() >= until {
            return Ok(said);
        }
        sleep(LOOKS).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::key;

    #[test]
    fn what_somebody_else_puts_there_keeps_nobody_from_an_order() {
        let (own, foreign) = (key(), key());
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let confirmation = Confirmation { group: "g".to_owned(), order: at(1_000) };
        for (what, key, is_confirmed, now, expected) in [
            ("tried", &own, false, 1_059, Some("is being tried until")),
            ("over", &own, false, 1_060, None),
            ("confirmed", &own, true, 1_001, None),
            ("of a later time", &own, true, 1_000, Some("is this machine's clock behind?")),
            ("of somebody else", &foreign, false, 1_001, None),
            ("of somebody else, of a later time", &foreign, false, 999, None),
        ] {
            let order = Order {
                group: "g".to_owned(),
                made_at: at(1_000),
                file: String::new(),
                text: String::new(),
                confirm_seconds: 60,
            };
            let confirmation = is_confirmed.then(|| signed(&confirmation, key).unwrap());
            let post = Post { order: signed(&order, key).unwrap(), confirmation };
            let why = refuse_beside(&post, own.public(), at(now)).err().map(|why| why.to_string());
            assert!(why.is_some() == expected.is_some(), "{what}: {why:?}");
            assert!(expected.is_none_or(|expected| why.unwrap().contains(expected)), "{what}");
        }
    }
}
