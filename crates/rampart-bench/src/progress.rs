//! Progress on standard error: on a terminal a line with the estimate so far and the time that is left, in the width that there
//! is; elsewhere one line a point.

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::application::{ApplicationRequest, Arrivals};
use measure::campaign::{Observer, Outcome, Progress};
use measure::connections::{ConnectionRequest, RatePhase};
use measure::held_open::HeldOpen;
use measure::results::Mark;
use measure::trial::{Load, TrialRequest};
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Longest bar.
const BAR: usize = 24;
/// Less than this of a name says nothing.
const SHORTEST_NAME: usize = 7;
/// Share of the planned seconds from which the pace of what is done says how long the rest takes.
const PACE_FROM: f64 = 0.01;

/// Shows how far a run is.
pub(crate) struct Display {
    bar: ProgressBar,
    terminal: bool,
    began: Instant,
    /// Planned seconds of the cells done, of the present one, and of all.
    done_seconds: f64,
    cell_seconds: f64,
    total_seconds: f64,
    cell: String,
    /// Of each firewall in its present round.
    estimates: BTreeMap<String, Estimate>,
}

impl Display {
    pub(crate) fn new(total_seconds: f64) -> Self {
        let kind = std::env::var("TERM").ok();
        let terminal = crate::output::takes_commands(std::io::stderr().is_terminal(), kind.as_deref());
        let target =
            if terminal { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            terminal,
            began: Instant::now(),
            done_seconds: 0.0,
            cell_seconds: 0.0,
            total_seconds,
            cell: String::new(),
            estimates: BTreeMap::new(),
        }
    }

    /// A cell begins.
    pub(crate) fn cell(&mut self, number: usize, cells: usize, name: &str, seconds: f64) {
        self.done_seconds += self.cell_seconds;
        self.cell_seconds = seconds;
        self.estimates.clear();
        self.cell = format!("{number}/{cells} {}", name.trim());
        self.say(&self.cell.clone());
        self.show(0.0, &["building the beds".to_owned()]);
    }

