//! Refuses plans that cannot be carried out, with the arithmetic.

use super::control::last_segment_at;
use super::plan::{Answer, Close, Opening, Side, TcpPlan};
use super::skeleton::MAX_CORES;
use super::{attack, illegal};
use crate::TrafficError;

const MAX_HOSTS: u32 = 65_536;
/// RFC 9293 section 3.7.1.
const SMALLEST_MSS: usize = 536;

fn refuse<T>(why: String) -> Result<T, TrafficError> {
    Err(TrafficError::Impossible(why))
}

/// Checks all of `plan` but its phases, for an engine with room for `capacity` connections.
///
/// # Errors
/// What does not fit together, and what would.
pub(crate) fn check(plan: &TcpPlan, capacity: u32) -> Result<(), TrafficError> {
    check_cores(plan)?;
    check_side("client", &plan.clients)?;
    check_side("server", &plan.servers)?;
    check_side("listening", plan.listens.as_ref().unwrap_or(&plan.servers))?;
    check_tuples(plan, capacity)?;
    check_talk(plan)?;
    attack::check(plan)?;
    illegal::check(plan)
}

fn check_cores(plan: &TcpPlan) -> Result<(), TrafficError> {
    let twice = plan.cores.iter().enumerate().any(|(i, core)| plan.cores[..i].contains(core));
    if plan.cores.is_empty() || twice || plan.cores.iter().any(|&core| core >= MAX_CORES) {
        return refuse(format!("cores {:?}: the bench uses each of 0 to {} once", plan.cores, MAX_CORES - 1));
    }
    Ok(())
}

fn check_side(name: &str, side: &Side) -> Result<(), TrafficError> {
    if side.hosts == 0 || side.hosts > MAX_HOSTS {
        return refuse(format!("{} {name} addresses: a side has 1 to {MAX_HOSTS}", side.hosts));
    }
    if side.ports == 0 || u32::from(side.first_port) + side.ports > 65_536 {
        return refuse(format!("{} {name} ports from {}: ports end at 65535", side.ports, side.first_port));
    }
    Ok(())
}

fn check_tuples(plan: &TcpPlan, capacity: u32) -> Result<(), TrafficError> {
    let there_are = u64::from(plan.clients.hosts) * u64::from(plan.clients.ports);
    if plan.tuples == 0 || (plan.tuples as usize) < plan.cores.len() || u64::from(plan.tuples) > there_are {
        return refuse(format!(
            "{} tuples: {} client addresses with {} ports each make {there_are}, and each core needs one",
            plan.tuples, plan.clients.hosts, plan.clients.ports
        ));
    }
    if plan.tuples > capacity {
        return refuse(format!(
            "{} tuples: the engine was loaded with room for {capacity} connections",
            plan.tuples
        ));
    }
    if let Opening::KeepOpen(open, _) = plan.opening
        && (open == 0 || open > plan.tuples || (open as usize) < plan.cores.len())
    {
        return refuse(format!(
            "{open} connections kept open: there are {} tuples, and each core keeps at least one open",
            plan.tuples
        ));
    }
    check_rest(plan)
}

/// A tuple is taken while its connection is held and while it rests afterwards.
fn check_rest(plan: &TcpPlan) -> Result<(), TrafficError> {
    let fastest = plan.phases().iter().map(|p| p.from.max(p.to)).fold(0.0, f64::max);
    let taken = plan.hold.as_secs_f64() + plan.reuse.as_secs_f64();
    let legal = 1.0 - plan.illegal.as_ref().map_or(0.0, |illegal| illegal.share);
    let fastest = fastest * legal;
    let total: f64 = plan.phases().iter().map(|p| (p.from + p.to) / 2.0 * p.seconds * legal).sum();
    let needed = if plan.close == Close::Never { total } else { (fastest * taken).min(total) };
    if matches!(plan.opening, Opening::Scheduled(_)) && needed.floor() > f64::from(plan.tuples) {
        let why = if plan.close == Close::Never {
            "all held to the end".to_owned()
        } else {
            format!("at {fastest} a second, each taken for {taken} s,")
        };
        return refuse(format!(
            "{needed:.0} tuples are needed for {total:.0} connections, {why} and the plan has {}: more addresses or ports, \
             a lower rate, or a shorter rest",
            plan.tuples
        ));
    }
    Ok(())
}

fn check_talk(plan: &TcpPlan) -> Result<(), TrafficError> {
    check_waits(plan)?;
    check_sizes(plan)?;
    if plan.answer == Answer::UntilFin && (plan.transactions != 1 || plan.close != Close::ServerFin) {
        return refuse(
            "an answer that ends with the server's FIN: that is one request, closed by the server".to_owned(),
        );
    }
    if plan.close == Close::ServerFin && (plan.transactions == 0 || !plan.hold.is_zero()) {
        return refuse(
            "the server closes behind its last answer: that needs a request, and leaves nothing to hold"
                .to_owned(),
        );
    }
    Ok(())
}

