//! The server that carries everything: what stands for groups, what agents say, metrics, and events.

use crate::FleetError;
use crate::config::Address;
use crate::report::Report;
use crate::statement::Post;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::kv::{Config as Bucket, Entry, Operation, Store};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config as StreamConfig, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rampart_client::api::Event;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs::read_to_string;
use std::io;
use std::time::Duration;

const ORDERS: &str = "rampart-orders";
const AGENTS: &str = "rampart-agents";
const METRICS: &str = "rampart-metrics";
const EVENTS: &str = "rampart-events";
/// Before the name of the agent.
const EVENTS_OF: &str = "rampart.events.";
/// Events that the server keeps, in bytes and in time; the oldest go first.
const KEPT_BYTES: i64 = 256 << 20;
const KEPT_TIME: Duration = Duration::from_secs(30 * 86_400);
/// In which the server knows an event that is sent again.
const KNOWN_AGAIN: Duration = Duration::from_secs(600);
/// How long an answer of the server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, with what is kept on the server.
#[derive(Debug)]
pub struct Server {
    client: Client,
    context: Context,
    orders: Store,
    agents: Store,
    metrics: Store,
    events: Stream,
}

/// What stands for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// What it is.
    pub post: Post,
    /// The server's number of it, by which nobody replaces what he has not seen.
    pub(crate) revision: u64,
}

/// An agent as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// What it said last.
    pub report: Report,
    /// When, by the server's clock.
    pub at: Timestamp,
}

/// An event of a firewall of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetEvent {
    /// The agent's name.
    pub firewall: String,
    /// What happened there.
    #[serde(flatten)]
    pub event: Event,
}

/// Connects to a server of NATS, for whatever it is to carry. `name` is who this is in what the server logs.
///
/// # Errors
/// A file cannot be read, or the server does not answer, does not prove who it is, or does not let this user in.
pub async fn connect(address: &Address, name: &str) -> Result<Client, FleetError> {
    let client = options(address, name)?.connect(&address.url).await;
    client.map_err(|error| {
        let why = unproved(&error).unwrap_or_else(|| error.to_string());
        FleetError::Server(format!("cannot use {}: {why}", address.url))
    })
}

impl Server {
    /// Connects, and makes on the server what is not there. `name` is who this is in what the server logs.
    ///
    /// # Errors
    /// A file cannot be read, or the server does not answer or let this user in.
    pub async fn connect(address: &Address, name: &str) -> Result<Self, FleetError> {
        let refused =
            |why: &dyn std::fmt::Display| FleetError::Server(format!("cannot use {}: {why}", address.url));
        let client = connect(address, name).await?;
        let context = jetstream::new(client.clone());
        let bucket = |name: &str| {
            let bucket = Bucket { bucket: name.to_owned(), history: 1, ..Bucket::default() };
            context.create_key_value(bucket)
        };
        let made = async {
            let (orders, agents) = (bucket(ORDERS).await?, bucket(AGENTS).await?);
            Ok::<_, async_nats::Error>((
                orders,
                agents,
                bucket(METRICS).await?,
                context.get_or_create_stream(events()).await?,
            ))
        };
        let (orders, agents, metrics, events) = made.await.map_err(|error| {
            refused(&format!("it keeps nothing for the fleet ({error}): does it run with JetStream (`nats-server -js`), and may this user make buckets?"))
        })?;
        Ok(Self { client, context, orders, agents, metrics, events })
    }

    /// What stands for a group.
    pub(crate) async fn post(&self, group: &str) -> Result<Option<Posted>, FleetError> {
        let entry = self.orders.entry(group).await;
        let entry = entry.map_err(|error| FleetError::of_server("say what stands for the group", &error))?;
        entry.filter(is_there).map(|entry| posted(&entry)).transpose()
    }

    /// What stands for a group, now and whenever it changes.
    pub(crate) async fn posts(
        &self,
        group: &str,
    ) -> Result<impl futures_util::Stream<Item = Result<Posted, FleetError>> + use<>, FleetError> {
        let watch = self.orders.watch_with_history(group).await;
        let watch = watch.map_err(|error| FleetError::of_server("tell what stands for the group", &error))?;
        Ok(watch.filter_map(async |entry| match entry {
            Ok(entry) => is_there(&entry).then(|| posted(&entry)),
            Err(error) => Some(Err(FleetError::of_server("tell what stands for the group", &error))),
        }))
    }