    /// A cell has ended: without a terminal, each point is a line.
    pub(crate) fn points(&self, outcome: &Outcome) {
        for point in outcome.points.iter().filter(|_| !self.terminal) {
            crate::say(&format!("  {}", report::terminal::point(point)));
        }
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: &str) {
        if self.terminal {
            self.bar.suspend(|| crate::say(line));
        } else {
            crate::say(line);
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn show(&self, share_of_cell: f64, what: &[String]) {
        let done = self.done_seconds + share_of_cell * self.cell_seconds;
        let share = (done / self.total_seconds.max(1.0)).clamp(0.0, 1.0);
        let left = left(self.began.elapsed(), share, self.total_seconds);
        let pieces: Vec<&str> = what.iter().map(String::as_str).chain([self.cell.as_str()]).collect();
        // The last column stays free: a terminal would begin a line there.
        let width = usize::from(Term::stderr().size().1).saturating_sub(1);
        self.bar.set_message(line(width, share, &left, &pieces));
    }
}

impl Observer for Display {
    fn trial(&mut self, progress: &Progress<'_>) {
        let estimate = self.estimates.entry(progress.dut.to_owned()).or_default();
        estimate.record(progress.round, progress.request, progress.loss);
        let loss = match progress.loss {
            None => "…".to_owned(),
            Some(0.0) => "no loss".to_owned(),
            Some(loss) => format!("{:.3} % lost", loss * 100.0),
        };
        let what = [
            progress.dut.to_owned(),
            format!("round {}/{}", progress.round + 1, progress.rounds),
            estimate.text(),
            format!("{} {loss}", load(progress.request)),
        ];
        self.show(progress.share_done, &what);
    }

    fn lost(&mut self, dut: &str, why: &Mark) {
        self.say(&format!("  {dut}: no value: {}", why.text));
    }
}

/// What the trials of a round say so far: the highest load without loss, and the lowest with.
#[derive(Debug, Default)]
struct Estimate {
    round: u32,
    passed: Option<f64>,
    lost: Option<f64>,
    unit: &'static str,
}

impl Estimate {
    fn record(&mut self, round: u32, request: &TrialRequest, loss: Option<f64>) {
        if round != self.round {
            *self = Self { round, ..Self::default() };
        }
        let (Some((load, unit)), Some(loss)) = (rate(request), loss) else { return };
        self.unit = unit;
        if loss > 0.0 {
            self.lost = Some(self.lost.map_or(load, |lost| lost.min(load)));
        } else {
            self.passed = Some(self.passed.map_or(load, |passed| passed.max(load)));
        }
    }

    /// Empty while nothing is known; noise may let a load pass above one that lost.
    fn text(&self) -> String {
        let words = |load: f64| rate_text(load, self.unit);
        match (self.passed, self.lost) {
            (Some(passed), Some(lost)) if passed < lost => format!("{} to {}", words(passed), words(lost)),
            (Some(passed), None) => format!("at least {}", words(passed)),
            (None, Some(lost)) => format!("below {}", words(lost)),
            (Some(about), Some(_)) => format!("about {}", words(about)),
            (None, None) => String::new(),
        }
    }
}

/// How long the rest takes if it goes on as it went: planned seconds are stretched by what those that are done really took.
fn left(elapsed: Duration, share: f64, planned: f64) -> String {
    let seconds = match share {
        share if share < PACE_FROM => planned * (1.0 - share),
        share => elapsed.as_secs_f64() * (1.0 - share) / share,
    };
    let whole = seconds.round() as u64;
    match whole {
        0..=59 => format!("{whole} s left"),
        60..=3599 => format!("{} min {:02} s left", whole / 60, whole % 60),
        _ => format!("{} h {:02} min left", whole / 3600, whole % 3600 / 60),
    }
}

/// The line of a terminal: share and time first, then the pieces in their order as far as there is room, and the bar last, at the
/// front.
fn line(width: usize, share: f64, left: &str, pieces: &[&str]) -> String {
    let mut line = middle(&format!("{:>3.0} %  {left}", share * 100.0), width);
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let room = width.saturating_sub(line.chars().count() + 3);
        if room >= piece.chars().count().min(SHORTEST_NAME) {
            line += &format!(" · {}", middle(piece, room));
        }
    }
    let room = width.saturating_sub(line.chars().count() + 1).min(BAR);
    if room < BAR / 2 {
        return line;
    }
    let full = (room as f64 * share) as usize;
    format!("{}{} {line}", "━".repeat(full), "╌".repeat(room - full))
}

/// A text in this many columns: what does not fit is left out in its middle, because names differ at their ends.
fn middle(text: &str, room: usize) -> String {
    let count = text.chars().count();
    if count <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let (front, back) = (kept.div_ceil(2), kept / 2);
    let ends: String = text.chars().skip(count - back).collect();
    let ellipsis = if room == 0 { "" } else { "…" };
    format!("{}{ellipsis}{ends}", text.chars().take(front).collect::<String>())
}

/// The rate that a trial begins with, and what it is counted in.
fn rate(request: &TrialRequest) -> Option<(f64, &'static str)> {
    match request {
        TrialRequest::Frames(frames) => match frames.phases.first().map(|phase| phase.load) {
            Some(Load::PerSecond(rate)) => Some((rate, "pps")),
            _ => None,
        },
        TrialRequest::Connections(ConnectionRequest::Scheduled { phases, .. }) => match phases[..] {
            [RatePhase { from, to, .. }] if from == to => Some((from, "connections/s")),
            _ => None,
        },
        _ => None,
    }
}

fn rate_text(rate: f64, unit: &str) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} M{unit}", rate / 1e6),
        rate if unit == "pps" => format!("{:.1} kpps", rate / 1e3),
        rate => format!("{rate:.0} {unit}"),
    }
}

