//! Programs that are killed without a warning, half of them while they write a checkpoint.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::*;

const STEPS: u64 = 24;
/// Microseconds that a checkpoint is written on for at most before its program is killed.
const LONGEST_WAIT: u64 = 1500;

/// Random numbers, as good as a place to kill a program at needs.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Kills that met a run.
#[derive(Debug, Default, Clone, Copy)]
struct Kills {
    all: u64,
    /// Those that left a checkpoint half written.
    in_a_save: u64,
}

/// Checkpoints that are being written in the folder, or were when their program was killed.
fn begun(run: &Path) -> Vec<String> {
    let mut names = if run.exists() { names(run) } else { Vec::new() };
    names.retain(|name| name.ends_with(".part"));
    names
}

/// Waits for the moment to kill: one within a second of the start, or the writing of a checkpoint. Says whether it came
/// before the program's end.
fn wait(child: &mut Child, run: &Path, while_saving: bool, dice: &mut Dice) -> bool {
    let (began, delay) = (Instant::now(), Duration::from_micros(dice.below(900_000)));
    // The first checkpoints of a run that is killed in them do not count.
    let mut to_see = dice.below(6);
    let mut seen = begun(run);
    loop {
        if child.try_wait().expect("a program").is_some() {
            return false;
        }
        if while_saving {
            let now = begun(run);
            if now.iter().any(|name| !seen.contains(name)) {
                if to_see == 0 {
                    std::thread::sleep(Duration::from_micros(dice.below(LONGEST_WAIT)));
                    return true;
                }
                to_see -= 1;
            }
            seen = now;
        } else if began.elapsed() >= delay {
            return true;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Kills the run of a family `kills` times, while it saves as long as fewer than half of all `before` fell there; it then ends
/// as one that was left alone. Returns the kills that met a run, those before included.
fn killed(number: usize, kills: u64, before: Kills, dice: &mut Dice) -> Kills {
    let case = Case::new(number, STEPS, 1 + dice.below(3));
    let name = FAMILIES[number % FAMILIES.len()].0;
    let wanted = to_the_end(&mut case.command(&case.run("whole")));
    let run = case.run("killed");
    let (mut losses, mut met) = (BTreeMap::new(), before);
    for _ in 0..kills {
        let (before, left) = (saved_step(&run), begun(&run));
        if before == STEPS {
            // The kill before fell between the last checkpoint and the end: no step is left.
            break;
        }
        let mut child = case.command(&run).spawn().expect("the program starts");
        let told = gather(&mut child);
        // The next one makes it half, if it falls there.
        let while_saving = met.in_a_save * 2 < met.all + 1;
        let is_alive = wait(&mut child, &run, while_saving, dice);
        // SIGKILL.
        let _ = child.kill();
        let output = child.wait_with_output().expect("it ends");
        let told = told.join().expect("lines");
        assert!(
            !output.status.success() || !is_alive || told.last.as_ref().is_some_and(|last| last["event"] == "finished"),
            "{name}: it ended by itself: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        met.all += u64::from(is_alive);
        met.in_a_save += u64::from(is_alive && begun(&run).iter().any(|name| !left.contains(name)));
        let after = saved_step(&run);
        assert!(after >= told.saved.max(before), "{name}: {after} is there, and {told:?} was told after {before}");
        losses.extend(told.losses);
        if !output.status.success() && !is_alive {
            panic!("{name}: it failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        if output.status.success() {
            break;
        }
    }
    if saved_step(&run) < STEPS {
        losses.extend(to_the_end(&mut case.command(&run)).losses);
        assert_eq!(names(&run), ["last.safetensors"], "{name}: what was begun is gone");
    }
    for (step, loss) in &losses {
        assert_eq!(wanted.losses.get(step), Some(loss), "{name}, step {step}");
    }
    assert!(whole(&run).1 == whole(&case.run("whole")).1, "{name}: other weights");
    met
}

fn kill(wanted: u64, families: usize, at_once: u64) {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64 | 1);
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let first = dice.below(FAMILIES.len() as u64) as usize;
    let (mut met, mut number) = (Kills::default(), first);
    while met.all < wanted || met.in_a_save * 2 < met.all || number < first + families {
        met = killed(number, at_once.min(wanted), met, &mut dice);
        number += 1;
    }
    println!("{} kills over {} runs, {} of them in a save", met.all, number - first, met.in_a_save);
    assert!(met.all >= wanted && met.in_a_save * 2 >= met.all && number - first >= families, "{met:?}");
}

#[test]
fn a_killed_run_goes_on_from_its_last_checkpoint_to_the_same_bits() {
    kill(10, 4, 3);
}

#[test]
#[ignore = "takes ten minutes"]
fn three_hundred_kills_lose_nothing() {
    kill(300, 11, 5);
}
