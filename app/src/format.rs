//! Numbers in words: counts, spans of time, shares. One place, so that a figure reads the same in every pane.

mod numbers;
mod pruning;

use plimsoll_engine::{
    Bytes,
    device::{profile, target},
    experiment::{Data, Labelled},
    plan::Plan,
    report::Subject,
    store::{SmallerModel, StoredRun},
    train::{Cached, Took},
};

pub(crate) use self::{
    numbers::{grouped, in_groups, spaced},
    pruning::{of_channels, of_zeros},
};

/// An amount as people write it: `64 MiB` where it is whole, three figures where it is not.
pub(crate) fn size(bytes: Bytes) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes.0 >= 1 << shift {
            let whole = bytes.0 >> shift;
            return if whole << shift == bytes.0 { format!("{whole} {unit}") } else { bytes.to_string() };
        }
    }
    bytes.to_string()
}

/// Where the tensors of a run on a GPU lie.
pub(crate) fn tensors_lie(maps_memory: bool) -> &'static str {
    if maps_memory { "in memory mapped into one range of addresses" } else { "in blocks of the driver's pool" }
}

/// An amount on an axis in MiB.
pub(crate) fn mib(value: f64) -> String {
    if value < 0.0 { String::new() } else { size(Bytes::from_mib(value)) }
}

/// The key-value cache of a text that was written on, in a sentence; none if there was none.
pub(crate) fn cache(took: &Took) -> Option<String> {
    let of = |cached: Cached| {
        let positions = counted(cached.positions as u64, "position");
        format!("The key-value cache of {positions} takes {} of it.", cached.bytes)
    };
    took.cached.map(of)
}

/// A device as people call it: `CPU`, `GPU 0`, `GeForce RTX 4060, 8 GB`.
pub(crate) fn device(name: &str) -> String {
    match (target::cuda_index(name), profile::named(name)) {
        (Some(index), _) => format!("GPU {index}"),
        (None, Some(card)) => card.title.clone(),
        (None, None) => name.to_uppercase(),
    }
}

