//! Protocol buffers, written: the few kinds of field that an event file has.

/// A message that is being written, field by field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

/// Kinds of field on the wire.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

impl Message {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The written bytes.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// Adds a whole number; zero is left out, as in the format.
    pub(super) fn number(self, field: u64, value: u64) -> Self {
        if value == 0 { self } else { self.number_or_zero(field, value) }
    }

    /// A whole number that stands there even as zero: a choice of one field among several.
    pub(super) fn number_or_zero(mut self, field: u64, value: u64) -> Self {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    /// A number of 64 bits.
    pub(super) fn double(mut self, field: u64, value: f64) -> Self {
        self.key(field, FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A number of 32 bits.
    pub(super) fn float(mut self, field: u64, value: f32) -> Self {
        self.key(field, FIXED32);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Numbers of 32 bits, packed.
    pub(super) fn float_list(self, field: u64, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(field, &bytes)
    }

    /// Adds text, also if it is empty.
    pub(super) fn text(self, field: u64, text: &str) -> Self {
        if text.is_empty() { self } else { self.bytes(field, text.as_bytes()) }
    }

    /// A message inside this one.
    pub(super) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Bytes as they are.
    pub(super) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    /// Seven bits a byte, the lowest first.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
