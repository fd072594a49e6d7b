//! When a run began, in words.
//!
//! Always holds: a moment is told in the time of the system's place, from the day's hour for today to the whole date.

use std::collections::HashSet;

use jiff::{Timestamp, tz::TimeZone};

/// When a run began, as short as it is understood today: `14:12`, `22 Nov`, `22 Nov 2025`.
pub(crate) fn when(started: Timestamp) -> String {
    let (then, now) = (started.to_zoned(TimeZone::system()), jiff::Zoned::now());
    let form = match (then.date() == now.date(), then.year() == now.year()) {
        (true, _) => "%H:%M",
        (false, true) => "%-d %b",
        (false, false) => "%-d %b %Y",
    };
    then.strftime(form).to_string()
}

/// The same in a table: of today `to_the_second`, where two of its rows share a minute. All its rows have one form.
pub(crate) fn when_among(started: Timestamp, to_the_second: bool) -> String {
    let short = when(started);
    if to_the_second && short.contains(':') { at_the_second(started) } else { short }
}

/// Whether two of these began today in the same minute.
pub(super) fn share_a_minute(begun: impl Iterator<Item = Timestamp>) -> bool {
    let mut minutes = HashSet::new();
    let mut of_today = begun.filter(|started| when(*started).contains(':'));
    of_today.any(|started| !minutes.insert(started.as_second().div_euclid(60)))
}

/// The time to the second: `14:12:05`, `22 Nov, 14:12:05`.
pub(super) fn at_the_second(started: Timestamp) -> String {
    let (then, now) = (started.to_zoned(TimeZone::system()), jiff::Zoned::now());
    let clock = then.strftime("%H:%M:%S").to_string();
    if then.date() == now.date() { clock } else { format!("{}, {clock}", when(started)) }
}

/// The whole of it: `22 Nov 2026, 14:12:05`.
pub(crate) fn when_exactly(started: Timestamp) -> String {
    started.to_zoned(TimeZone::system()).strftime("%-d %b %Y, %H:%M:%S").to_string()
}
