//! The agent beside a firewall: obeys the orders of its group, says how the firewall is, and sends its events. It asks the firewall as any other client does,
//! and needs no more rights than the group `rampart` has. A firewall goes on without its agent, and the agent without its server.

use crate::FleetError;
use crate::config::{Address, Agent};
use crate::member::{InForce, Member, Memory, Step};
use crate::report::{Firewall, OrderState, Report};
use crate::server::{FleetEvent, Server};
use crate::statement::{Order, Post};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rampart_client::api::{Applied, Confirmed, Events, KeptPolicy, NewPolicy, Problem, Status};
use rampart_client::{Client, ClientError, Operation};
use ring::digest::{SHA256, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// How often an agent says how its firewall is.
pub const REPORTS: Duration = Duration::from_secs(10);
/// After what went wrong, before another try.
const PAUSE: Duration = Duration::from_secs(5);
/// How long an answer of the firewall may take: large policies take their time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the event log when there is nothing new.
const LOOKS: Duration = Duration::from_secs(1);
/// Events that are sent at once.
const AT_ONCE: u64 = 512;
/// A user that changes the firewall too often is asked to wait.
const TOO_OFTEN: u16 = 429;

/// What outlives an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    memory: Memory,
    /// Up to which event of which daemon the server has them.
    #[serde(default)]
    sent: Option<Sent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sent {
    daemon: Timestamp,
    after: u64,
}

/// What an agent does outside of itself, the server and the firewall.
pub struct Outside<'a> {
    /// Tells a person a line.
    pub say: &'a dyn Fn(&str),
    /// Puts what outlives the agent in the place of what was there, as a whole.
    pub save: &'a dyn Fn(&[u8]) -> io::Result<()>,
}

/// An agent as it runs.
pub struct Running<'a> {
    agent: &'a Agent,
    member: Member,
    firewall: Client,
    outside: Outside<'a>,
    kept: RefCell<Kept>,
    /// What stands for the group, as far as it was heard.
    post: RefCell<Option<Post>>,
    /// Why it is not obeyed.
    trouble: RefCell<Option<String>>,
    events_missed: Cell<u64>,
    /// Another thing stands for the group.
    changed: Notify,
}

impl<'a> Running<'a> {
    /// An agent that goes on where the last one ended, which had saved this.
    ///
    /// # Errors
    /// What was saved cannot be read.
    pub fn new(
        agent: &'a Agent,
        firewall: &Client,
        saved: Option<&[u8]>,
        outside: Outside<'a>,
    ) -> Result<Self, FleetError> {
        let kept = saved.map_or_else(|| Ok(Kept::default()), serde_json::from_slice);
        let kept = kept.map_err(|error| {
            FleetError::Wrong(format!("what the agent remembers of orders cannot be read: {error}"))
        })?;
        Ok(Self {
            agent,
            member: Member { group: agent.group.clone(), trust: agent.trust.clone() },
            firewall: firewall.with_patience(PATIENCE),
            outside,
            kept: RefCell::new(kept),
            post: RefCell::default(),
            trouble: RefCell::default(),
            events_missed: Cell::default(),
            changed: Notify::new(),
        })
    }

    /// Runs, and never returns.
    pub async fn run(&self, address: &Address) {
        loop {
            let Agent { name, group, .. } = self.agent;
            let why = match Server::connect(address, &format!("rampart agent {name}")).await {
                Ok(server) => {
                    self.say(&format!("agent {name} of group {group} has reached {}", address.url));
                    self.serve(&server).await
                }
                Err(why) => why,
            };
            self.say(&format!("{why}; trying again in {} s", PAUSE.as_secs()));
            sleep(PAUSE).await;
        }
    }

    /// Works with a server until something of it goes wrong.
    async fn serve(&self, server: &Server) -> FleetError {
        tokio::select! {
            why = self.hear(server) => why,
            why = self.obey_and_report(server) => why,
            why = self.send_events(server) => why,
        }
    }

    /// Notes what stands for the group, whenever it changes.
    async fn hear(&self, server: &Server) -> FleetError {
        let posts = match server.posts(&self.agent.group).await {
            Ok(posts) => posts,
            Err(why) => return why,
        };
        let mut posts = pin!(posts);
        while let Some(posted) = posts.next().await {
            match posted {
                Ok(posted) => *self.post.borrow_mut() = Some(posted.post),
                Err(why) => return why,
            }
            self.changed.notify_one();
        }
        FleetError::Server("the server tells no more of the group".to_owned())
    }