/// A number without needless zeros: `0.5`, `20`, `1500`.
pub(crate) fn plain(value: f64) -> String {
    let text = match value.abs() {
        v if v > 0.0 && v < 1e-4 => return format!("{value:.1e}").replace(".0e", "e"),
        v if v < 1e-2 => format!("{value:.6}"),
        _ => format!("{value:.4}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A span of time on an axis.
pub(crate) fn tick_secs(value: f64) -> String {
    match value {
        v if v < 0.0 => String::new(),
        v if v < 60.0 => format!("{} s", plain(v)),
        v => secs(v),
    }
}

/// `12 345` with thin gaps between thousands.
pub(crate) fn count(n: u64) -> String {
    plimsoll_engine::bytes::count(n)
}

/// `1 step`, `12 345 steps`.
pub(crate) fn counted(n: u64, one: &str) -> String {
    format!("{} {}", count(n), plimsoll_engine::bytes::noun(n, one))
}

/// `is`, or `are` of another number than one.
pub(crate) fn are(n: u64) -> &'static str {
    plimsoll_engine::bytes::are(n)
}

/// A count on an axis: there are none below zero, even if the picture is moved there.
pub(crate) fn tick_count(value: f64) -> String {
    if value < 0.0 { String::new() } else { count(value.round() as u64) }
}

/// `870 µs`, `1.84 ms`, `12.4 s`, `3 min 7 s`, `1 h 2 min`, `4 days 10 h`: with its units, of which two are enough.
pub(crate) fn secs(secs: f64) -> String {
    match secs {
        s if !s.is_finite() || s < 0.0 => "…".to_owned(),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{} ms", three(s * 1e3)),
        s if s < 60.0 => format!("{} s", three(s)),
        s => {
            let whole = s.round() as u64;
            match (whole / 3600, whole / 60 % 60, whole % 60) {
                (0, m, 0) => format!("{m} min"),
                (0, m, s) => format!("{m} min {s} s"),
                (24..48, ..) => format!("1 day {} h", whole / 3600 - 24),
                (h @ 48.., ..) => format!("{} days {} h", h / 24, h % 24),
                (h, 0, _) => format!("{h} h"),
                (h, m, _) => format!("{h} h {m} min"),
            }
        }
    }
}

/// A time to come, in steps as coarse as it is known: `about 20 s`, `about 3 min`, `about 2 h 10 min`.
pub(crate) fn about_secs(secs: f64) -> String {
    let step = match secs {
        s if s < 10.0 => 1.0,
        s if s < 30.0 => 5.0,
        s if s < 55.0 => 10.0,
        s if s < 3600.0 => 60.0,
        _ => 600.0,
    };
    let whole = ((secs / step).round() * step).max(1.0);
    if whole < 60.0 { format!("about {whole:.0} s") } else { format!("about {}", self::secs(whole)) }
}

/// A number with about three figures.
pub(crate) fn three(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A number of any size with four figures: `0.01234`, `12.34`, `12340`.
pub(crate) fn figures(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let before = value.abs().log10().floor() as i32 + 1;
    match before {
        -3..=9 => format!("{value:.*}", (4 - before).clamp(0, 7) as usize),
        _ => format!("{value:.3e}"),
    }
}

/// The number that a measured one stands for, by its shortest decimal: 0.5675 lies above its nearest value of 32 bits, and
/// would be 56.7% here and 56.8% elsewhere for the same figure.
pub(crate) fn exact(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

/// A share as a percentage, such as `97.2%`.
pub(crate) fn share(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// The unit that an accuracy is a share of.
pub(crate) fn accuracy(data: &Data) -> &'static str {
    match data.labelled() {
        Labelled::Sample => "Accuracy",
        Labelled::Pixel => "Per-pixel accuracy",
        Labelled::Digit => "Per-digit accuracy",
        Labelled::Byte => "Next-byte accuracy",
        Labelled::Token => "Next-token accuracy",
        Labelled::Value => R2,
    }
}

/// The measure of models of values: the share of the labels' variance that they explain.
pub(crate) const R2: &str = "R²";

/// The measure inside a sentence.
pub(crate) fn measure(data: &Data) -> String {
    let name = accuracy(data);
    if name == R2 { name.to_owned() } else { name.to_lowercase() }
}

/// The score of a model on its data: a share, or for values a plain number.
pub(crate) fn score(data: &Data, score: f64) -> String {
    if data.labelled() == Labelled::Value { plain_score(score) } else { share(score) }
}

/// The score in a table of accuracies, where it says that it is not an accuracy.
pub(crate) fn score_among(data: &Data, score: f64) -> String {
    if data.labelled() == Labelled::Value { r2(score) } else { share(score) }
}

/// The score of a kept run.
pub(crate) fn kept_score(run: &StoredRun, score: f64) -> String {
    if run.learns_values() { r2(score) } else { share(score) }
}

/// A share of the variance as people write it.
pub(crate) fn plain_score(score: f64) -> String {
    format!("{score:.3}")
}

/// The score of a compared run at its last test.
pub(crate) fn last_score(subject: &Subject) -> Option<String> {
    subject.ran.as_ref()?.test_accuracy.map(|score| score_among(&subject.experiment.data, score))
}

/// The best that it reached.
pub(crate) fn best_score(subject: &Subject) -> Option<String> {
    subject.ran.as_ref()?.best_test_accuracy.map(|score| score_among(&subject.experiment.data, score))
}

/// The bytes of its model in the end, where that is smaller than the trained one, and its score where that is another.
pub(crate) fn smaller(subject: &Subject) -> Option<String> {
    let SmallerModel { became, bytes, accuracy, trained_accuracy, .. } = subject.ran.as_ref()?.smaller?;
    let differs = accuracy != trained_accuracy;
    let score = if differs { format!(", {}", score_among(&subject.experiment.data, accuracy)) } else { String::new() };
    Some(format!("{bytes} ({}{score})", became.key()))
}

fn r2(score: f64) -> String {
    format!("{R2} {}", plain_score(score))
}

/// The score on an axis.
pub(crate) fn tick_score(is_value: bool) -> fn(f64) -> String {
    if is_value {
        plain
    } else {
        |y| if (0.0..=1.0).contains(&y) { format!("{}%", plain(y * 100.0)) } else { String::new() }
    }
}

/// The unit of throughput: its name, and how many of them a sample is.
pub(crate) fn throughput(data: &Data) -> (&'static str, usize) {
    match data.labelled() {
        Labelled::Byte | Labelled::Token => ("tokens/s", data.length),
        Labelled::Sample | Labelled::Pixel | Labelled::Digit | Labelled::Value => ("samples/s", 1),
    }
}

/// A loss in nats a byte as bits a byte, which a compressor of that quality would need.
pub(crate) fn bits_per_byte(loss: f64) -> String {
    format!("{:.3} bits/byte", loss / std::f64::consts::LN_2)
}

/// The change of time that a ratio is: `+9% time`, `-31% time`, `same time`.
pub(crate) fn time_ratio(ratio: f64) -> String {
    let percent = ((ratio - 1.0) * 100.0).round();
    if !percent.is_finite() {
        "time unknown".to_owned()
    } else if percent == 0.0 {
        "same time".to_owned()
    } else if percent >= 200.0 {
        format!("{}x the time", three(ratio))
    } else {
        format!("{percent:+.0}% time")
    }
}

/// Says of a run that was ended at its budget that its figures are of the steps before.
pub(crate) fn cut_off(subject: &Subject) -> Option<String> {
    subject.ran.as_ref().filter(|ran| ran.met_its_budget).map(|_| "ended at its budget".to_owned())
}

/// The predicted time of a step: for a kept run the kept estimate, otherwise a new one, marked as an estimate.
pub(crate) fn estimate(subject: &Subject) -> Option<String> {
    let is_kept = subject.kept_estimate().is_some();
    let secs_of_step = secs(subject.estimated_step_secs()?);
    Some(if is_kept { secs_of_step } else { format!("{secs_of_step}, estimated now") })
}

/// Says that timelines of a kept run are of this program, which predicts something else than was predicted when the run
/// began; `None` if all that is drawn was predicted then.
pub(crate) fn planned_anew(plan: &Plan) -> Option<String> {
    let phases: Vec<&str> = plan.planned_anew.iter().map(|pass| pass.name()).collect();
    (!phases.is_empty())
        .then(|| format!("Planned again by this program, and not as when the run began: {}.", phases.join(", ")))
}

/// The same if only the peak of the run is known.
pub(crate) fn planned_otherwise(plan: &Plan, predicted: Bytes) -> Option<String> {
    let load = plan.load();
    (load != predicted).then(|| format!("Planned again: {load} at the peak; {predicted} when the run began."))
}

/// The same text with a capital at its beginning.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The text with a small first letter, inside a sentence.
pub(crate) fn small(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// What is said where no setting is listed that differs.
pub(crate) const NO_SETTING: &str = "No setting differs.";

/// What is said where no tensor is listed that is alive at one peak and not at another.
pub(crate) fn nothing_alive(subjects: &[Subject]) -> &'static str {
    if subjects.iter().any(|subject| subject.plan.is_none()) {
        "Which tensors are alive at a peak is not known of what cannot be planned any more."
    } else {
        "At every peak the same tensors are alive, with the same sizes."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_counts_has_no_words_below_zero() {
        assert_eq!([-500.0, -0.0, 0.0, 1500.0].map(tick_count), ["", "0", "0", "1\u{a0}500"]);
    }

    #[test]
    fn a_share_is_rounded_alike_whether_it_was_kept_in_32_bits_or_64() {
        assert_ne!(share(f64::from(0.5675f32)), share(0.5675));
        for correct in 0..=2000 {
            let known = f64::from(correct) / 2000.0;
            assert_eq!(share(exact(known as f32)), share(known));
        }
    }

    #[test]
    fn devices_are_called_as_people_call_them() {
        assert_eq!(
            ["cpu", "cuda:1", "rtx4060-8g", "toaster"].map(device),
            ["CPU", "GPU 1", "GeForce RTX 4060, 8 GB", "TOASTER"]
        );
    }

    #[test]
    fn what_is_planned_otherwise_than_it_was_is_said() {
        let machine = plimsoll_engine::hardware::Machine::nominal();
        let plan = Plan::of(&plimsoll_engine::Experiment::default(), &machine).expect("a plan");
        assert_eq!((planned_anew(&plan), planned_otherwise(&plan, plan.load())), (None, None));
        let before = plan.load() - Bytes(1024);
        let said = planned_otherwise(&plan, before).expect("another peak");
        assert!(said.contains(&before.to_string()) && said.contains(&plan.load().to_string()), "{said}");
        let anew = Plan { planned_anew: vec![plimsoll_engine::plan::Pass::Evaluate], ..plan };
        assert!(
            planned_anew(&anew).is_some_and(|said| said.contains("Planned again") && said.ends_with("evaluating."))
        );
    }

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1_234_567), "1\u{a0}234\u{a0}567");
        assert_eq!(
            [0.00087, 0.00184, 12.44, 187.0, 120.0, 3729.4, 7200.0, 160_020.0].map(secs),
            ["870 µs", "1.84 ms", "12.4 s", "3 min 7 s", "2 min", "1 h 2 min", "2 h", "1 day 20 h"]
        );
        assert_eq!(secs(f64::NAN), "…");
        assert_eq!([three(0.0), three(0.002), three(2e-5), three(123.4)], ["0.00", "0.0020", "2.0e-5", "123"]);
        assert_eq!(share(0.9722), "97.2%");
        assert_eq!(bits_per_byte(std::f64::consts::LN_2 * 1.5), "1.500 bits/byte");
    }

    #[test]
    fn a_time_to_come_claims_no_more_than_is_known() {
        let told = [0.2, 1.4, 7.8, 12.0, 41.0, 58.0, 200.0, 7_530.0].map(about_secs);
        let said = ["1 s", "1 s", "8 s", "10 s", "40 s", "1 min", "3 min", "2 h 10 min"].map(|s| format!("about {s}"));
        assert_eq!(told, said);
    }

    #[test]
    fn whole_amounts_have_no_decimals() {
        assert_eq!(
            [64 << 20, 3 << 19, 80 << 30, 100, 0].map(|b| size(Bytes(b))),
            ["64 MiB", "1.50 MiB", "80 GiB", "100 B", "0 B"]
        );
        assert_eq!([0.25, 8.0, -1.0].map(mib), ["256 KiB", "8 MiB", ""]);
        assert_eq!([0.5, 20.0, 0.0, 2e-5].map(plain), ["0.5", "20", "0", "2e-5"]);
        // The marks of one axis are written in the same way, each as it is.
        assert_eq!(
            [0.0015, 0.001, 5e-4, 1.5e-4, 1.5e-5].map(plain),
            ["0.0015", "0.001", "0.0005", "0.00015", "1.5e-5"]
        );
        assert_eq!([0.5, 90.0, -1.0].map(tick_secs), ["0.5 s", "1 min 30 s", ""]);
    }

    #[test]
    fn ratios_of_time_read_as_changes() {
        assert_eq!(
            [1.09, 0.69, 1.001, 4.0, f64::NAN].map(time_ratio),
            ["+9% time", "-31% time", "same time", "4.00x the time", "time unknown"]
        );
    }
}
