//! When a run began, in words.
//!
//! Always holds: a moment is told in the time of the system's place, from the day's hour for today to the whole date.

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

/// The same among others: of today to the second, where another began in the same minute.
pub(crate) fn when_among(started: Timestamp, shares_minute: bool) -> String {
    let short = when(started);
    if shares_minute && short.contains(':') { at_the_second(started) } else { short }
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
