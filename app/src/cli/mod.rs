//! The command line: for scripts, remote machines and tests.
//!
//! Owns the commands and their promises to scripts: JSON goes to stdout, one object or one object a line; errors go to
//! stderr. Exit status 0 is success, 1 an error, 2 misuse of the command line; `check` has 1 for a peak that rose and 3 for
//! a check that could not be made. A reader that closes stdout ends the program quietly; a run that trains is saved first,
//! and the status says that it ended early.

mod age;
mod anew;
mod ask;
mod bench;
#[cfg(feature = "cuda")]
mod card_report;
mod choice;
mod compare;
mod complete;
mod completions;
mod devices;
mod evaluate;
mod events;
mod export;
mod fit;
mod in_store;
mod interrupt;
mod keeping;
mod lock;
mod lost_reader;
mod offers;
mod out;
mod plain;
mod plan;
mod presets;
mod provenance;
mod resume;
mod run;
mod runs;
mod save;
mod seed;
mod selftest;
mod show;
mod strays;
mod subject;
mod table;
mod train;
mod tried;
mod try_out;
mod verify;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use plimsoll_engine::{
    device::cpu_threads,
    experiment::shipped,
    memory::{heap, host::FreeMemory},
};

use self::in_store::InStore;

/// Tune neural-network training inside a memory budget. Without a command, the window opens.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// A preset to open in the window: a file, or the name of a shipped one
    #[arg(add = complete::presets())]
    preset: Option<PathBuf>,
    #[command(flatten)]
    store: InStore,
}

const EXAMPLES: &str = "\
Examples:
  plimsoll                                  open the window
  plimsoll my-preset.toml                   open the window on a preset
  plimsoll plan cnn-digits                  predict what a run takes
  plimsoll train cnn-digits --budget 8MiB   train inside 8 MiB
  plimsoll runs                             list the runs that were kept

A PRESET is a file, `-` for standard input, or the name of a shipped preset; `plimsoll presets` lists those.";

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Plan),
    Train(train::Train),
    Resume(resume::Resume),
    Evaluate(evaluate::Evaluate),
    Try(try_out::Try),
    Fit(fit::Fit),
    Verify(verify::Verify),
    Bench(bench::Bench),
    #[cfg(feature = "cuda")]
    CardReport(card_report::CardReport),
    Devices(devices::Devices),
    Selftest(selftest::Selftest),
    Presets(presets::Presets),
    Runs(runs::Runs),
    Show(show::Show),
    Compare(compare::Compare),
    Export(export::Export),
    Lock(lock::Lock),
    Check(lock::Check),
    Completions(completions::Completions),
    /// Open the window
    Open {
        /// A preset to open: a file, or the name of a shipped one
        #[arg(add = complete::presets())]
        preset: Option<PathBuf>,
        #[command(flatten)]
        store: InStore,
    },
}

/// The command line was used wrongly: exit status 2.
#[derive(Debug)]
struct Misuse(String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    anew::start_where_small();
    plimsoll_engine::code::announce();
    complete::answer(Cli::command);
    #[cfg(feature = "cuda")]
    card_report::end_with_report();
    heap::share_where_limited();
    // Without it a write that is too large ends the program, as it does other programs.
    let _ = interrupt::outlive_large_files();
    let arguments = in_store::behind_command(&Cli::command(), std::env::args_os());
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => return not_text(),
        Err(error) => match mistyped(&error, &arguments) {
            Some(mistyped) => return failed(&mistyped),
            None => misread(&error),
        },
    };
    match can_start(&cli).and_then(|()| dispatch(cli)) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // When stderr is closed, the exit status still says it.
    out::say("error", &format!("{error:#}"));
    if error.is::<Misuse>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Ends with what clap says of the arguments, or shows the help that was asked for.