    /// Does what is to be done, and says how the firewall is: at times, and whenever something else stands for the group.
    async fn obey_and_report(&self, server: &Server) -> FleetError {
        loop {
            self.take_a_step(server).await;
            if let Err(why) = self.report(server).await {
                return why;
            }
            let _ = timeout(REPORTS, self.changed.notified()).await;
        }
    }

    /// Does what is to be done about what stands for the group.
    async fn take_a_step(&self, server: &Server) {
        let Some(post) = self.post.borrow().clone() else { return };
        let memory = self.kept.borrow().memory.clone();
        let step = self.member.step(&post, &memory, Timestamp::now());
        let trouble = match step {
            Ok(Step::Rest) => None,
            Ok(Step::Try(order)) => self.put_in_force(order).await.err(),
            Ok(Step::Follow(order)) => self.follow(order, server).await.err(),
            Ok(Step::Confirm { number }) => self.confirm(number).await.err(),
            Err(why) => Some(format!("what stands for the group {} is not obeyed: {why}", self.agent.group)),
        };
        if let Some(trouble) = trouble.as_ref().filter(|it| self.trouble.borrow().as_ref() != Some(*it)) {
            self.say(trouble);
        }
        *self.trouble.borrow_mut() = trouble;
    }

    async fn put_in_force(&self, order: Order) -> Result<(), String> {
        let made_at = order.made_at;
        let sha256 = hex(digest(&SHA256, order.text.as_bytes()).as_ref());
        let new = NewPolicy {
            file: order.file,
            folder: Some(self.agent.folder.clone()),
            text: order.text,
            confirm_seconds: Some(order.confirm_seconds),
        };
        let firewall = self.firewall.acting_for(&format!("fleet-{made_at:.0}"));
        let applied = blocking(move || firewall.send::<Applied>(Operation::Apply, &new)).await;
        let state = match applied {
            Ok(Applied { rolls_back_at: Some(until), number, .. }) => OrderState::Waiting { until, number },
            Ok(_) => OrderState::Confirmed,
            Err(ClientError::Refused { status, refusal }) if status < 500 && status != TOO_OFTEN => {
                OrderState::Refused { why: refusal.problems.first().map_or(refusal.error, in_words) }
            }
            // It is tried again for as long as the order holds.
            Err(error) => return Err(format!("the order of {made_at} is not in force: {error}")),
        };
        self.say(&format!("order of {made_at}: {}", state.in_words()));
        self.remember(Memory { order: Some(made_at), state, sha256 })
    }

    /// Puts an order in force that is confirmed for the others already, and confirms it if the server can be reached under it.
    async fn follow(&self, order: Order, server: &Server) -> Result<(), String> {
        self.put_in_force(order).await?;
        let state = self.kept.borrow().memory.state.clone();
        let OrderState::Waiting { until, number } = state else { return Ok(()) };
        while Timestamp::now() < until {
            if server.answers().await {
                return self.confirm(number).await;
            }
        }
        Err("the server cannot be reached under the order, which so does not stay".to_owned())
    }

    async fn confirm(&self, number: Option<u64>) -> Result<(), String> {
        let query: Vec<_> = number.iter().map(|it| ("number".to_owned(), it.to_string())).collect();
        let confirmed = self.ask::<Confirmed>(Operation::Confirm, query).await;
        confirmed.map_err(|error| format!("the order cannot be confirmed: {error}"))?;
        let memory = self.kept.borrow().memory.clone();
        self.say("the order stays");
        self.remember(Memory { state: OrderState::Confirmed, ..memory })
    }

    async fn report(&self, server: &Server) -> Result<(), FleetError> {
        server.put_report(&self.look().await).await?;
        let firewall = self.firewall.clone();
        match blocking(move || firewall.fetch(Operation::Metrics)).await {
            Ok(metrics) => server.put_metrics(&self.agent.name, metrics).await,
            // The report has said why.
            Err(_) => Ok(()),
        }
    }