    /// Puts something in the place of what stood for a group when it was looked at.
    pub(crate) async fn put_post(
        &self,
        group: &str,
        post: &Post,
        before: Option<u64>,
    ) -> Result<u64, FleetError> {
        let bytes = self.bytes(post)?;
        match before {
            None => self.orders.create(group, bytes).await.map_err(|error| not_put(group, &error)),
            Some(revision) => {
                self.orders.update(group, bytes, revision).await.map_err(|error| not_put(group, &error))
            }
        }
    }

    /// What each agent said last, by name.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn heard(&self) -> Result<Vec<Heard>, FleetError> {
        let failed = |error: &dyn std::fmt::Display| FleetError::of_server("list its agents", error);
        let mut keys = self.agents.keys().await.map_err(|error| failed(&error))?;
        let mut heard = Vec::new();
        while let Some(key) = keys.next().await {
            let entry = self.agents.entry(key.map_err(|error| failed(&error))?).await;
            let Some(entry) = entry.map_err(|error| failed(&error))? else { continue };
            // Who writes something else there is no agent of this version.
            if let Ok(report) = serde_json::from_slice::<Report>(&entry.value)
                && report.name == entry.key
            {
                heard.push(Heard { report, at: moment(&entry) });
            }
        }
        heard.sort_by(|a, b| a.report.name.cmp(&b.report.name));
        Ok(heard)
    }

    pub(crate) async fn put_report(&self, report: &Report) -> Result<(), FleetError> {
        let put = self.agents.put(&report.name, self.bytes(report)?).await;
        put.map(drop).map_err(|error| FleetError::of_server("take what the agent says", &error))
    }

    pub(crate) async fn put_metrics(&self, name: &str, text: Vec<u8>) -> Result<(), FleetError> {
        let put = self.metrics.put(name, text.into()).await;
        put.map(drop).map_err(|error| FleetError::of_server("take metrics", &error))
    }

    /// The metrics that an agent sent last, in Prometheus' text format.
    ///
    /// # Errors
    /// The server does not answer, or knows none.
    pub async fn metrics(&self, name: &str) -> Result<Vec<u8>, FleetError> {
        let got = self.metrics.get(name).await;
        let text = got.map_err(|error| FleetError::of_server("say metrics", &error))?;
        text.map(Into::into).ok_or_else(|| FleetError::Wrong(format!("no agent {name} has sent metrics")))
    }

    /// Sends events, and waits until the server has them. Those that it has already it leaves out.
    pub(crate) async fn put_events(&self, events: &[FleetEvent]) -> Result<(), FleetError> {
        let failed = |error: &dyn std::fmt::Display| FleetError::of_server("take events", error);
        let mut taken = Vec::with_capacity(events.len());
        for event in events {
            let FleetEvent { firewall, event: Event { number, at, .. } } = event;
            let message = PublishMessage::build()
                .payload(self.bytes(event)?)
                .message_id(format!("{firewall} {at} {number}"));
            let sent = self.context.send_publish(format!("{EVENTS_OF}{firewall}"), message).await;
            taken.push(sent.map_err(|error| failed(&error))?);
        }
        for it in taken {
            it.await.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// The newest events, of all agents or of one, the oldest of them first.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn events(&self, of: Option<&str>, most: usize) -> Result<Vec<FleetEvent>, FleetError> {
        let failed = |error: &dyn std::fmt::Display| FleetError::of_server("say events", error);
        let subject = format!("{EVENTS_OF}{}", of.unwrap_or("*"));
        let info = self.events.get_info().await.map_err(|error| failed(&error))?;
        // Those of one agent stand among those of others.
        let from = info.state.last_sequence.saturating_sub(most as u64) + 1;
        let deliver_policy = match of {
            None if info.state.messages > 0 => DeliverPolicy::ByStartSequence { start_sequence: from.max(1) },
            _ => DeliverPolicy::All,
        };
        let config = pull::Config {
            filter_subject: subject,
            deliver_policy,
            ack_policy: AckPolicy::None,
            ..pull::Config::default()
        };
        let consumer = self.events.create_consumer(config).await.map_err(|error| failed(&error))?;
        let mut events = std::collections::VecDeque::new();
        loop {
            let batch = consumer.fetch().max_messages(1_000).messages().await;
            let mut batch = batch.map_err(|error| failed(&error))?;
            let mut got = 0;
            while let Some(message) = batch.next().await {
                let message = message.map_err(|error| failed(&error))?;
                got += 1;
                if let Ok(event) = serde_json::from_slice(&message.payload) {
                    events.push_back(event);
                }
                if events.len() > most {
                    events.pop_front();
                }
            }
            if got == 0 {
                return Ok(events.into());
            }
        }
    }

    /// Whether the server still answers.
    pub(crate) async fn answers(&self) -> bool {
        // A policy may cut a connection that is still open: only an answer tells.
        self.orders.status().await.is_ok()
    }

    fn bytes(&self, value: &impl Serialize) -> Result<bytes::Bytes, FleetError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| FleetError::Wrong(format!("cannot write JSON: {error}")))?;
        // With room for the headers.
        let most = self.client.server_info().max_payload.saturating_sub(4_096);
        if bytes.len() > most {
            let bytes = bytes.len();
            return Err(FleetError::Wrong(format!(
                "this takes {bytes} bytes, and the server carries {most}: give it a larger `max_payload`"
            )));
        }
        Ok(bytes.into())
    }
}

