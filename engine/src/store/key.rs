//! The name of a kept run: short, sortable by time, safe as the name of a folder.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
};

use jiff::{Timestamp, tz::TimeZone};

/// The name of a kept run, such as `20261122-141205-k3f9`: when it began, in UTC, and four letters or digits. The first two
/// are the thousandths of that second, so that names are in the order of time; the others set apart runs of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey(String);

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// Letters and digits after the seconds: for the thousandths, and drawn.
const THOUSANDTHS: u32 = 2;
const DRAWN: u32 = 2;
/// The longest name that is read.
const LONGEST: usize = 40;

impl RunKey {
    /// A new name for a run that begins at this moment.
    pub fn new(began: Timestamp) -> Self {
        let began = began.to_zoned(TimeZone::UTC);
        // The standard library draws a new key for each hasher.
        let drawn = RandomState::new().hash_one(std::process::id());
        let mut text = began.strftime("%Y%m%d-%H%M%S-").to_string();
        for (number, digits) in [(began.millisecond() as u64, THOUSANDTHS), (drawn, DRAWN)] {
            text.extend((0..digits).rev().map(|place| DIGITS[(number / 36u64.pow(place) % 36) as usize] as char));
        }
        Self(text)
    }

    /// Reads a name; `None` for a text that is not a name.
    pub(super) fn read(text: &str) -> Option<Self> {
        let is_name = text.bytes().all(|byte| DIGITS.contains(&byte) || byte == b'-');
        (is_name && (1..=LONGEST).contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// A name of the form that [`RunKey::new`] gives: a folder with another name does not belong to the store.
    pub(super) fn given(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let is_number = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_given = matches!(parts[..], [day, time, drawn]
            if is_number(day, 8) && is_number(time, 6) && drawn.len() == (THOUSANDTHS + DRAWN) as usize);
        Self::read(text).filter(|_| is_given)
    }

    /// Whether a name that [`RunKey::new`] gives in this century may begin so.
    pub(super) fn may_begin(text: &str) -> bool {
        // A digit, or one of [`DIGITS`].
        const FORM: &[u8] = b"20dddddd-dddddd-xxxx";
        let is_so = |(byte, form): (u8, &u8)| match form {
            b'd' => byte.is_ascii_digit(),
            b'x' => DIGITS.contains(&byte),
            form => byte == *form,
        };
        (1..=FORM.len()).contains(&text.len()) && text.bytes().zip(FORM).all(is_so)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl serde::Serialize for RunKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_when_and_is_safe_as_a_folder() {
        let began = Timestamp::from_second(1_795_356_725).expect("a time");
        let key = RunKey::new(began);
        assert!(key.as_str().starts_with("20261122-") && key.as_str().len() == 20, "{key}");
        assert!((0..9).any(|_| RunKey::new(began) != key), "runs of one moment are set apart");
        assert_eq!(RunKey::read(key.as_str()), Some(key.clone()));
        assert_eq!(RunKey::given(key.as_str()), Some(key.clone()));
        assert!((1..=20).all(|length| RunKey::may_begin(&key.as_str()[..length])));
        for other in ["", "mine", "42", "20-layers", "2026-11-22", "20261122-141205-k3f9x"] {
            assert!(!RunKey::may_begin(other), "{other}");
        }
        for other in ["mine", "2026-11-22", "20261122-141205", "20261122-141205-k3f9x", "20261122-14120x-k3f9"] {
            assert_eq!(RunKey::given(other), None, "{other}");
        }
        let mut last = key;
        for later in (1..3000).step_by(7) {
            let key = RunKey::new(began + jiff::SignedDuration::from_millis(later));
            assert!(key > last, "{key} is later than {last}");
            last = key;
        }
        for bad in ["", "..", "a/b", "a.b", "A", "a\\b", &"a".repeat(41)] {
            assert_eq!(RunKey::read(bad), None, "{bad}");
        }
    }
}
