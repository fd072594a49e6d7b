//! The program on a GPU: a simulated one, on which kernels, memory pool and faults are run for real.
#![cfg(all(target_os = "linux", feature = "cuda"))]

mod reports;
mod traces;

use std::process::{Command, Output};

use plimsoll_tests::{manner_settings, share_rates, simulated_gpu, with_every_manner};
use tempfile::TempDir;

/// The presets that ship.
const PRESETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../presets");

/// A card, and the program with a cache of its own.
struct Card {
    cache: TempDir,
    settings: Vec<(&'static str, String)>,
}

impl Card {
    fn new(settings: &[(&'static str, &str)]) -> Self {
        let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let cache = tempfile::tempdir().expect("a folder");
        share_rates(cache.path());
        Self { cache, settings }
    }

    /// A file with a shipped preset whose pool grows as blocks come.
    fn grown(&self, preset: &str) -> String {
        let text = std::fs::read_to_string(format!("{PRESETS}/{preset}.toml")).expect("a preset");
        let file = self.cache.path().join(format!("{preset}.toml"));
        std::fs::write(&file, text + "\n[gpu]\npool = \"grow\"\n").expect("a file");
        file.to_str().expect("text").to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command
            .args(arguments)
            .env("LD_LIBRARY_PATH", simulated_gpu())
            .env("XDG_CACHE_HOME", self.cache.path())
            .env("PLIMSOLL_STORE", self.cache.path().join("store"))
            .envs(manner_settings().iter().copied())
            .envs(self.settings.iter().map(|(name, value)| (*name, value)));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the program wrote; it ended well.
fn told(output: Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// What the program complained of; it ended with status 1 and did not crash.
fn complaint(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn a_gpu_passes_its_selftest() {
    // Every kernel, gradient, step, small run, refusal and leak.
    let output = Card::new(&[]).run(&["selftest", "--device", "cuda:0", "--quick"]);
    let lines = text(&output.stdout);
    // The last line has the seed, by which the same numbers are drawn again.
    let failed: Vec<&str> = lines.lines().filter(|line| line.contains("FAILED") || line.contains("seed")).collect();
    assert!(output.status.success(), "{}\n{}", failed.join("\n"), text(&output.stderr));
}

const SHORT: [&str; 2] = ["--set", "run.steps=6"];

#[test]
fn the_driver_measures_what_was_predicted() {
    let card = Card::new(&[]);
    let presets = ["mlp-digits", "cnn-digits", "cnn-shapes-f16", "mlp-deep-checkpoint"];
    // More steps than a first one and a steady one show nothing else.
    let rows = verified(&card, &[&presets[..], &["--steps", "3"]].concat());
    assert_eq!(rows.len(), presets.len());
    for row in rows {
        for figure in ["live_bytes", "reserved_bytes"] {
            assert_eq!(row["predicted"][figure], row["measured"][figure], "{row}");
        }
    }
}

#[test]
fn a_pool_that_grows_takes_what_was_predicted() {
    let card = Card::new(&[]);
    let presets = ["cnn-shapes-f16", "mlp-deep-checkpoint", "cnn-shapes-accumulate"].map(|preset| card.grown(preset));
    let presets: Vec<&str> = presets.iter().map(String::as_str).collect();
    let rows = verified(&card, &[&presets[..], &["--steps", "3"]].concat());
    assert_eq!(rows.len(), presets.len());
    for row in rows {
        for figure in ["live_bytes", "reserved_bytes"] {
            assert_eq!(row["predicted"][figure], row["measured"][figure], "{row}");
        }
    }
    let run = ["train", &card.grown("mlp-digits"), "--device", "cuda:0", "--budget", "1GiB"];
    told(card.run(&[&run[..], &SHORT].concat()));
    let found: serde_json::Value =
        serde_json::from_str(&told(card.run(&["evaluate", "last", "--json"]))).expect("an object");
    let memory = &found["memory"];
    assert_eq!(memory["predicted_live_bytes"], memory["measured_live_bytes"], "{memory}");
}

/// The rows of `verify`, all of them right.
fn verified(card: &Card, arguments: &[&str]) -> Vec<serde_json::Value> {
    let rows = told(card.run(&[&["verify", "--device", "cuda:0", "--json"], arguments].concat()));
    let rows: Vec<serde_json::Value> =
        rows.lines().map(|row| serde_json::from_str(row).expect("an object a line")).collect();
    assert!(rows.iter().all(|row| row["ok"] == true), "{rows:?}");
    rows
}

fn bytes(of: &serde_json::Value, figure: &str) -> u64 {
    of[figure].as_u64().unwrap_or_else(|| panic!("no {figure} in {of}"))
}

#[test]
fn random_experiments_with_every_policy_of_the_pool_are_as_predicted() {
    let card = Card::new(&[]);
    // With most seeds, some experiment takes the simulated GPU minutes, because it sums up lane by lane.
    let rows = verified(&card, &["--drawn", "4", "--seed", "4"]);
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(row["predicted"]["reserved_bytes"], row["measured"]["reserved_bytes"], "{row}");
        assert_eq!((&row["on"], row["driver"].is_string()), (&"cuda:0".into(), true), "{row}");
    }
}

#[test]
fn kernels_that_a_run_is_yet_to_load_are_allowed_for_and_known_from_then_on() {
    let card = Card::new(&[("PLIMSOLL_SIM_LAZY_KIB", "1500")]);
    // One precision's kernels are not another's.
    let rows = verified(&card, &["cnn-digits", "cnn-shapes-f16", "--steps", "3"]);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for row in &rows {
        let above = |of: &serde_json::Value| {
            mib(bytes(&of["predicted"], "process_bytes")) - mib(bytes(&of["measured"], "process_bytes"))
        };
        let (first, again) = (above(&row["first"]), above(row));
        assert!((20.0..=192.0).contains(&first) && (0.0..=4.0).contains(&again), "{first}, {again}: {row}");
    }
    // Another process has loaded none of them, and knows what they will take.
    let run = ["train", "cnn-digits", "--device", "cuda:0", "--budget", "1GiB", "--json"];
    let events = told(card.run(&[&run[..], &SHORT].concat()));
    let last: serde_json::Value =
        events.lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("an object a line");
    let process = |of: &str| mib(bytes(&last[of], "process_bytes"));
    let above = process("predicted") - process("measured");
    assert!((0.0..=12.0).contains(&above), "{above}: {last}");
}

#[test]
fn kernels_that_take_more_than_was_allowed_for_are_told_of_and_known_from_then_on() {
    let card = Card::new(&[("PLIMSOLL_SIM_LAZY_KIB", "12000")]);
    let run = ["train", "cnn-digits", "--device", "cuda:0", "--budget", "1GiB", "--json"];
    let warned = || {
        let events = told(card.run(&[&run[..], &SHORT].concat()));
        let mut events =
            events.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).expect("an object a line"));
        events.any(|e| e["event"] == "warning" && e["message"].as_str().is_some_and(|m| m.contains("was allowed for")))
    };
    assert!(warned(), "a run that was never seen");
    assert!(!warned(), "it was seen");
}

#[test]
fn a_line_that_is_kept_to_is_filled_and_never_crossed() {
    let card = Card::new(&[]);
    let rows = verified(&card, &["mlp-digits", "--budget", "600MiB", "--steps", "4"]);
    let process = bytes(&rows[0]["measured"], "process_bytes");
    assert!(process <= bytes(&rows[0], "budget_bytes"), "{rows:?}");
    assert_eq!(rows[0]["steps"], 4);
}

#[test]
fn a_pool_takes_the_whole_of_a_budget_that_is_no_round_number() {
    let card = Card::new(&[]);
    let run = ["train", "mlp-digits", "--device", "cuda:0", "--set", "gpu.pool=reserve", "--budget"];
    told(card.run(&[&run[..], &["655777777B"], &SHORT].concat()));
}

/// The losses of a short run of a preset.
fn losses(card: &Card, preset: &str, device: &str) -> Vec<f64> {
    let run = ["train", preset, "--budget", "1GiB", "--json", "--device", device];
    let lines = told(card.run(&[&run[..], &SHORT].concat()));
    let events = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object a line"));
    events.filter(|event| event["event"] == "step").filter_map(|event| event["loss"].as_f64()).collect()
}

#[test]
fn fused_execution_changes_no_loss_but_for_roundings_and_takes_what_was_predicted() {
    // cuBLASLt rounds a sum after its bias; kernels of our own, which run where it refuses, as the ops apart do.
    let (card, plain) = (Card::new(&[]), Card::new(&[("PLIMSOLL_SIM_LT_REFUSES", "heuristic")]));
    // A bias and its function; a batch norm and what follows it; a sum with its norm.
    for preset in ["cnn-digits", "mobilenetv2-shapes", "brackets-gpt"] {
        let text = std::fs::read_to_string(format!("{PRESETS}/{preset}.toml")).expect("a preset");
        // Two samples at once and a few to test with, which take the simulated GPU seconds.
        let few = |line| {
            let set = ["micro = 2", "samples = 64", "test_fraction = 0.1"];
            let is_of =
                |set: &&str| set.split('=').next().is_some_and(|key| str::starts_with(line, &format!("{key}= ")));
            set.into_iter().find(is_of).unwrap_or(line)
        };
        let few: Vec<&str> = text.lines().map(few).collect();
        let [own, theirs] = ["fused", "in-place"].map(|way| {
            let file = card.cache.path().join(format!("{preset}-{way}.toml"));
            std::fs::write(&file, format!("execution = \"{way}\"\n{}\n", few.join("\n"))).expect("a file");
            file.to_str().expect("text").to_owned()
        });
        let rows = [&card, &plain].map(|card| verified(card, &[&own, "--steps", "3"]));
        for row in rows.iter().flatten() {
            for figure in ["live_bytes", "reserved_bytes"] {
                assert_eq!(row["predicted"][figure], row["measured"][figure], "{row}");
            }
        }
        assert_eq!(rows[0][0]["measured"]["live_bytes"], rows[1][0]["measured"]["live_bytes"], "{preset}");
        let joined = losses(&card, &own, "cuda:0");
        let [own, theirs] = [own, theirs].map(|preset| losses(&plain, &preset, "cuda:0"));
        assert_eq!(own.len(), 6);
        assert_eq!(own, theirs, "{preset}");
        let is_close = |(joined, own): (&f64, &f64)| (joined - own).abs() <= 1e-3 * own.abs();
        assert!(joined.iter().zip(&own).all(is_close), "{preset}: {joined:?}, {own:?}");
    }
}

#[test]
fn where_blocks_lie_changes_no_loss() {
    // Each block in a mapping of its own that goes with it and that nothing has written to, and all of them in one.
    let settings = [("PLIMSOLL_GUARD", "1"), ("PLIMSOLL_SIM_GUARD", "1")];
    for preset in ["mlp-digits", "cnn-digits"] {
        let [together, apart] = [Card::new(&[]), Card::new(&settings)].map(|card| losses(&card, preset, "cuda:0"));
        assert_eq!(together.len(), 6);
        assert_eq!(together, apart, "{preset}");
        let card = Card::new(&[]);
        assert_eq!(together, losses(&card, &card.grown(preset), "cuda:0"), "{preset}, grown");
    }
}

#[test]
fn a_run_that_its_plan_allowed_is_not_refused_at_a_line_that_it_fills() {
    let card = Card::new(&[]);
    for preset in ["cnn-digits", "mlp-deep-checkpoint"] {
        let rows = verified(&card, &[preset, "--steps", "3"]);
        // The line is where the run was measured to end, now that its kernels are known.
        let line = format!("{}B", bytes(&rows[0]["predicted"], "process_bytes"));
        told(card.run(&[&["train", preset, "--device", "cuda:0", "--budget", &line][..], &SHORT].concat()));
    }
}

#[test]
fn predictions_and_lines_hold_with_every_manner_of_a_driver() {
    with_every_manner(&[
        "a_line_that_is_kept_to_is_filled_and_never_crossed",
        "a_pool_takes_the_whole_of_a_budget_that_is_no_round_number",
        "a_run_that_its_plan_allowed_is_not_refused_at_a_line_that_it_fills",
    ]);
}

#[test]
fn a_gpu_learns_what_the_processor_learns() {
    let card = Card::new(&[]);
    let losses = |device: &str| losses(&card, "mlp-digits", device);
    let (here, there) = (losses("cpu"), losses("cuda:0"));
    assert_eq!((here.len(), there.len()), (6, 6));
    for (a, b) in here.iter().zip(&there) {
        assert!((a - b).abs() < 1e-4 * a.abs(), "{here:?} on the processor, {there:?} on the GPU");
    }
}

#[test]
fn a_run_on_a_gpu_is_tried_there_with_its_own_figures() {
    let card = Card::new(&[]);
    let run =
        told(card.run(&["train", "mlp-digits", "--device", "cuda:0", "--budget", "2GiB", "--steps", "3", "--json"]));
    let events = run.lines().map(|event| serde_json::from_str::<serde_json::Value>(event).expect("an object a line"));
    let tested = events.rev().find(|event| event["event"] == "evaluated").expect("it was tested");
    let found = told(card.run(&["evaluate", "last", "--json"]));
    let found: serde_json::Value = serde_json::from_str(&found).expect("an object");
    assert_eq!((&found["loss"], &found["accuracy"]), (&tested["loss"], &tested["accuracy"]));
    assert_eq!(found["device"], "cuda:0");
    let memory = &found["memory"];
    assert_eq!(memory["predicted_live_bytes"], memory["measured_live_bytes"], "{memory}");
}

#[test]
fn a_prompt_is_written_on_with_a_cache_on_a_gpu() {
    let card = Card::new(&[]);
    let written = |device: &str| {
        // The text outgrows the places of the model.
        let prompt = ["try", "sort-llama", "--prompt", "3 1 4 1 5 9 2 6", "--tokens", "12"];
        let told = told(card.run(&[&prompt[..], &["--device", device, "--budget", "2GiB", "--json", "-q"]].concat()));
        serde_json::from_str::<serde_json::Value>(&told).expect("an object")
    };
    let (here, there) = (written("cpu"), written("cuda:0"));
    assert_eq!(here["tokens"], there["tokens"]);
    assert!(here["cache"]["predicted_bytes"].as_u64() > Some(0), "{here}");
    assert_eq!(here["cache"], there["cache"]);
    let memory = &there["memory"];
    assert_eq!(memory["predicted_live_bytes"], memory["measured_live_bytes"], "{memory}");
}

#[test]
fn the_line_holds_on_a_gpu() {
    let card = Card::new(&[]);
    let said = complaint(
        card.run(&[&["train", "cnn-shapes", "--device", "cuda:0", "--budget", "440MiB"][..], &SHORT].concat()),
    );
    assert!(said.contains("440 MiB"), "{said}");
}

#[test]
fn an_allocation_that_fails_in_the_middle_of_a_step_ends_the_run_in_words() {
    let card = Card::new(&[("PLIMSOLL_SIM_FAIL_ALLOC", "60"), ("PLIMSOLL_GUARD", "1")]);
    let said =
        complaint(card.run(&[&["train", "cnn-shapes", "--device", "cuda:0", "--budget", "2GiB"][..], &SHORT].concat()));
    assert!(said.contains("would take") || said.contains("no room"), "{said}");
}

#[test]
fn a_kernel_that_fails_ends_the_run_in_words() {
    let card = Card::new(&[("PLIMSOLL_SIM_FAIL_KERNEL", "60")]);
    let said =
        complaint(card.run(&[&["train", "cnn-digits", "--device", "cuda:0", "--budget", "1GiB"][..], &SHORT].concat()));
    for part in ["the GPU failed", "an illegal memory access was encountered", "start the program again"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_card_that_others_fill_is_said_to_be_full() {
    let card = Card::new(&[("PLIMSOLL_SIM_TOTAL_MIB", "1024"), ("PLIMSOLL_SIM_OTHERS_MIB", "540")]);
    let said = complaint(
        card.run(&[&["train", "cnn-shapes", "--device", "cuda:0", "--budget", "1000MiB"][..], &SHORT].concat()),
    );
    assert!(said.contains("the card has no room") && said.contains("other processes"), "{said}");
}

#[test]
fn the_gpus_are_listed_by_the_numbers_they_are_chosen_by() {
    // Names and kinds of memory that some manners change.
    let usual = [("PLIMSOLL_SIM_NAME", "Simulated GPU"), ("PLIMSOLL_SIM_VIRTUAL", "1")];
    let card = Card::new(&[&[("PLIMSOLL_SIM_DEVICES", "2"), ("PLIMSOLL_SIM_HIDDEN", "1")][..], &usual].concat());
    let devices: serde_json::Value = serde_json::from_str(&told(card.run(&["devices", "--json"]))).expect("one object");
    let gpus = devices["gpus"].as_array().expect("a list");
    let of = |figure: &str| gpus.iter().map(|gpu| gpu[figure].clone()).collect::<Vec<_>>();
    assert_eq!(of("name"), ["Simulated GPU", "Simulated GPU B", "Simulated GPU C"]);
    assert_eq!(of("index")[..2], [0, 1]);
    assert!(of("index")[2]["unavailable"].is_string(), "{devices}");
    let said = told(card.run(&["devices"]));
    assert!(said.contains("cuda:1: Simulated GPU B\n") && said.contains("GPU: Simulated GPU C\n  not to"), "{said}");
    let lies = if cfg!(feature = "candle-cuda") { "in blocks of" } else { "in memory mapped into one range" };
    assert!(said.contains(&format!("  tensors of a run: {lies}")), "{said}");
    let without = Card::new(&[("PLIMSOLL_SIM_VIRTUAL", "0")]);
    assert!(told(without.run(&["devices"])).contains("  tensors of a run: in blocks of the driver's pool\n"));
    // What is written with a measurement belongs to the card it was made on.
    let run = ["verify", "mlp-digits", "--device", "cuda:1", "--json"];
    assert!(told(card.run(&run)).contains("\"device\":\"Simulated GPU B\""));
}

#[test]
fn a_second_gpu_is_not_the_first_one_by_another_name() {
    let card = Card::new(&[("PLIMSOLL_SIM_DEVICES", "2")]);
    told(card.run(&[&["train", "mlp-digits", "--device", "cuda:1", "--budget", "1GiB"][..], &SHORT].concat()));
    let said = text(&card.run(&["train", "mlp-digits", "--device", "cuda:2"]).stderr);
    assert!(said.contains("cuda:2"), "{said}");
}
