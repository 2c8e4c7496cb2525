//! The leader: greets agents, opens sessions with them, and gives orders. Waits for each answer.

use crate::agent::Stamps;
use crate::desk::{session_key, session_of};
use crate::seal::{Key, Sealed, Way, nonce};
use crate::wire::{Answer, Greeting, LARGEST, Order, PROTOCOL, VERSION, Welcome, clock_of, orders_of};
use crate::{Address, AgentsError};
use async_nats::{Client, Request, RequestErrorKind};
use futures_util::future::join;
use measure::clock::Exchange;
use std::cell::Cell;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use traffic::Clock;

/// How long an agent may take for an answer. To load its programs may take a slow host many seconds.
const PATIENCE: Duration = Duration::from_secs(4);
const PATIENCE_FOR_PORTS: Duration = Duration::from_secs(90);
/// How often an order is sent whose answer is lost.
const TIMES: u32 = 2;
/// How long a clock may take to answer; later, the answer says too little.
const PATIENCE_FOR_STAMPS: Duration = Duration::from_millis(500);

/// A connection to the server.
#[derive(Debug)]
pub struct Leader {
    runtime: Runtime,
    client: Client,
    key: Key,
}

/// A session with an agent.
#[derive(Debug)]
pub struct Session {
    agent: String,
    id: String,
    key: Key,
    number: Cell<u64>,
}

pub(crate) fn one_thread() -> Result<Runtime, AgentsError> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| AgentsError::Wrong(format!("no thread can wait for the server: {error}")))
}

impl Leader {
    /// Connects. `who` is who this is in what the server logs.
    ///
    /// # Errors
    /// The server does not answer, or does not let this user in.
    pub fn connect(address: &Address, key: Key, who: &str) -> Result<Self, AgentsError> {
        let runtime = one_thread()?;
        let client = runtime.block_on(fleet::server::connect(address, who))?;
        Ok(Self { runtime, client, key })
    }

    /// Opens a session with an agent, which begins with an order to take the port.
    ///
    /// # Errors
    /// No agent of that name answers with a seal of the key, or it is of another version.
    pub fn greet(&self, agent: &str) -> Result<Session, AgentsError> {
        let own = nonce()?;
        let greeting = Greeting { protocol: PROTOCOL, version: VERSION.to_owned(), nonce: own.clone() };
        let sealed = Sealed::new(&self.key, Way::ToAgent, (agent, "", 0), text(&greeting));
        let body = self
            .runtime
            .block_on(async { self.ask(agent, &sealed.bytes(), (&self.key, &own, 0), PATIENCE).await })?;
        let nonce = match serde_json::from_str(&body) {
            Ok(Welcome::Nonce(nonce)) => nonce,
            Ok(Welcome::Refused(why)) => return Err(AgentsError::agent(agent, why)),
            Err(error) => {
                return Err(AgentsError::agent(agent, format!("its answer cannot be read: {error}")));
            }
        };
        let id = session_of(&own, &nonce);
        Ok(Session { agent: agent.to_owned(), key: session_key(&self.key, &id), id, number: Cell::new(0) })
    }

    /// Gives an order.
    ///
    /// # Errors
    /// The agent does not answer, or refuses.
    pub fn order(&self, session: &Session, order: &Order) -> Result<Answer, AgentsError> {
        self.runtime.block_on(self.give(session, order))
    }

    /// Gives an order to each of two agents at the same time.
    ///
    /// # Errors
    /// One of them does not answer, or refuses; the other has its order nevertheless.
    pub fn order_both(
        &self,
        sessions: &[Session; 2],
        orders: [&Order; 2],
    ) -> Result<[Answer; 2], AgentsError> {
        let [a, b] = sessions;
        let (first, second) =
            self.runtime.block_on(async { join(self.give(a, orders[0]), self.give(b, orders[1])).await });
        Ok([first?, second?])
    }

