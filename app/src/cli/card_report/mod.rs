//! `plimsoll card-report`: the real properties of a card, measured in ten minutes by one command, as a file to be sent in.
//!
//! Owns the parts, their shares of the time, and the file. Each part is a process of its own, so that one that crashes,
//! hangs or loses the card costs itself alone. Always holds: the file is whole after every part, and says of each how it
//! ended. Refuses a device that is not a GPU of this machine.

mod child;
mod lines;
mod page;
mod part;
mod report;
mod summary;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use plimsoll_engine::{device::target::cuda_index, hardware::Machine, whole_file};

use crate::{
    cli::{Misuse, interrupt::Interrupt, out, provenance::Provenance},
    files,
};
pub(super) use child::end_with_report;
use child::{Child, Next};
use part::{Part, Task};
use report::{Ended, PartReport, Report};

/// Ask a card everything that is only assumed of it, and write it to a file to be sent in
#[derive(Debug, Args)]
#[command(after_help = "\
In at most ten minutes it asks what the driver's memory pools and its management library really do, runs the quick selftest,
verifies every preset that fits and 20 experiments drawn at random, holds runs to the tightest budgets, times a kernel of
each family against the card's peak, and times the workloads that PyTorch is timed on as well. It writes one JSON file and,
next to it, a page for people (the same name with .md). Neither holds a name of a user, a path or the card's own number.
A part that fails, hangs or takes the driver down is reported as such, and the others go on.

Examples:
  plimsoll card-report --device cuda:0 -o my-card.json
  plimsoll card-report --device cuda:1 --minutes 20 -o second.json

Exit status 1 when a part found something wrong; the file is written anyway.")]
pub(super) struct CardReport {
    /// The card, by its number
    #[arg(long, value_name = "D", default_value = "cuda:0")]
    device: String,
    /// The file to write, such as my-card.json
    #[arg(short, long, value_name = "FILE", default_value = "card-report.json")]
    output: PathBuf,
    /// The most time that it may take
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    minutes: u64,
    /// Less of everything, at small sizes: for a card that is simulated
    #[arg(long)]
    quick: bool,
    /// Run one part in this process, and write its rows
    #[arg(long, value_name = "PART", hide = true)]
    part: Option<Task>,
    /// Write the JSON file's contents to standard output as well
    #[arg(long)]
    json: bool,
}

impl CardReport {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(task) = self.part {
            return task.run(&self.device, self.quick);
        }
        files::is_outside_stores(&self.output)?;
        files::is_outside_stores(&self.page())?;
        self.has_card()?;
        let mut report = Report::new(Provenance::now(&self.device), self.minutes, self.quick);
        self.write(&report)?;
        let (start, interrupt) = (Instant::now(), Interrupt::listen()?);
        let parts = Part::all();
        for (i, part) in parts.iter().enumerate() {
            let deadline = start + self.share(parts.iter().take(i + 1));
            let progress = Progress::new(i, &parts, start + self.share(parts.iter()));
            report.add(self.ask(part, deadline, progress, &interrupt));
            self.write(&report)?;
            if interrupt.has_come() {
                eprintln!("stopped; the answers so far are in {}", self.output.display());
                return Ok(interrupt.exit_code());
            }
        }
        eprintln!("written: {} and {}", self.output.display(), self.page().display());
        if self.json {
            out::json(&report)?;
        }
        let wrong = report.wrong();
        if wrong.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("something is wrong in: {}; the page says what", wrong.join(", "));
        Ok(ExitCode::FAILURE)
    }

    /// Refuses a device that is not a card of this machine, in words.
    fn has_card(&self) -> anyhow::Result<()> {
        if cuda_index(&self.device).is_none() {
            let message = format!("--device {}: this asks an NVIDIA GPU of this machine, such as cuda:0", self.device);
            return Err(Misuse(message).into());
        }
        Machine::detect().target(&self.device).map(drop).context("there is no card to report on")
    }

    /// The time until these parts have to be done.
    fn share<'a>(&self, parts: impl Iterator<Item = &'a Part>) -> Duration {
        let whole: u32 = Part::all().iter().map(|part| part.share).sum();
        let share: u32 = parts.map(|part| part.share).sum();
        Duration::from_secs(self.minutes * 60) * share / whole
    }

    fn page(&self) -> PathBuf {
        self.output.with_extension("md")
    }

    fn write(&self, report: &Report) -> anyhow::Result<()> {
        let json = serde_json::to_vec_pretty(report)?;
        let place = |path: &PathBuf| format!("{} cannot be written; choose another place with -o", path.display());
        whole_file::write_where_led(&self.output, &json).with_context(|| place(&self.output))?;
        let page = page::page(&serde_json::from_slice(&json)?);
        whole_file::write_where_led(&self.page(), page.as_bytes()).with_context(|| place(&self.page()))
    }

    /// Runs a part until `deadline`.
    fn ask(&self, part: &Part, deadline: Instant, mut progress: Progress, interrupt: &Interrupt) -> PartReport {
        let start = Instant::now();
        let arguments = part.arguments(&self.device, self.quick);
        let report = |ended, rows, said| PartReport::new(part, &arguments, start.elapsed(), ended, rows, said);
        progress.show("");
        let mut child = match Child::start(&arguments) {
            Ok(child) => child,
            Err(error) => return report(Ended::NotStarted(error.to_string()), Vec::new(), String::new()),
        };
        let mut rows = Vec::new();
        let ended = loop {
            match child.next() {
                Next::Row(row) => {
                    progress.show(row["name"].as_str().unwrap_or_default());
                    rows.push(row);
                }
                Next::Nothing if interrupt.has_come() => break child.stop(Ended::Stopped),
                Next::Nothing if Instant::now() >= deadline => break child.stop(Ended::OutOfTime),
                Next::Nothing => progress.show_again(),
                Next::End(ended) => break ended,
            }
        };
        let report = report(ended, rows, child.said());
        progress.done(&report);
        report
    }
}

/// The shown state of a report that is being made.
struct Progress {
    part: String,
    done: String,
    /// When all of it has to be done.
    end: Instant,
    what: String,
}

impl Progress {
    fn new(i: usize, parts: &[Part], end: Instant) -> Self {
        let name = parts[i].name;
        let progress = Self {
            part: format!("part {} of {}: {name}", i + 1, parts.len()),
            done: name.to_owned(),
            end,
            what: String::new(),
        };
        if !io::stderr().is_terminal() {
            eprintln!("{}, {}", progress.part, progress.left());
        }
        progress
    }

    fn left(&self) -> String {
        let secs = self.end.saturating_duration_since(Instant::now()).as_secs();
        if secs < 60 { format!("at most {secs} s left") } else { format!("at most {} min left", secs.div_ceil(60)) }
    }

    fn show(&mut self, what: &str) {
        what.clone_into(&mut self.what);
        self.show_again();
    }

    /// Shows progress on a line that the next one replaces; on a terminal only.
    fn show_again(&self) {
        let mut stderr = io::stderr();
        if stderr.is_terminal() {
            // A closed stderr takes no progress.
            let _ = write!(stderr, "\r\x1b[K{}, {}  {}", self.part, self.left(), self.what);
            let _ = stderr.flush();
        }
    }

    fn done(&self, report: &PartReport) {
        let mut stderr = io::stderr();
        let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
        let _ = writeln!(stderr, "{clear}{}: {}, {:.0} s", self.done, report.in_short(), report.secs);
    }
}