fn misread(error: &clap::Error) -> ! {
    let said = error.render().to_string();
    let message = plain::message(&said);
    if message != said {
        let _ = write!(io::stderr(), "{message}");
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// The message for a mistyped command, if that is why its arguments were not understood: it was read as a preset, which takes
/// none of them.
fn mistyped(error: &clap::Error, arguments: &[OsString]) -> Option<anyhow::Error> {
    let first = in_store::first_but_store(arguments)?;
    let is_option = first.to_string_lossy().starts_with('-');
    let is_command = Cli::command().find_subcommand(first).is_some();
    let is_unknown = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict);
    if is_unknown && !is_option && !is_command { can_be_opened(Path::new(first)).err() } else { None }
}

/// Names the argument that is not text: clap refuses it without saying which.
fn not_text() -> ExitCode {
    let argument = std::env::args_os().skip(1).find(|argument| argument.to_str().is_none()).unwrap_or_default();
    out::say("error", &format!("`{}` is not UTF-8; write it in UTF-8", argument.to_string_lossy()));
    ExitCode::from(2)
}

/// Refuses to start the engine where a limit of this process leaves too little: small blocks that the system then refuses end
/// the program without a word.
fn can_start(cli: &Cli) -> anyhow::Result<()> {
    if let Some(Command::Presets(_) | Command::Runs(_) | Command::Show(_) | Command::Completions(_)) = cli.command {
        return Ok(());
    }
    if let Some((FreeMemory { bytes, limited_by }, needed)) = FreeMemory::too_little_to_start(cpu_threads()) {
        let [needed, bytes] = needed.beside(bytes);
        anyhow::bail!("the program starts with {needed}, and {} is {bytes}; raise the limit", limited_by.source());
    }
    Ok(())
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Some(Command::Plan(plan)) => plan.run(),
        Some(Command::Train(train)) => train.run(),
        Some(Command::Resume(resume)) => resume.run(),
        Some(Command::Evaluate(evaluate)) => evaluate.run(),
        Some(Command::Try(tried)) => tried.run(),
        Some(Command::Fit(fit)) => fit.run(),
        Some(Command::Verify(verify)) => verify.run(),
        Some(Command::Bench(bench)) => bench.run(),
        #[cfg(feature = "cuda")]
        Some(Command::CardReport(report)) => report.run(),
        Some(Command::Devices(devices)) => devices.run(),
        Some(Command::Selftest(selftest)) => selftest.run(),
        Some(Command::Presets(presets)) => presets.run(),
        Some(Command::Compare(compare)) => compare.run(),
        Some(Command::Export(export)) => export.run(),
        Some(Command::Lock(lock)) => lock.run(),
        Some(Command::Check(check)) => check.run(),
        Some(Command::Runs(runs)) => runs.run(),
        Some(Command::Show(show)) => show.run(),
        Some(Command::Completions(completions)) => completions.run(),
        Some(Command::Open { preset, store }) => window(preset, &store),
        None => window(cli.preset, &cli.store),
    }
}

fn window(preset: Option<PathBuf>, store: &InStore) -> anyhow::Result<ExitCode> {
    if let Some(preset) = &preset {
        can_be_opened(preset)?;
    }
    crate::window::run(preset, store.folder().map_err(|error| format!("{error:#}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a word that is neither a file nor a shipped preset before a window appears, because it may be a mistyped command.
fn can_be_opened(preset: &Path) -> anyhow::Result<()> {
    let name = preset.to_string_lossy();
    if preset.exists() || shipped::find(&name).is_some() || preset.components().count() > 1 {
        return Ok(());
    }
    let commands: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let known = commands.iter().map(String::as_str).chain(shipped::shipped().iter().map(|(name, _)| *name));
    let meant = nearest(&name, known).map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
    let message = format!(
        "`{name}` is not a command, a preset file or a shipped preset; {meant}`plimsoll --help` lists the commands, and \
         `plimsoll presets` the presets"
    );
    Err(Misuse(message).into())
}

/// The name that was probably meant by a mistyped one.
fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|name| (strsim::jaro_winkler(typed, name), name)).filter(|(likeness, _)| *likeness > 0.7);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|error| error.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
    })
}
