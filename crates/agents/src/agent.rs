//! The agent at a host: listens for orders at the server, has its host obey those that are to be obeyed, and has it be at rest when nobody leads
//! any more.

use crate::course::Course;
use crate::desk::{Desk, Heard};
use crate::seal::{Key, Sealed, Way, nonce};
use crate::wire::{Answer, Order, Outcome, Trial, clock_of, orders_of};
use crate::{Address, AgentsError, leader};
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{interval, sleep};
use traffic::Clock;

/// Before another try at a server that does not answer.
const PAUSE: Duration = Duration::from_secs(5);
/// How often an agent looks whether its leader is gone, or its user wants it to end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Stamps that are exchanged at once.
const MOST_STAMPS: u32 = 256;

/// What is done at a host. It has a thread of its own for a session and is dropped with it: what it took, it then gives back.
pub trait Host {
    /// Obeys an order that is no trial.
    ///
    /// # Errors
    /// Why it is not obeyed, for the leader.
    fn obey(&mut self, order: Order) -> Result<Answer, String>;

    /// Runs a trial whose secrets are drawn from `seed`, as `course` says.
    ///
    /// # Errors
    /// Why it came to nothing.
    fn run(&mut self, trial: &Trial, seed: u64, course: &Course) -> Result<Outcome, String>;
}

/// An agent.
pub struct Agent<'a> {
    /// The agent's name, as orders have it.
    pub name: &'a str,
    /// What orders are sealed with.
    pub key: Key,
    /// Makes the host of a session, on the session's thread.
    pub host: fn() -> Box<dyn Host>,
    /// Tells a person a line.
    pub say: &'a dyn Fn(&str),
    /// Whether it is to end.
    pub ends: &'a dyn Fn() -> bool,
}

/// What the thread of a session is asked to do.
enum Task {
    Obey(Order, oneshot::Sender<Result<Answer, String>>),
    Run(Box<Trial>, u64, Arc<Course>, oneshot::Sender<Result<Outcome, String>>),
}

/// What will have come of a trial.
type Coming = oneshot::Receiver<Result<Outcome, String>>;

/// A session's thread.
struct Worker {
    tasks: Option<mpsc::Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    /// The trial under way, and what will have come of it.
    trial: Option<(Arc<Course>, Coming)>,
}

/// What both agents of a session have of their leader: questions for the clock are sealed and secrets of trials drawn with it and the key.
type Ticket = Arc<Mutex<Option<String>>>;

/// What the clock is asked, and what it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stamps {
    pub(crate) nonce: String,
    pub(crate) heard_ns: u64,
    pub(crate) answered_ns: u64,
}

