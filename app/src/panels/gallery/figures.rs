//! The figures on a card: the preset's share of its budget, and its device, in as many words as the card has room for.

use plimsoll_engine::{Bytes, Experiment};

use crate::{format, gallery::Pictured};

/// So many times the budget and more are clearer in a unit of their own as well.
const MOST_TIMES: f64 = 100.0;
/// A share below this is clearer in a unit of its own: `12.3 KiB of 64 MiB`.
const LEAST_SHARE: f64 = 0.01;

/// `takes 15.9 of 24 GiB on GeForce RTX 4090, 24 GB`, in the most words for which there `is_room`.
pub(super) fn short(experiment: &Experiment, picture: Option<&Pictured>, is_room: impl Fn(&str) -> bool) -> String {
    let (budget, device) = (experiment.budget, format::device(&experiment.device));
    let figures = match picture {
        Some(Ok(picture)) if picture.fits => format!("takes {}", of(picture.load, budget)),
        Some(Ok(picture)) => format!("does not fit: {}", of(picture.load, budget)),
        Some(Err(_)) | None => format!("budget {}", format::size(budget)),
    };
    // A card is known by its name; the budget shows its memory.
    let named = device.split(',').next().unwrap_or_default();
    let words = [format!("{figures} on {device}"), format!("{figures} on {named}")];
    words.into_iter().find(|words| is_room(words)).unwrap_or(figures)
}

/// All of it, in whole words.
pub(super) fn whole(experiment: &Experiment, picture: Option<&Pictured>) -> String {
    let on = format!("Budget {} on {}", format::size(experiment.budget), format::device(&experiment.device));
    match picture {
        Some(Ok(picture)) if picture.fits => format!("{on}, of which it takes {}.", picture.load),
        Some(Ok(picture)) => format!("{on}, too small: it takes {}.", picture.load),
        Some(Err(_)) | None => format!("{on}."),
    }
}

/// `15.9 of 24 GiB`: in one unit, where both can be read in it.
fn of(load: Bytes, budget: Bytes) -> String {
    let whole = format::size(budget);
    let unit = whole.split_whitespace().last().unwrap_or_default();
    let size = format!("1 {unit}").parse().unwrap_or(Bytes(1));
    let share = load.0 as f64 / size.0.max(1) as f64;
    let own = load.to_string();
    match own.strip_suffix(unit) {
        Some(amount) => format!("{} of {whole}", amount.trim_end()),
        None if (LEAST_SHARE..1.0).contains(&share) => format!("{share:.2} of {whole}"),
        None if share >= 1.0 && load.0 as f64 <= budget.0 as f64 * MOST_TIMES => format!("{share:.0} of {whole}"),
        None => format!("{own} of {whole}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_figures_have_one_unit_where_both_can_be_read_in_it() {
        let gib = |amount: f64| Bytes::from_mib(amount * 1024.0);
        assert_eq!(of(gib(15.9), Bytes::gib(24)), "15.9 of 24 GiB");
        assert_eq!(of(Bytes::mib(893), Bytes::gib(4)), "0.87 of 4 GiB");
        assert_eq!(of(gib(1.5), Bytes::mib(512)), "1536 of 512 MiB");
        assert_eq!(of(Bytes::kib(12), Bytes::mib(64)), "0.01 of 64 MiB");
        assert_eq!(of(Bytes::kib(12), Bytes::gib(24)), "12.0 KiB of 24 GiB");
        assert_eq!(of(gib(48.4), Bytes::mib(32)), "48.4 GiB of 32 MiB");
        assert_eq!(of(gib(6.98), gib(7.5)), "6.98 of 7.50 GiB");
    }

    #[test]
    fn where_there_is_no_room_the_figures_are_what_stays() {
        let card = Experiment { device: "rtx4060-8g".to_owned(), budget: Bytes::gib(7), ..Experiment::default() };
        let words = |room: usize| short(&card, None, |words| words.len() <= room);
        assert_eq!(words(80), "budget 7 GiB on GeForce RTX 4060, 8 GB");
        assert_eq!(words(32), "budget 7 GiB on GeForce RTX 4060");
        assert_eq!(words(0), "budget 7 GiB");
    }
}