/// The load that a trial begins with.
fn load(request: &TrialRequest) -> String {
    if let Some((rate, unit)) = rate(request) {
        return rate_text(rate, unit);
    }
    match request {
        TrialRequest::Frames(frames) => match frames.phases.first().map(|phase| phase.load) {
            Some(Load::Burst(frames)) => format!("burst of {frames}"),
            _ => "as fast as possible".to_owned(),
        },
        TrialRequest::Connections(ConnectionRequest::Scheduled { phases, .. }) => match phases[..] {
            [RatePhase { from, to, .. }, ..] => format!("from {from:.0} to {to:.0} connections/s"),
            [] => String::new(),
        },
        TrialRequest::Connections(ConnectionRequest::Held { connections, .. })
        | TrialRequest::Application(ApplicationRequest {
            arrivals: Arrivals::Held(HeldOpen { connections, .. }),
            ..
        }) => format!("{connections} connections open"),
        TrialRequest::Application(ApplicationRequest { arrivals: Arrivals::OpenLoop(open), .. }) => {
            rate_text(open.connection_rate, "connections/s")
        }
        TrialRequest::Connections(ConnectionRequest::Fastest { .. })
        | TrialRequest::Bulk(_)
        | TrialRequest::Application(_) => "as fast as possible".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_every_width_and_says_the_most_important_first() {
        let pieces = [
            "a-firewall-with-a-very-long-name",
            "round 2/3",
            "2.10 Mpps to 2.60 Mpps",
            "4/12 forwarding frame=imix:simple",
        ];
        for width in 0..200 {
            let line = line(width, 0.42, "3 min 05 s left", &pieces);
            assert!(line.chars().count() <= width, "{width}: {line}");
            assert!(width < 23 || line.contains("42 %  3 min 05 s left"), "{width}: {line}");
            assert!(width < 130 || pieces.iter().all(|piece| line.contains(piece)), "{width}: {line}");
        }
        let narrow = line(60, 0.42, "3 min 05 s left", &pieces);
        assert_eq!(narrow, " 42 %  3 min 05 s left · a-firewall-with-a-very-long-name");
        let narrower = line(40, 0.42, "3 min 05 s left", &pieces);
        assert_eq!(narrower, " 42 %  3 min 05 s left · a-firew…ng-name", "cut in the middle");
        assert!(line(160, 0.5, "1 s left", &["wire"]).starts_with("━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌  50 %"));
    }

    #[test]
    fn the_time_that_is_left_is_that_of_trials_done() {
        for (elapsed, share, expected) in [
            (0, 0.0, "2 min 00 s left"),
            (30, 0.5, "30 s left"),
            // Twice as slow as planned: the rest will be so too.
            (120, 0.5, "2 min 00 s left"),
            (3600, 0.25, "3 h 00 min left"),
            (100, 1.0, "0 s left"),
        ] {
            assert_eq!(left(Duration::from_secs(elapsed), share, 120.0), expected);
        }
    }

    #[test]
    fn the_estimate_is_between_what_passed_and_what_lost() {
        let request = |rate: f64| {
            TrialRequest::Connections(ConnectionRequest::Scheduled {
                phases: vec![RatePhase { from: rate, to: rate, seconds: 1.0 }],
                attack: None,
                replace_after_seconds: None,
            })
        };
        let mut estimate = Estimate::default();
        assert_eq!(estimate.text(), "");
        for (round, rate, loss, expected) in [
            (0, 8000.0, Some(0.5), "below 8000 connections/s"),
            (0, 2000.0, None, "below 8000 connections/s"),
            (0, 2000.0, Some(0.0), "2000 connections/s to 8000 connections/s"),
            (0, 4000.0, Some(0.1), "2000 connections/s to 4000 connections/s"),
            (0, 5000.0, Some(0.0), "about 5000 connections/s"),
            (1, 3000.0, Some(0.0), "at least 3000 connections/s"),
        ] {
            estimate.record(round, &request(rate), loss);
            assert_eq!(estimate.text(), expected);
        }
    }
}