    async fn look(&self) -> Report {
        let mut troubles: Vec<String> = self.trouble.borrow().iter().cloned().collect();
        let seen = async {
            let status: Status = self.ask(Operation::Status, Vec::new()).await?;
            let policy: KeptPolicy = self.ask(Operation::Policy, Vec::new()).await?;
            Ok::<_, ClientError>((status, policy))
        };
        let firewall = match seen.await {
            Ok((status, policy)) => {
                let sha256 = hex(digest(&SHA256, policy.text.as_bytes()).as_ref());
                let now = InForce { sha256: &sha256, waits: status.policy.rolls_back_at.is_some() };
                troubles.extend(self.compare(now));
                troubles.extend(status.troubles);
                Some(Firewall {
                    version: status.version,
                    file: status.policy.file,
                    rules: status.policy.rules as u64,
                    flows_open: status.flows.open,
                })
            }
            Err(error) => {
                troubles.push(error.to_string());
                None
            }
        };
        let memory = self.kept.borrow().memory.clone();
        Report {
            name: self.agent.name.clone(),
            group: self.agent.group.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            order: memory.order,
            order_state: memory.state,
            firewall,
            events_missed: self.events_missed.get(),
            troubles,
        }
    }

    /// Takes up what has come of the order at the firewall; what is to be said about it.
    fn compare(&self, now: InForce<'_>) -> Option<String> {
        let memory = self.kept.borrow().memory.clone();
        let state = memory.looked_at(now);
        if state != memory.state {
            self.say(&format!("the order: {}", state.in_words()));
            return self.remember(Memory { state, ..memory }).err();
        }
        memory
            .is_replaced(now)
            .then(|| "somebody has put another policy in force than the group's".to_owned())
    }

    async fn send_events(&self, server: &Server) -> FleetError {
        loop {
            match self.send_new_events(server).await {
                Ok(true) => {}
                // A firewall that does not answer has no events, and is reported as such.
                Ok(false) | Err(FleetError::Firewall(_)) => sleep(LOOKS).await,
                Err(why) => return why,
            }
        }
    }

    /// Sends what is new; whether there may be more.
    async fn send_new_events(&self, server: &Server) -> Result<bool, FleetError> {
        let status: Status = self.ask(Operation::Status, Vec::new()).await?;
        let sent = self.kept.borrow().sent.clone();
        let after = sent.filter(|sent| sent.daemon == status.since).map_or(0, |sent| sent.after);
        let query =
            [("after", after), ("limit", AT_ONCE)].map(|(key, value)| (key.to_owned(), value.to_string()));
        let events: Events = self.ask(Operation::Log, query.to_vec()).await?;
        self.events_missed.set(self.events_missed.get() + events.missed);
        let name = &self.agent.name;
        let is_all = (events.events.len() as u64) < AT_ONCE;
        let new: Vec<_> =
            events.events.into_iter().map(|event| FleetEvent { firewall: name.clone(), event }).collect();
        server.put_events(&new).await?;
        if !new.is_empty() || after == 0 {
            self.kept.borrow_mut().sent = Some(Sent { daemon: status.since, after: events.next });
            self.save().map_err(FleetError::Server)?;
        }
        Ok(!is_all)
    }

    async fn ask<A: DeserializeOwned + Send + 'static>(
        &self,
        operation: Operation,
        query: Vec<(String, String)>,
    ) -> Result<A, ClientError> {
        let firewall = self.firewall.clone();
        blocking(move || firewall.ask(operation, &query)).await
    }

    fn remember(&self, memory: Memory) -> Result<(), String> {
        self.kept.borrow_mut().memory = memory;
        self.save()
    }

    fn save(&self) -> Result<(), String> {
        let kept = serde_json::to_vec(&*self.kept.borrow()).map_err(io::Error::other);
        kept.and_then(|kept| (self.outside.save)(&kept)).map_err(|error| {
            format!("cannot save what was obeyed, so an old order would be obeyed again: {error}")
        })
    }

    fn say(&self, text: &str) {
        (self.outside.say)(text);
    }
}

impl OrderState {
    /// What came of an order, in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::None => "nothing yet".to_owned(),
            Self::Waiting { until, .. } => format!("in force until {until:.0} unless it is confirmed"),
            Self::Confirmed => "in force".to_owned(),
            Self::RolledBack => "went back to the policy before it".to_owned(),
            Self::Refused { why } => format!("refused: {why}"),
        }
    }
}

fn in_words(problem: &Problem) -> String {
    let Problem { file, line, column, message, .. } = problem;
    format!("{file}:{line}:{column}: {message}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks the firewall on a thread that may wait.
async fn blocking<A: Send + 'static>(
    ask: impl FnOnce() -> Result<A, ClientError> + Send + 'static,
) -> Result<A, ClientError> {
    match tokio::task::spawn_blocking(ask).await {
        Ok(answer) => answer,
        Err(error) => Err(ClientError::Unreachable(format!("the agent could not ask: {error}"))),
    }
}
