//! Which name servers are asked for a client, and how long they may take.

use super::super::{Shared, name_server};
use crate::config::Gateway;
use crate::dns::answer::Answer;
use crate::dns::cache::Key;
use crate::reach;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// How often each server is asked.
const ROUNDS: usize = 2;
/// The least that a server has to answer.
const LEAST_PATIENCE: Duration = Duration::from_millis(300);

/// What the first server says that can answer; `None` if none can in time.
pub(super) async fn ask(shared: &Shared, gateway: &Gateway, asked: &Key) -> Option<Answer> {
    let all = if gateway.resolvers.is_empty() { &shared.resolvers } else { &gateway.resolvers };
    // Asking itself, it would ask for ever.
    let servers: Vec<SocketAddr> = all.iter().copied().filter(|it| *it != gateway.listen).collect();
    let tries = servers.len() * ROUNDS;
    let patience = (gateway.limits.answer_time / u32::try_from(tries).ok()?.max(1)).max(LEAST_PATIENCE);
    let all_tries = async {
        let first = shared.dns.preferred.load(Ordering::Relaxed);
        for place in (first..first + tries).map(|place| place % servers.len()) {
            Shared::count(&shared.counted.to_servers);
            if let Ok(Ok(Some(answer))) =
                timeout(patience, name_server::ask(servers[place], asked, reach::is_own)).await
            {
                shared.dns.preferred.store(place, Ordering::Relaxed);
                return Some(answer);
            }
        }
        None
    };
    timeout(gateway.limits.answer_time, all_tries).await.ok().flatten()
}
