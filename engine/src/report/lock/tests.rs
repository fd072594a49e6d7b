//! Locks written, read back, cut short, and compared.

use super::*;
use crate::{
    backend::Rates,
    experiment::{PruneKind, QuantiseKind},
};

fn peak(change: impl FnOnce(&mut Experiment), machine: &Machine) -> LockedPeak {
    let mut experiment = Experiment::default();
    change(&mut experiment);
    LockedPeak::of("preset", &Plan::of(&experiment, machine).expect("a plan"))
}

fn of(device: &str) -> LockedPeak {
    peak(|e| device.clone_into(&mut e.device), &Lock::new().machine())
}

#[test]
fn a_lock_reads_back_as_it_was_written() {
    let lock = Lock { peaks: vec![of("cpu"), of("rtx4060-8g")], ..Lock::new() };
    let text = lock.to_text();
    assert_eq!(Lock::parse(&text, Path::new("memory.lock")).expect("as written"), lock);
    let names = |peak: &LockedPeak| peak.phases.iter().map(|phase| phase.name.clone()).collect::<Vec<_>>();
    let change = |e: &mut Experiment| (e.quantise.kind, e.prune.kind) = (QuantiseKind::After, PruneKind::Channels);
    let all = peak(change, &Lock::new().machine());
    let without_teacher = Pass::ALL.into_iter().filter(|pass| *pass != Pass::Teach);
    assert_eq!(names(&all), without_teacher.map(Pass::name).collect::<Vec<_>>());
    let plain = [Pass::First, Pass::Steady, Pass::Evaluate, Pass::Save];
    assert_eq!(names(&lock.peaks[0]), plain.map(Pass::name), "a model that stays as it is trained");
    for peak in &lock.peaks {
        assert_eq!(peak.categories.values().sum::<u64>(), peak.bytes, "{peak:?}");
        assert!(peak.phases.iter().all(|phase| phase.categories.values().sum::<u64>() == phase.bytes));
    }
    assert!(lock.peaks[1].bytes > lock.peaks[1].phases[0].bytes, "a GPU has a context");
}

#[test]
fn a_lock_that_was_cut_short_is_refused_and_an_old_one_is_read() {
    let lock = Lock { peaks: vec![of("cpu"), of("rtx4060-8g")], ..Lock::new() };
    let text = lock.to_text();
    let read = |text: &str| Lock::parse(text, Path::new("memory.lock"));
    for (at, _) in text.trim_end().char_indices() {
        assert!(read(&text[..at]).is_err(), "cut before {:?}", &text[at..]);
    }
    assert!(read(text.trim_end()).is_ok(), "a line break is missing, and nothing else");
    let (peaks, _) = text.split_once("\n[end]").expect("its end");
    assert!(read(peaks).expect_err("cut").to_string().contains("memory.lock: was cut short"));
    let third = text.replace("peaks = 2", "peaks = 3");
    assert!(read(&third).expect_err("one is gone").to_string().contains("counts 3 peaks at its end, and has 2"));
    let old = peaks.replace("version = 2", "version = 1");
    assert_eq!(read(&old).expect("it had no end").peaks, lock.peaks);
}

#[test]
fn the_same_bytes_are_locked_on_every_machine() {
    let slow = Rates { flops: [1.0; 4], launch_secs: 1.0, ..Rates::NOMINAL };
    for device in ["cpu", "rtx4060-8g"] {
        let change = |e: &mut Experiment| device.clone_into(&mut e.device);
        let lock = Lock { threads: 3, ..Lock::new() };
        let here = lock.machine().with_rates(slow).with_process_base(Bytes::gib(1)).with_free_memory(None);
        assert_eq!(peak(change, &lock.machine()), peak(change, &here), "{device}");
    }
    let wide = |e: &mut Experiment| (e.model.width, e.batch.micro) = (512, 512);
    let [few, many] = [1, 64].map(|threads| peak(wide, &Lock { threads, ..Lock::new() }.machine()));
    assert!(few.bytes < many.bytes, "threads count, so they stand in the file");
}

#[test]
fn a_rise_is_told_by_category_and_by_the_layer_of_the_peak() {
    let machine = Lock::new().machine();
    let [was, now] = [32, 256].map(|micro| peak(|e| e.batch.micro = micro, &machine));
    let found = check(&was, &now, 0.0);
    assert!(found.rose && found.categories.contains_key("activations"), "{found:?}");
    assert!(!found.categories.contains_key("parameters"), "they are as they were");
    let sum: i128 = found.categories.values().map(|c| i128::from(c.bytes) - i128::from(c.locked_bytes)).sum();
    assert_eq!(sum, i128::from(now.bytes) - i128::from(was.bytes));
    for phase in &found.phases {
        // The memory for saving does not depend on the batch.
        assert_eq!(phase.rose, phase.name != Pass::Save.name(), "{phase:?}");
        assert!(!phase.layer.is_empty() || !phase.rose, "{phase:?}");
    }
    assert!(!check(&now, &was, 0.0).rose, "less is not a rise");
    let same = check(&was, &was, 0.0);
    assert!(!same.rose && same.categories.is_empty());
    assert!(!check(&was, &now, 1e6).rose, "so much was allowed");
}

