//! A simulated card that is told when to fail, and a trainer on it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nvml_wrapper::Nvml;
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{preset, shipped},
    train::{Command, Event, Outcome, Start, Summary, Trainer},
};
use plimsoll_tests::{heard_on_simulated_gpu, share_rates};

/// No run here takes as long, unless it waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the program keeps between runs.
pub(crate) const CACHE: &str = "XDG_CACHE_HOME";
const OTHERS: &str = "PLIMSOLL_SIM_OTHERS_FILE";
const FAULT: &str = "PLIMSOLL_SIM_FAULT_FILE";
const DEAF: &str = "PLIMSOLL_SIM_DEAF_FILE";

/// A shipped experiment on the first card, with changes.
pub(crate) fn experiment(name: &str, changes: &[&str]) -> Experiment {
    let mut experiment = shipped::find(name).expect("a shipped preset").unwrap_or_else(|error| panic!("{error}"));
    for change in [&["device=cuda:0", "budget=1 GiB", "run.steps=4"], changes].concat() {
        preset::set(&mut experiment, change).unwrap_or_else(|error| panic!("{error}"));
    }
    experiment
}

/// Runs `body` on a card of `settings` that holds nothing yet. To be called first and alone in a test of that name.
pub(crate) fn on_card(name: &str, settings: &[(&str, &str)], body: impl FnOnce(&Card)) {
    heard_on_card(name, settings, body);
}

/// [`on_card`], and what the card and the body wrote to the standard error; `None` in their process.
pub(crate) fn heard_on_card(name: &str, settings: &[(&str, &str)], body: impl FnOnce(&Card)) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    share_rates(&folder.path().join("cache"));
    let place = |name: &str| folder.path().join(name).display().to_string();
    let own = [(CACHE, place("cache")), (OTHERS, place("others")), (FAULT, place("fault")), (DEAF, place("deaf"))];
    let own = own.iter().map(|(name, value)| (*name, value.as_str()));
    let settings: Vec<_> = own.chain(settings.iter().copied()).collect();
    heard_on_simulated_gpu(name, &settings, || body(&Card { trainer: Trainer::new(|| {}) }))
}

/// The card, and a trainer that has not seen it yet.
pub(crate) struct Card {
    pub(crate) trainer: Trainer,
}

/// What became of a run.
pub(crate) struct Run {
    pub(crate) losses: Vec<f64>,
    pub(crate) outcome: Outcome,
    pub(crate) summary: Summary,
}

impl Run {
    /// The words it ended with; it left nothing behind.
    pub(crate) fn words(&self) -> String {
        assert_eq!(self.summary.left_over, Bytes(0));
        match &self.outcome {
            Outcome::Failed(error) => error.to_string(),
            other => panic!("not a failure: {other:?}"),
        }
    }
}

impl Card {
    /// A run from its start to its end.
    pub(crate) fn run(&self, experiment: &Experiment) -> Run {
        self.begin(experiment, false);
        self.end()
    }

    /// The losses of a run without a fault.
    pub(crate) fn calm(&self, experiment: &Experiment) -> Vec<f64> {
        let run = self.run(experiment);
        assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
        assert_eq!(run.summary.left_over, Bytes(0));
        assert_eq!(run.losses.len(), experiment.run.steps.expect("a number of steps") as usize);
        run.losses
    }

    pub(crate) fn begin(&self, experiment: &Experiment, paused: bool) {
        self.send(Command::Start(Box::new(Start { paused, ..Start::new(experiment.clone()) })));
    }

    /// What is left of a run.
    pub(crate) fn end(&self) -> Run {
        let mut losses = Vec::new();
        loop {
            match self.next() {
                Event::Step(record) => losses.push(record.loss),
                Event::Ended { outcome, summary, .. } => return Run { losses, outcome, summary: *summary },
                _ => {}
            }
        }
    }

    /// Waits for the event that `is_it` knows.
    pub(crate) fn until(&self, is_it: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next();
            assert!(!matches!(event, Event::Ended { .. }), "too early: {event:?}");
            if is_it(&event) {
                return event;
            }
        }
    }

    /// Goes `steps` on in a run that is paused; their losses.
    pub(crate) fn steps(&self, steps: usize) -> Vec<f64> {
        let step = |_| {
            self.send(Command::Step);
            self.step()
        };
        (0..steps).map(step).collect()
    }

    /// Waits for the next step; its loss.
    pub(crate) fn step(&self) -> f64 {
        match self.until(|event| matches!(event, Event::Step(_))) {
            Event::Step(record) => record.loss,
            _ => unreachable!("that was waited for"),
        }
    }

    pub(crate) fn next(&self) -> Event {
        self.trainer.events().recv_timeout(PATIENCE).expect("the trainer goes on")
    }

    pub(crate) fn send(&self, command: Command) {
        self.trainer.send(command);
    }

    /// Other processes hold so much of the card from now on.
    pub(crate) fn others_hold(&self, mib: u64) {
        place(OTHERS, &mib.to_string());
    }

    /// Other processes take all but so much of what is free.
    pub(crate) fn others_leave(&self, left: Bytes) {
        let (memory, others) = (self.memory(), self.others());
        self.others_hold(((others << 20) + memory.free - left.0) >> 20);
    }

    fn others(&self) -> u64 {
        fs::read_to_string(file(OTHERS)).map_or(0, |text| text.parse().expect("a number"))
    }

    /// From now on, the n-th of `what` (`allocation` or `kernel`) fails; 0: none does.
    pub(crate) fn fail(&self, what: &str, n: usize) {
        place(FAULT, &format!("{what} {n}\n"));
    }

    /// From now on, the monitor fails where it is asked for processes, or no longer does.
    pub(crate) fn deafen(&self, is_deaf: bool) {
        if is_deaf {
            place(DEAF, "");
        } else {
            fs::remove_file(file(DEAF)).expect("it was there");
        }
    }

    /// Bytes of the card that this process holds.
    pub(crate) fn held(&self) -> u64 {
        self.memory().used - (self.others() << 20)
    }

    fn memory(&self) -> nvml_wrapper::struct_wrappers::device::MemoryInfo {
        let nvml = Nvml::init().expect("the simulated monitor starts");
        nvml.device_by_index(0).and_then(|card| card.memory_info()).expect("its memory")
    }
}

fn file(variable: &str) -> PathBuf {
    env::var_os(variable).expect("set for this process").into()
}

/// Writes a file that appears whole.
fn place(variable: &str, text: &str) {
    let (file, aside) = (file(variable), file(variable).with_extension("aside"));
    let write = |aside: &Path| fs::write(aside, text).and_then(|()| fs::rename(aside, &file));
    write(&aside).expect("written");
}