fn check_waits(plan: &TcpPlan) -> Result<(), TrafficError> {
    if plan.retries > 15 || plan.retry.as_millis() < 10 || plan.retry.as_secs() > 60 {
        return refuse(format!(
            "{} retransmissions, the first after {} ms: up to 15, after 10 ms to 60 s",
            plan.retries,
            plan.retry.as_millis()
        ));
    }
    Ok(())
}

fn check_sizes(plan: &TcpPlan) -> Result<(), TrafficError> {
    let answer_bytes = match &plan.answer {
        Answer::Exactly(answer) => answer.bytes().len(),
        Answer::UntilFin => 0,
    };
    let largest = plan.request.bytes().len().max(answer_bytes);
    let (request, segment) = (plan.request.bytes().len(), plan.segment_bytes());
    let last = last_segment_at(request as u32, segment) as usize;
    let answer_proves = match &plan.answer {
        Answer::Exactly(answer) => answer.proves_within(0, segment as usize),
        Answer::UntilFin => true,
    };
    if !(plan.request.proves_within(last, request) && answer_proves) {
        return refuse(
            "a proof outside the last segment of a request or the first of an answer: nobody could check it"
                .to_owned(),
        );
    }
    if !plan.options.mss && largest > SMALLEST_MSS {
        return refuse(format!(
            "a message of {largest} bytes without the MSS option: who offers none takes segments of {SMALLEST_MSS} bytes"
        ));
    }
    let all = (u64::from(plan.transactions) + 255) * largest as u64;
    if all >= 1 << 31 {
        return refuse(format!(
            "{} requests a connection, 255 rounds of verification and messages of up to {largest} bytes make {all} \
             bytes: sequence numbers tell 2^31 apart",
            plan.transactions
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::super::plan::TcpPhase;
    use super::*;
    use std::time::Duration;

    fn refused(change: impl FnOnce(&mut TcpPlan)) -> String {
        let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(1000.0, 100.0)]));
        check(&plan, 100_000).unwrap();
        change(&mut plan);
        check(&plan, 100_000).unwrap_err().to_string()
    }

    #[test]
    fn plans_that_cannot_be_carried_out_are_refused_with_the_arithmetic() {
        type Row = (&'static str, fn(&mut TcpPlan));
        let rows: [Row; 14] = [
            ("cores [0, 0]: the bench uses each of 0 to 63 once", |p| p.cores = vec![0, 0]),
            ("0 client addresses: a side has 1 to 65536", |p| p.clients.hosts = 0),
            ("70000 server addresses: a side has 1 to 65536", |p| p.servers.hosts = 70_000),
            ("64512 client ports from 1025: ports end at 65535", |p| p.clients.first_port = 1025),
            (
                "64513 tuples: 1 client addresses with 64512 ports each make 64512, and each core needs one",
                |p| p.tuples = 64_513,
            ),
            ("100001 tuples: the engine was loaded with room for 100000 connections", |p| {
                p.clients.hosts = 2;
                p.tuples = 100_001;
            }),
            (
                "90000 tuples are needed for 100000 connections, at 1000 a second, each taken for 90 s, and the plan \
                 has 64512: more addresses or ports, a lower rate, or a shorter rest",
                |p| {
                    p.hold = Duration::from_secs(30);
                    p.reuse = Duration::from_secs(60);
                },
            ),
            (
                "100000 tuples are needed for 100000 connections, all held to the end and the plan has 64512: more \
                 addresses or ports, a lower rate, or a shorter rest",
                |p| p.close = Close::Never,
            ),
            ("an answer that ends with the server's FIN: that is one request, closed by the server", |p| {
                p.answer = Answer::UntilFin;
            }),
            (
                "the server closes behind its last answer: that needs a request, and leaves nothing to hold",
                |p| {
                    p.close = Close::ServerFin;
                    p.transactions = 0;
                },
            ),
            ("16 retransmissions, the first after 1000 ms: up to 15, after 10 ms to 60 s", |p| {
                p.retries = 16
            }),
            (
                "a message of 538 bytes without the MSS option: who offers none takes segments of 536 bytes",
                |p| {
                    p.options.mss = false;
                    p.answer = Answer::Exactly(Message::http_answer(473));
                },
            ),
            (
                "65535 requests a connection, 255 rounds of verification and messages of up to 60067 bytes make \
                 3951807930 bytes: sequence numbers tell 2^31 apart",
                |p| {
                    p.transactions = 65_535;
                    p.answer = Answer::Exactly(Message::http_answer(60_000));
                },
            ),
            ("10 connections kept open: there are 5 tuples, and each core keeps at least one open", |p| {
                p.tuples = 5;
                p.opening = Opening::KeepOpen(10, vec![TcpPhase::constant(1.0, 1.0)]);
            }),
        ];
        for (said, change) in rows {
            assert_eq!(refused(change), said);
        }
    }
}