fn options(address: &Address, name: &str) -> Result<ConnectOptions, FleetError> {
    let mut options =
        ConnectOptions::new().name(name).connection_timeout(PATIENCE).request_timeout(Some(PATIENCE));
    if let Some(ca_file) = &address.ca_file {
        options = options.add_root_certificates(ca_file.clone());
    }
    options = options.require_tls(address.url.starts_with("tls://"));
    let Some((user, file)) = &address.user else { return Ok(options) };
    let password = read_to_string(file).map_err(|error| {
        FleetError::Wrong(format!("cannot read the password in {}: {error}", file.display()))
    })?;
    Ok(options.user_and_password(user.clone(), password.trim_end_matches(['\n', '\r']).to_owned()))
}

/// What is to be done if a server has not proved who it is.
fn unproved(error: &(dyn Error + 'static)) -> Option<String> {
    use rustls::{CertificateError, Error as Tls};
    let error = tls_error(error)?;
    let what = match error {
        Tls::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "none of the authorities in `ca_file`, or without it of those of the machine, has signed its certificate"
        }
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name: write under `server` one that is in it",
        Tls::InvalidMessage(_) => {
            "it does not speak TLS: give it a certificate (`tls` in nats-server's configuration)"
        }
        _ => return Some(format!("by TLS: {error}")),
    };
    Some(format!("{what} ({error})"))
}

/// What TLS says, wherever in an error it is.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The source of an error of IO is not the error that it is made of.
    let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inside.map(|it| it as &(dyn Error + 'static)).or_else(|| error.source()).and_then(tls_error)
}

fn events() -> StreamConfig {
    StreamConfig {
        name: EVENTS.to_owned(),
        subjects: vec![format!("{EVENTS_OF}*")],
        max_bytes: KEPT_BYTES,
        max_age: KEPT_TIME,
        duplicate_window: KNOWN_AGAIN,
        ..StreamConfig::default()
    }
}

fn is_there(entry: &Entry) -> bool {
    entry.operation == Operation::Put
}

fn posted(entry: &Entry) -> Result<Posted, FleetError> {
    let post = serde_json::from_slice(&entry.value)
        .map_err(|error| FleetError::Server(format!("what stands for the group cannot be read: {error}")))?;
    Ok(Posted { post, revision: entry.revision })
}

fn moment(entry: &Entry) -> Timestamp {
    Timestamp::from_nanosecond(entry.created.unix_timestamp_nanos()).unwrap_or_default()
}

fn not_put(group: &str, why: &dyn std::fmt::Display) -> FleetError {
    FleetError::of_server(
        &format!("take the order (somebody else may have sent one to {group} at the same time: try again)"),
        why,
    )
}