#[test]
fn a_phase_may_rise_below_the_peak_and_a_new_one_is_no_rise() {
    let was = of("cpu");
    let mut now = was.clone();
    let lowest = now.phases.iter_mut().min_by_key(|phase| phase.bytes).expect("phases");
    lowest.bytes += 1;
    let found = check(&was, &now, 0.0);
    assert!(found.rose && !found.peak.rose(0.0));
    let mut now = was.clone();
    now.phases.push(LockedPhase { name: "another".to_owned(), ..was.phases[0].clone() });
    assert!(!check(&was, &now, 0.0).rose);
    now.phases.clear();
    assert!(!check(&was, &now, 0.0).rose);
}

#[test]
fn a_foreign_file_is_refused_with_its_line() {
    let said = |text: &str| Lock::parse(text, Path::new("a.lock")).expect_err("refused").to_string();
    assert!(said("version = 99\n").contains("version 99"));
    let wrong = said("version = 1\nprogram = \"1\"\nthreads = 2\npeak = []\nbogus = 1\n");
    assert!(wrong.starts_with("a.lock (line 5): ") && wrong.contains("bogus"), "{wrong}");
    assert!(said("\u{0}").contains("line 1"));
    assert!(said("version = 1\nprogram = \"1\"\nthreads = 0\npeak = []\n").contains("threads = 0"));
    // A machine that has this GPU would check it by another context than the one that locked it.
    let lock = |change: &dyn Fn(&mut LockedPeak)| {
        let mut peak = of("cpu");
        change(&mut peak);
        Lock { peaks: vec![peak], ..Lock::new() }.to_text()
    };
    assert!(Lock::parse(&lock(&|_| {}), Path::new("a.lock")).is_ok());
    let gpu = said(&lock(&|peak| "cuda:9".clone_into(&mut peak.device)));
    assert!(gpu.starts_with("a.lock (peak 1, preset on cuda:9): cuda:9 is a GPU of one machine"), "{gpu}");
    for change in [
        &(|peak: &mut LockedPeak| peak.bytes = MOST_HELD + 1) as &dyn Fn(&mut LockedPeak),
        &|peak| peak.phases[1].bytes = MOST_HELD + 1,
        &|peak| peak.categories.values_mut().for_each(|bytes| *bytes = MOST_HELD + 1),
    ] {
        assert!(said(&lock(change)).contains("more than any device has"));
    }
    let huge = lock(&|_| {}).replace("\nbytes = ", "\nbytes = 18446744073709551615 #");
    assert!(said(&huge).contains("a.lock (") && !said(&huge).contains('-'), "{}", said(&huge));
    assert!(said(&Lock::new().to_text()).contains("locks no peak"));
    let mut experiment = Experiment::default();
    assert!(can_be_locked(&experiment).is_ok());
    experiment.device = "cuda:0".to_owned();
    assert!(can_be_locked(&experiment).expect_err("of this machine").to_string().contains("rtx4060-8g"));
}

#[test]
fn what_does_not_add_up_is_refused_by_its_name() {
    let said = |change: &dyn Fn(&mut Vec<LockedPeak>)| {
        let mut peaks = vec![of("cpu"), of("rtx4060-8g")];
        change(&mut peaks);
        let text = Lock { peaks, ..Lock::new() }.to_text();
        Lock::parse(&text, Path::new("a.lock")).map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(said(&|_| {}), "");
    assert!(said(&|peaks| peaks[0].phases[0].name = "nirst step".to_owned()).contains("`nirst step` is not a phase"));
    assert!(said(&|peaks| peaks[0].phases[0].bytes -= 1).contains("add up to"));
    assert!(said(&|peaks| peaks[1].bytes += 1).contains("peak 2"));
    assert!(said(&|peaks| peaks[1] = peaks[0].clone()).contains("is there twice"));
    let misspelt = |peaks: &mut Vec<LockedPeak>| {
        let bytes = peaks[0].categories.remove("activations").expect("some");
        peaks[0].categories.insert("activavions".to_owned(), bytes);
    };
    assert!(said(&misspelt).contains("`activavions`, which is not a category"));
    let twice = |peaks: &mut Vec<LockedPeak>| {
        let phase = peaks[0].phases[0].clone();
        peaks[0].phases.push(phase);
    };
    assert!(said(&twice).contains("twice"));
}
