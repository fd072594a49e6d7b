//! Spans of time in days and hours: as they are typed, and how long ago something was.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

/// A span such as `30d`, `12h` or `2w`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Age(pub(super) SignedDuration);

/// The units, each with its seconds.
const UNITS: [(&str, i64); 5] = [("w", 7 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let found =
            UNITS.iter().find_map(|(unit, secs)| Some((text.strip_suffix(unit)?.trim().parse::<u32>().ok()?, secs)));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_huge = || UNITS.iter().any(|(unit, _)| text.strip_suffix(unit).is_some_and(|n| is_number(n.trim())));
        match found {
            Some((count, secs)) => Ok(Self(SignedDuration::from_secs(i64::from(count) * secs))),
            None if is_huge() => {
                Err(format!("`{text}` is longer than can be counted: write up to {} of a unit, such as 30d", u32::MAX))
            }
            None => {
                Err(format!("`{text}` is not a span of time: write a whole number and w, d, h, m or s, such as 30d"))
            }
        }
    }
}

/// How long ago a moment was: `just now`, `5 min ago`, `3 d ago`.
pub(super) fn ago(moment: Timestamp, now: Timestamp) -> String {
    let secs = now.duration_since(moment).as_secs();
    match secs {
        i64::MIN..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", secs / 60),
        3600..172_800 => format!("{} h ago", secs / 3600),
        172_800.. => format!("{} d ago", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_told() {
        let secs = |text: &str| text.parse::<Age>().map(|age| age.0.as_secs());
        assert_eq!((secs("30d"), secs("2 w"), secs("0s")), (Ok(30 * 86_400), Ok(14 * 86_400), Ok(0)));
        for bad in ["", "d", "-1d", "1.5d", "3", "3y", "99999999999d"] {
            assert!(secs(bad).expect_err(bad).contains("30d"));
        }
        let huge = secs("99999999999d").expect_err("huge");
        assert!(huge.contains("longer than can be counted") && huge.contains("4294967295"), "{huge}");
        assert_eq!(secs("4294967295w"), Ok(4_294_967_295 * 7 * 86_400));
        assert!(secs("3y").expect_err("a year").contains("whole number"));
        let now = Timestamp::from_second(10_000_000).expect("a time");
        let told = |secs| ago(now - SignedDuration::from_secs(secs), now);
        assert_eq!([told(-5), told(59), told(60)], ["just now", "just now", "1 min ago"]);
        assert_eq!([told(7200), told(172_799), told(172_800)], ["2 h ago", "47 h ago", "2 d ago"]);
    }
}