impl Agent<'_> {
    /// Runs until it is to end.
    ///
    /// # Errors
    /// No thread can wait for the server.
    pub fn run(&self, address: &Address) -> Result<(), AgentsError> {
        leader::one_thread()?.block_on(async {
            while !(self.ends)() {
                match fleet::server::connect(address, &format!("rampart-bench agent {}", self.name)).await {
                    Ok(client) => {
                        (self.say)(&format!(
                            "agent {} has reached {} and waits for orders",
                            self.name, address.url
                        ));
                        if let Err(why) = self.serve(&client).await {
                            (self.say)(&format!("{why}; trying again"));
                        }
                    }
                    Err(why) => (self.say)(&format!("{why}; trying again in {} s", PAUSE.as_secs())),
                }
                self.pause().await;
            }
        });
        Ok(())
    }

    async fn pause(&self) {
        let begun = Instant::now();
        while begun.elapsed() < PAUSE && !(self.ends)() {
            sleep(LOOK_EVERY).await;
        }
    }

    async fn serve(&self, client: &Client) -> Result<(), AgentsError> {
        let refused = |error: &dyn std::fmt::Display| {
            AgentsError::Wrong(format!("the server does not let the agent {} listen: {error}", self.name))
        };
        let orders = client.subscribe(orders_of(self.name)).await.map_err(|error| refused(&error))?;
        let clock = client.subscribe(clock_of(self.name)).await.map_err(|error| refused(&error))?;
        let ticket = Ticket::default();
        tokio::select! {
            () = answer_clock(client, clock, (self.name, &self.key), &ticket) => {}
            () = self.hear(client, orders, &ticket) => {}
        }
        Ok(())
    }

    /// Hears orders until the connection is gone or the agent is to end; then nothing is left of any session.
    async fn hear(&self, client: &Client, mut orders: Subscriber, ticket: &Ticket) {
        let mut desk = Desk::new(self.name, self.key.clone());
        let mut worker: Option<Worker> = None;
        let mut ticks = interval(LOOK_EVERY);
        let mut last_ignored = "";
        loop {
            let message = tokio::select! {
                message = orders.next() => message,
                _ = ticks.tick() => {
                    let gone = desk.is_abandoned(Instant::now());
                    if (self.ends)() {
                        break;
                    }
                    if gone {
                        (self.say)("the leader says nothing any more");
                        self.rest(&mut desk, &mut worker, ticket);
                    }
                    continue;
                }
            };
            let Some(message) = message else { break };
            let (answer, leaves) = match desk.hear(&message.payload, Instant::now(), nonce) {
                Heard::Ignored(why) => {
                    if last_ignored != why {
                        (self.say)(&format!("ignored {why}"));
                    }
                    last_ignored = why;
                    continue;
                }
                Heard::Reply(bytes) => {
                    reply(client, &message, bytes).await;
                    continue;
                }
                Heard::Begin(order) => {
                    (self.say)(&format!("works for {}", desk.leader().unwrap_or_default()));
                    worker = Some(Worker::new(self.host));
                    let answer = obey(client, &mut worker, order, ticket, self).await;
                    let refused = matches!(answer, Answer::Refused(_));
                    (answer, refused)
                }
                Heard::Obey(Order::Leave) => (Answer::Done, true),
                Heard::Obey(order) => (obey(client, &mut worker, order, ticket, self).await, false),
            };
            let mut bytes = desk.answer(&answer, Instant::now());
            let most = client.server_info().max_payload;
            if bytes.len() > most {
                let why = format!(
                    "its answer takes {} bytes, and the server carries {most}: give it a larger `max_payload`",
                    bytes.len()
                );
                bytes = desk.answer(&Answer::Refused(why), Instant::now());
            }
            if leaves {
                self.rest(&mut desk, &mut worker, ticket);
            }
            reply(client, &message, bytes).await;
        }
        self.rest(&mut desk, &mut worker, ticket);
    }

    /// Ends a session: the trial, the programs, the port.
    fn rest(&self, desk: &mut Desk, worker: &mut Option<Worker>, ticket: &Ticket) {
        *held(ticket) = None;
        desk.end();
        if worker.take().is_some() {
            (self.say)("is at rest");
        }
    }
}

fn held(ticket: &Ticket) -> MutexGuard<'_, Option<String>> {
    ticket.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn reply(client: &Client, message: &Message, bytes: Vec<u8>) {
    if let Some(to) = &message.reply {
        // The leader asks again.
        let _ = client.publish(to.clone(), bytes.into()).await;
        let _ = client.flush().await;
    }
}

/// What the answer to an order is.
async fn obey(
    client: &Client,
    worker: &mut Option<Worker>,
    order: Order,
    ticket: &Ticket,
    agent: &Agent<'_>,
) -> Answer {
    let Some(worker) = worker else { return Answer::Refused("it has no port".to_owned()) };
    if let Order::Meet { ticket: words, .. } = &order {
        *held(ticket) = Some(words.clone());
    }
    match order {
        Order::Prepare(trial) => {
            let Some(ticket) = held(ticket).clone() else {
                return Answer::Refused("it does not know the other port".to_owned());
            };
            let seed = agent.key.secret(&ticket, trial.number);
            worker.prepare(trial, seed)
        }
        Order::Begin(start_ns) => worker.tell(|course| course.begin(start_ns)),
        Order::Expect(frames) => worker.tell(|course| course.expect(frames)),
        Order::Stop => worker.tell(Course::stop),
        Order::Look => worker.look(),
        Order::Compare { with, ticket, times } if worker.trial.is_none() => {
            let key = agent.key.derive("clock", &ticket);
            let stamps = leader::compare(client, &with, &key, times.min(MOST_STAMPS)).await;
            stamps.map_or_else(Answer::Refused, Answer::Stamps)
        }
        order if worker.trial.is_some() => {
            Answer::Refused(format!("a trial is under way, and {} has to wait", name(&order)))
        }
        order => worker.obey(order).await,
    }
}

