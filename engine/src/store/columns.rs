//! Columns of numbers as bytes, for a block of a series and for a timeline.
//!
//! Always holds: numbers read back as they were written, to the last bit, NaN included. Each column takes the shortest of a
//! few forms. Refuses bytes that were cut or changed: a checksum goes before them, and no length is taken from them.

mod words;

use std::{collections::HashMap, time::Duration};

/// The most numbers in a column. A larger column was not written by this program.
pub(super) const MOST: usize = 1 << 16;

/// Bytes before the columns: their form, and their checksum.
const HEAD: usize = 5;
/// The form of blocks that this version writes.
const FORM: u8 = 1;

/// How whole numbers are written.
mod ints {
    /// Pairs of a count and a value.
    pub(super) const RUNS: u8 = 0;
    /// Pairs of a count and a difference from the number before.
    pub(super) const RUNS_OF_STEPS: u8 = 1;
    /// The difference from the number before, each.
    pub(super) const STEPS: u8 = 2;
}

/// How numbers with a fraction are written.
mod floats {
    /// Their bits as whole numbers.
    pub(super) const BITS: u8 = 0;
    /// Four bytes each: no number needs more.
    pub(super) const SINGLE: u8 = 1;
    /// Eight bytes each.
    pub(super) const DOUBLE: u8 = 2;
    /// A byte each, into a list of the values.
    pub(super) const LISTED: u8 = 3;
    /// Nanoseconds as whole numbers.
    pub(super) const NANOS: u8 = 4;
}

/// Columns of one length, one after the other.
#[derive(Debug)]
pub(super) struct Columns(Vec<u8>);

impl Columns {
    pub(super) fn new() -> Self {
        Self(vec![0; HEAD])
    }

    /// Adds a column of whole numbers.
    pub(super) fn ints(&mut self, values: impl Iterator<Item = u64>) {
        let values: Vec<u64> = values.collect();
        put_ints(&mut self.0, &values);
    }

    /// Adds a column of numbers with a fraction.
    pub(super) fn floats(&mut self, values: impl Iterator<Item = f64>) {
        let values: Vec<f64> = values.collect();
        put_floats(&mut self.0, &values);
    }

