//! The dialect of a table: its separator, found in its first rows, and the signs of a file that is not a table.

use csv::{ByteRecord, ReaderBuilder};

/// Separators of fields.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Rows that are looked at.
const ROWS: usize = 20;

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) separator: u8,
    /// Whether a comma stands before decimals: only where it separates nothing.
    pub(super) decimal_comma: bool,
}

impl Dialect {
    /// The dialect of a file that begins with `head`, which is all of it where `is_whole`.
    pub(super) fn of(head: &[u8], is_whole: bool) -> Self {
        // Rows of one length, as many fields as possible.
        let score = |separator: &u8| {
            let lengths = lengths(head, *separator, is_whole);
            let first = lengths.first().copied().unwrap_or(0);
            let even = lengths.iter().filter(|length| **length == first).count();
            let is_table = first > 1;
            (is_table, is_table && even == lengths.len(), is_table && even * 2 > lengths.len(), first)
        };
        let mut best = SEPARATORS[0];
        for separator in &SEPARATORS[1..] {
            if score(separator) > score(&best) {
                best = *separator;
            }
        }
        Self { separator: best, decimal_comma: false }
    }

    /// The separator in a sentence.
    pub(super) fn words(self) -> &'static str {
        match self.separator {
            b';' => "semicolons",
            b'\t' => "tabs",
            b'|' => "bars",
            _ => "commas",
        }
    }
}

/// Fields of the first rows.
fn lengths(head: &[u8], separator: u8, is_whole: bool) -> Vec<usize> {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_reader(head);
    let (mut record, mut lengths) = (ByteRecord::new(), Vec::new());
    while lengths.len() < ROWS && reader.read_byte_record(&mut record).unwrap_or(false) {
        // The last row of a part may be cut.
        if is_whole || reader.position().byte() < head.len() as u64 {
            lengths.push(record.len());
        }
    }
    lengths
}

/// Why a file that begins with `head` is not a table, if its first bytes show it.
pub(super) fn foreign(head: &[u8]) -> Option<&'static str> {
    match head {
        [b'P', b'K', 3, 4, ..] => Some("it is packed, or a spreadsheet (.xlsx); save it as CSV"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("it is packed; unpack it first"),
        [b'P', b'A', b'R', b'1', ..] => Some("it is a Parquet file; write it as CSV"),
        [0xd0, 0xcf, 0x11, 0xe0, ..] => Some("it is a spreadsheet (.xls); save it as CSV"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("it is UTF-16; save it as UTF-8"),
        [] => Some("it is empty; choose a file with a line of names and rows below it"),
        head if head.iter().take(1024).any(|byte| *byte == 0) => {
            Some("it is not text: there are zero bytes in it; choose a file of comma-separated values")
        }
        _ => None,
    }
}