const fn name(order: &Order) -> &'static str {
    match order {
        Order::Take { .. } => "the port",
        Order::Compare { .. } => "the clock",
        _ => "this order",
    }
}

impl Worker {
    fn new(host: fn() -> Box<dyn Host>) -> Self {
        let (tasks, asked) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut host = host();
            // The leader may be gone.
            for task in asked {
                match task {
                    Task::Obey(order, to) => drop(to.send(host.obey(order))),
                    Task::Run(trial, seed, course, to) => drop(to.send(host.run(&trial, seed, &course))),
                }
            }
        });
        Self { tasks: Some(tasks), thread: Some(thread), trial: None }
    }

    fn give(&self, task: Task) -> Result<(), String> {
        let gone = || "what works at its host is gone".to_owned();
        self.tasks.as_ref().ok_or_else(gone)?.send(task).map_err(|_| gone())
    }

    async fn obey(&self, order: Order) -> Answer {
        let (to, answer) = oneshot::channel();
        match self.give(Task::Obey(order, to)) {
            Ok(()) => match answer.await {
                Ok(answer) => answer.unwrap_or_else(Answer::Refused),
                Err(_) => Answer::Refused("what works at its host has died".to_owned()),
            },
            Err(why) => Answer::Refused(why),
        }
    }

    fn prepare(&mut self, trial: Box<Trial>, seed: u64) -> Answer {
        if self.trial.is_some() {
            return Answer::Refused("a trial is under way already".to_owned());
        }
        let (to, outcome) = oneshot::channel();
        let course = Arc::new(Course::default());
        match self.give(Task::Run(trial, seed, Arc::clone(&course), to)) {
            Ok(()) => {
                self.trial = Some((course, outcome));
                Answer::Done
            }
            Err(why) => Answer::Refused(why),
        }
    }

    fn tell(&self, what: impl FnOnce(&Course)) -> Answer {
        if let Some((course, _)) = &self.trial {
            what(course);
        }
        Answer::Done
    }

    fn look(&mut self) -> Answer {
        let Some((course, outcome)) = &mut self.trial else {
            return Answer::Refused("no trial is under way".to_owned());
        };
        let answer = match outcome.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return Answer::UnderWay(course.progress()),
            Ok(Ok(outcome)) => Answer::Ended(Box::new(outcome)),
            Ok(Err(why)) => Answer::Refused(why),
            Err(oneshot::error::TryRecvError::Closed) => {
                Answer::Refused("what works at its host has died".to_owned())
            }
        };
        self.trial = None;
        answer
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((course, _)) = &self.trial {
            course.stop();
        }
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Says what the clock shows, to agents that have the ticket of the session.
async fn answer_clock(
    client: &Client,
    mut questions: Subscriber,
    (name, own): (&str, &Key),
    ticket: &Ticket,
) {
    while let Some(question) = questions.next().await {
        let heard_ns = Clock::now_ns();
        let key = held(ticket).clone().map(|ticket| own.derive("clock", &ticket));
        let asked = serde_json::from_slice::<Sealed>(&question.payload).ok();
        let asked =
            asked.zip(key).filter(|(asked, key)| asked.agent == name && asked.is_of(key, Way::ToAgent));
        let Some((asked, key)) = asked else { continue };
        let stamps = Stamps { nonce: asked.body, heard_ns, answered_ns: Clock::now_ns() };
        let body = serde_json::to_string(&stamps).unwrap_or_default();
        let answer = Sealed::new(&key, Way::FromAgent, (name, &asked.session, asked.number), body);
        reply(client, &question, answer.bytes()).await;
    }
}