    /// The bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let sum = checksum(&self.0[HEAD..]);
        self.0[0] = FORM;
        self.0[1..HEAD].copy_from_slice(&sum.to_le_bytes());
        self.0
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

fn put_ints(out: &mut Vec<u8>, values: &[u64]) {
    let start = out.len();
    out.push(ints::STEPS);
    let mut before = 0;
    for value in values {
        put(out, zigzag(value.wrapping_sub(before)));
        before = *value;
    }
    let mut shortest = out.len() - start;
    let mut shorter = |form: u8, runs: Vec<u8>| {
        if 1 + runs.len() < shortest {
            shortest = 1 + runs.len();
            out.truncate(start);
            out.push(form);
            out.extend(runs);
        }
    };
    shorter(ints::RUNS, runs(values.iter().copied()));
    let steps =
        values.iter().scan(0, |before, value| Some(zigzag(value.wrapping_sub(std::mem::replace(before, *value)))));
    shorter(ints::RUNS_OF_STEPS, runs(steps));
}

fn runs(values: impl Iterator<Item = u64>) -> Vec<u8> {
    let (mut out, mut run) = (Vec::new(), None);
    for value in values {
        match &mut run {
            Some((count, same)) if *same == value => *count += 1,
            _ => {
                put_run(&mut out, run);
                run = Some((1, value));
            }
        }
    }
    put_run(&mut out, run);
    out
}

fn put_run(out: &mut Vec<u8>, run: Option<(u64, u64)>) {
    if let Some((count, value)) = run {
        put(out, count);
        put(out, value);
    }
}

fn put_floats(out: &mut Vec<u8>, values: &[f64]) {
    let start = out.len();
    out.push(floats::BITS);
    put_ints(out, &values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
    let nanos: Option<Vec<u64>> = values.iter().map(|value| nanos(*value)).collect();
    if let Some(nanos) = nanos {
        let mut bytes = vec![floats::NANOS];
        put_ints(&mut bytes, &nanos);
        replace_if_shorter(out, start, &bytes);
    }
    if let Some(bytes) = listed(values) {
        replace_if_shorter(out, start, &bytes);
    }
    if out.len() - start > 1 + values.len() * 4
        && let Some(singles) = values.iter().map(|value| single(*value)).collect::<Option<Vec<f32>>>()
    {
        out.truncate(start);
        out.push(floats::SINGLE);
        singles.iter().for_each(|value| out.extend(value.to_le_bytes()));
    }
    if out.len() - start > 1 + values.len() * 8 {
        out.truncate(start);
        out.push(floats::DOUBLE);
        values.iter().for_each(|value| out.extend(value.to_le_bytes()));
    }
}

fn replace_if_shorter(out: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    if bytes.len() < out.len() - start {
        out.truncate(start);
        out.extend(bytes);
    }
}

/// The value as nanoseconds, where it is a span of time and nothing is lost.
fn nanos(value: f64) -> Option<u64> {
    let nanos = (value * 1e9).round();
    let is_span = (0.0..1e18).contains(&nanos);
    is_span.then_some(nanos as u64).filter(|nanos| secs(*nanos).to_bits() == value.to_bits())
}

fn secs(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// The value in four bytes, if nothing is lost.
fn single(value: f64) -> Option<f32> {
    let single = value as f32;
    (f64::from(single).to_bits() == value.to_bits()).then_some(single)
}

/// The values as bytes into a list of at most 256.
fn listed(values: &[f64]) -> Option<Vec<u8>> {
    let mut places = HashMap::new();
    let mut list = Vec::new();
    let mut indices = Vec::with_capacity(values.len());
    for value in values {
        let next = places.len();
        let place = *places.entry(value.to_bits()).or_insert_with(|| {
            list.push(*value);
            next
        });
        indices.push(u8::try_from(place).ok()?);
    }
    let mut bytes = vec![floats::LISTED];
    put(&mut bytes, list.len() as u64);
    list.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes.extend(indices);
    Some(bytes)
}

/// A whole number in as many bytes as it needs, seven bits each (LEB128).
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A difference, so that small ones of either sign are small numbers.
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Reads columns of one length. `None` from a reader means bytes that are not columns of this program.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Reader<'a> {
    /// A reader of columns of `count` numbers each.
    pub(super) fn new(bytes: &'a [u8], count: usize) -> Option<Self> {
        let (head, bytes) = bytes.split_at_checked(HEAD)?;
        let sum = u32::from_le_bytes(head[1..].try_into().ok()?);
        (head[0] == FORM && count <= MOST && checksum(bytes) == sum).then_some(Self { bytes, count })
    }

    /// The next column, of whole numbers.
    pub(super) fn ints(&mut self) -> Option<Vec<u64>> {
        let form = self.byte()?;
        let mut values = Vec::with_capacity(self.count);
        let mut before = 0u64;
        while values.len() < self.count {
            let (count, value) = match form {
                ints::RUNS => (self.run(values.len())?, self.int()?),
                ints::RUNS_OF_STEPS => (self.run(values.len())?, unzigzag(self.int()?)),
                ints::STEPS => (1, unzigzag(self.int()?)),
                _ => return None,
            };
            if form == ints::RUNS {
                values.resize(values.len() + count, value);
                continue;
            }
            for _ in 0..count {
                before = before.wrapping_add(value);
                values.push(before);
            }
        }
        Some(values)
    }

    /// The next column, of numbers with a fraction.
    pub(super) fn floats(&mut self) -> Option<Vec<f64>> {
        Some(match self.byte()? {
            floats::BITS => self.ints()?.into_iter().map(f64::from_bits).collect(),
            floats::NANOS => self.ints()?.into_iter().map(secs).collect(),
            floats::SINGLE => {
                let bytes = self.take(self.count * 4)?;
                let singles = bytes.chunks_exact(4).map(|four| [four[0], four[1], four[2], four[3]]);
                singles.map(|four| f64::from(f32::from_le_bytes(four))).collect()
            }
            floats::DOUBLE => self.doubles(self.count)?,
            floats::LISTED => {
                let length = usize::try_from(self.int()?).ok().filter(|length| *length <= 256)?;
                let list = self.doubles(length)?;
                let indices = self.take(self.count)?;
                indices.iter().map(|place| list.get(usize::from(*place)).copied()).collect::<Option<_>>()?
            }
            _ => return None,
        })
    }

    fn doubles(&mut self, count: usize) -> Option<Vec<f64>> {
        let bytes = self.take(count * 8)?;
        bytes.chunks_exact(8).map(|eight| Some(f64::from_le_bytes(eight.try_into().ok()?))).collect()
    }

    /// The length of a run that begins after `done` numbers.
    fn run(&mut self, done: usize) -> Option<usize> {
        let count = usize::try_from(self.int()?).ok()?;
        (1..=self.count - done).contains(&count).then_some(count)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn int(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(ints: &[u64], floats: &[f64]) -> usize {
        let mut columns = Columns::new();
        columns.ints(ints.iter().copied());
        columns.floats(floats.iter().copied());
        let bytes = columns.finish();
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let mut reader = Reader::new(&bytes, ints.len()).expect("whole");
        assert_eq!(reader.ints().expect("ints"), ints);
        assert_eq!(bits(&reader.floats().expect("floats")), bits(floats));
        assert!(reader.bytes.is_empty());
        bytes.len()
    }

    /// Whole numbers as series have them: constant, rising, jumping, any.
    fn some_ints(count: usize) -> impl Strategy<Value = Vec<u64>> {
        let all = prop::collection::vec(any::<u64>(), count);
        let rising = (any::<u64>(), 0..100u64)
            .prop_map(move |(start, by)| (0..count as u64).map(|at| start.wrapping_add(at.wrapping_mul(by))).collect());
        let few = prop::collection::vec(prop::sample::select(vec![0, 1, 4096, u64::MAX]), count);
        prop_oneof![all, rising, few]
    }

    /// Numbers as series have them: losses, times, shares, and NaN.
    fn some_floats(count: usize) -> impl Strategy<Value = Vec<f64>> {
        let bits = prop::collection::vec(any::<u64>().prop_map(f64::from_bits), count);
        let single = prop::collection::vec(any::<f32>().prop_map(f64::from), count);
        let times = prop::collection::vec((0..u64::MAX / 20).prop_map(secs), count);
        let shares = prop::collection::vec((0..=64u8).prop_map(|right| f64::from(right) / 64.0), count);
        let odd = prop::sample::select(vec![f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-310]);
        prop_oneof![bits, single, times, shares, prop::collection::vec(odd, count)]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_to_the_bit(
            (ints, floats) in (0..600usize).prop_flat_map(|count| (some_ints(count), some_floats(count))),
        ) {
            round_trip(&ints, &floats);
        }

        #[test]
        fn damaged_bytes_are_refused(
            (ints, floats) in (1..60usize).prop_flat_map(|count| (some_ints(count), some_floats(count))),
            place in any::<prop::sample::Index>(), flip in 1..=255u8, cut in any::<prop::sample::Index>(),
        ) {
            let mut columns = Columns::new();
            columns.ints(ints.iter().copied());
            columns.floats(floats.iter().copied());
            let bytes = columns.finish();
            let mut changed = bytes.clone();
            changed[place.index(bytes.len())] ^= flip;
            prop_assert!(Reader::new(&changed, ints.len()).is_none());
            prop_assert!(Reader::new(&bytes[..cut.index(bytes.len())], ints.len()).is_none());
        }

        /// Bytes with a right checksum but any content: no panic, and no more memory than the count allows.
        #[test]
        fn any_bytes_are_read_without_harm(content in prop::collection::vec(any::<u8>(), 0..200), count in 0..2000usize) {
            let mut columns = Columns::new();
            columns.0.extend(content);
            let bytes = columns.finish();
            let mut reader = Reader::new(&bytes, count).expect("a right checksum");
            for _ in 0..3 {
                let (ints, floats) = (reader.ints(), reader.floats());
                prop_assert!(ints.is_none_or(|ints| ints.len() == count));
                prop_assert!(floats.is_none_or(|floats| floats.len() == count));
            }
        }
    }

    #[test]
    fn what_repeats_takes_few_bytes() {
        let steps: Vec<u64> = (1..=4096).collect();
        let constant = vec![0.001; 4096];
        assert!(round_trip(&steps, &constant) < 40, "a run each");
        let nanos: Vec<f64> = (0..4096u64).map(|step| secs(step * 300_000 + step % 977)).collect();
        let losses: Vec<f64> = (0..4096).map(|step| f64::from(1.0f32 / (step as f32 + 1.5))).collect();
        assert!(round_trip(&steps, &nanos) < 4096 * 4);
        assert!(round_trip(&steps, &losses) < 4096 * 4 + 40);
        assert!(Reader::new(&Columns::new().finish(), MOST + 1).is_none());
    }
}
