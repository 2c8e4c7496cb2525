//! Progress on standard error: a bar with the present trial on a terminal, one line a cell elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::campaign::{Observer, Progress};
use measure::connections::{ConnectionRequest, RatePhase};
use measure::results::Mark;
use measure::trial::{Load, TrialRequest};
use std::io::IsTerminal as _;
use std::time::Duration;

/// Steps of the bar; the eye sees no more.
const STEPS: u64 = 1_000;

/// Shows how far a run is.
pub(crate) struct Display {
    bar: ProgressBar,
    terminal: bool,
    /// Estimated seconds of the cells done, of the present one, and of all.
    done_seconds: f64,
    cell_seconds: f64,
    total_seconds: f64,
    cell: String,
}

impl Display {
    pub(crate) fn new(total_seconds: f64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:28} {percent:>3} %  {elapsed} of about {wide_msg}")
        {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, terminal, done_seconds: 0.0, cell_seconds: 0.0, total_seconds, cell: String::new() }
    }

    /// A cell begins.
    pub(crate) fn cell(&mut self, number: usize, cells: usize, name: &str, seconds: f64) {
        self.done_seconds += self.cell_seconds;
        self.cell_seconds = seconds;
        self.cell = format!("{number}/{cells} {name}");
        self.say(&self.cell.clone());
        self.show(0.0, "building the beds");
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

    fn show(&self, share_of_cell: f64, what: &str) {
        let share = (self.done_seconds + share_of_cell * self.cell_seconds) / self.total_seconds.max(1.0);
        self.bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        let total = indicatif::HumanDuration(Duration::from_secs_f64(self.total_seconds.max(1.0)));
        self.bar.set_message(format!("{total} · {} · {what}", self.cell));
    }
}

impl Observer for Display {
    fn trial(&mut self, progress: &Progress<'_>) {
        let loss = match progress.loss {
            None => "…".to_owned(),
            Some(0.0) => "no loss".to_owned(),
            Some(loss) => format!("{:.3} % lost", loss * 100.0),
        };
        let what = format!(
            "{} · round {}/{} · {} · {loss}",
            progress.dut,
            progress.round + 1,
            progress.rounds,
            load(progress.request)
        );
        self.show(progress.share_done, &what);
    }

    fn lost(&mut self, dut: &str, why: &Mark) {
        self.say(&format!("  {dut}: no value: {}", why.text));
    }
}

/// The load that a trial begins with.
fn load(request: &TrialRequest) -> String {
    match request {
        TrialRequest::Frames(frames) => match frames.phases.first().map(|phase| phase.load) {
            Some(Load::PerSecond(rate)) if rate >= 1e6 => format!("{:.3} Mpps", rate / 1e6),
            Some(Load::PerSecond(rate)) => format!("{:.1} kpps", rate / 1e3),
            Some(Load::Burst(frames)) => format!("burst of {frames}"),
            Some(Load::Maximum) | None => "as fast as possible".to_owned(),
        },
        TrialRequest::Connections(ConnectionRequest::Scheduled { phases, .. }) => match phases[..] {
            [RatePhase { from, to, .. }, ..] if from != to => {
                format!("from {from:.0} to {to:.0} connections/s")
            }
            [RatePhase { from, .. }, ..] => format!("{from:.0} connections/s"),
            [] => String::new(),
        },
        TrialRequest::Connections(ConnectionRequest::Held { connections, .. }) => {
            format!("{connections} connections open")
        }
        TrialRequest::Connections(ConnectionRequest::Fastest { .. }) | TrialRequest::Bulk(_) => {
            "as fast as possible".to_owned()
        }
    }
}