    async fn give(&self, session: &Session, order: &Order) -> Result<Answer, AgentsError> {
        let Session { agent, id, key, number } = session;
        number.set(number.get() + 1);
        let own = number.get();
        let sealed = Sealed::new(key, Way::ToAgent, (agent, id, own), text(order)).bytes();
        let patience = match order {
            Order::Take { .. } | Order::Meet { .. } => PATIENCE_FOR_PORTS,
            _ => PATIENCE,
        };
        let body = self.ask(agent, &sealed, (key, id, own), patience).await?;
        match serde_json::from_str(&body) {
            Ok(Answer::Refused(why)) => Err(AgentsError::agent(agent, why)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(AgentsError::agent(agent, format!("its answer cannot be read: {error}"))),
        }
    }

    /// Sends a message until it is answered with a seal of the key.
    async fn ask(
        &self,
        agent: &str,
        message: &[u8],
        (key, session, number): (&Key, &str, u64),
        patience: Duration,
    ) -> Result<String, AgentsError> {
        let most = self.client.server_info().max_payload.min(LARGEST);
        if message.len() > most {
            let why = format!("an order takes {} bytes, and {most} are carried", message.len());
            return Err(AgentsError::agent(agent, why));
        }
        let mut why = String::new();
        for _ in 0..TIMES {
            let request = Request::new().timeout(Some(patience)).payload(message.to_vec().into());
            match self.client.send_request(orders_of(agent), request).await {
                Ok(answer) => {
                    let sealed: Option<Sealed> = serde_json::from_slice(&answer.payload).ok();
                    let is_it = |it: &Sealed| {
                        (it.agent.as_str(), it.session.as_str(), it.number) == (agent, session, number)
                            && it.is_of(key, Way::FromAgent)
                    };
                    match sealed.filter(is_it) {
                        Some(sealed) => return Ok(sealed.body),
                        None => {
                            why = "somebody without the key answers for it, or with another key".to_owned()
                        }
                    }
                }
                Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                    return Err(AgentsError::agent(
                        agent,
                        "no agent of this name is at the server: start `rampart-bench agent` there",
                    ));
                }
                Err(error) if error.kind() != RequestErrorKind::TimedOut => why = error.to_string(),
                Err(_) => {
                    why = format!(
                        "it says nothing within {} s: has it the same key, and does its host still work?",
                        patience.as_secs()
                    );
                }
            }
        }
        Err(AgentsError::agent(agent, why))
    }
}

impl Session {
    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.agent
    }
}

/// Exchanges stamps with an agent that has the ticket which `key` was derived from.
pub(crate) async fn compare(
    client: &Client,
    with: &str,
    key: &Key,
    times: u32,
) -> Result<Vec<Exchange>, String> {
    let mut exchanges = Vec::new();
    let mut why = String::new();
    for number in 0..u64::from(times) {
        match exchange(client, with, key, number).await {
            Ok(exchange) => exchanges.push(exchange),
            Err(error) => why = error,
        }
    }
    // Single ones may be lost; they say nothing then.
    if exchanges.len() * 2 < times as usize {
        return Err(format!("its clock and that of {with} cannot be compared: {why}"));
    }
    Ok(exchanges)
}

async fn exchange(client: &Client, with: &str, key: &Key, number: u64) -> Result<Exchange, String> {
    let own = nonce().map_err(|error| error.to_string())?;
    let question = Sealed::new(key, Way::ToAgent, (with, &own, number), own.clone()).bytes();
    let asked_ns = Clock::now_ns();
    let asked = client.request(clock_of(with), question.into());
    let answer = timeout(PATIENCE_FOR_STAMPS, asked).await;
    let returned_ns = Clock::now_ns();
    let answer =
        answer.map_err(|_| "nothing came back in time".to_owned())?.map_err(|error| error.to_string())?;
    let sealed: Sealed = serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())?;
    let is_it =
        sealed.is_of(key, Way::FromAgent) && (sealed.session.as_str(), sealed.number) == (&own, number);
    let stamps: Option<Stamps> =
        serde_json::from_str(&sealed.body).ok().filter(|it: &Stamps| it.nonce == own);
    match stamps.filter(|_| is_it) {
        Some(Stamps { heard_ns, answered_ns, .. }) => {
            Ok(Exchange { asked_ns, heard_ns, answered_ns, returned_ns })
        }
        None => Err("somebody without the ticket answered".to_owned()),
    }
}

fn text(value: &impl serde::Serialize) -> String {
    // Structures of numbers, texts and lists always have a form in JSON.
    serde_json::to_string(value).unwrap_or_default()
}
