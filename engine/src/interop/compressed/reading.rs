//! Weights of a compressed file as numbers: codes times their scales, and zeros where a mask has no bit.
//!
//! Always holds: a weight is read in parts of any size. Refuses parts that are not those of one weight.

use std::ops::Range;

use serde_json::Value;

use super::{
    super::{export::as_it_is, mapped::Mapped},
    CONFIG,
};
use crate::{
    error::{Error, Result},
    header::Element,
    tensor::DType,
};

const I8: Element = Element::Other("I8", 8);
const I32: Element = Element::Other("I32", 32);
const I64: Element = Element::Other("I64", 64);
const F32: Element = Element::Of(DType::F32);

/// Elements that are converted at once: what a large weight takes meanwhile is the same as for a small one.
const PART: usize = 512;

/// How the values of a weight lie there.
#[derive(Clone, Copy)]
enum Values {
    /// A code a byte.
    Codes,
    /// Codes of so many bits, those of a row in so many bytes.
    Words { bits: usize, row: usize },
    /// Numbers.
    Numbers(DType),
}

/// A weight of a compressed file, where its parts lie.
#[derive(Clone, Copy)]
pub(in crate::interop) struct Compact<'a> {
    pub(in crate::interop) elements: usize,
    /// Elements of a row, which is the last axis.
    inner: usize,
    form: Values,
    values: &'a [u8],
    /// Scales, and how many elements share one.
    scales: Option<(&'a [u8], usize)>,
    /// The bits of the elements that stay, and where each row begins among the values.
    mask: Option<(&'a [u8], &'a [u8])>,
}

/// The tensors that a weight may be made of, by its name.
pub(in crate::interop) fn parts(weight: &str) -> [String; 10] {
    let layer = weight.strip_suffix(".weight").unwrap_or(weight);
    let own = |what: &str| format!("{layer}.{what}");
    [
        own("weight"),
        own("weight_scale"),
        own("weight_packed"),
        own("weight_shape"),
        own("input_scale"),
        own("input_zero_point"),
        own("compressed"),
        own("bitmask"),
        own("row_offsets"),
        own("shape"),
    ]
}

fn whole(bytes: &[u8], at: usize) -> usize {
    let own = bytes.get(8 * at..).and_then(|rest| rest.first_chunk());
    own.and_then(|own| usize::try_from(i64::from_le_bytes(*own)).ok()).unwrap_or(usize::MAX)
}

impl Mapped {
    /// The extents of the weight of this name, if it lies here as a compressed file has it.
    pub(in crate::interop) fn compact_extents(&self, weight: &str) -> Result<Option<Vec<u64>>> {
        let [_, scale, packed, packed_shape, .., compressed, _, _, shape] = parts(weight);
        if !self.facts.contains_key(CONFIG) || !weight.ends_with(".weight") {
            return Ok(None);
        }
        let has = |name: &String| self.tensors.contains_key(name);
        let shape = match (has(&packed), has(&compressed), has(&scale)) {
            (true, ..) => packed_shape,
            (_, true, _) => shape,
            (.., true) => return Ok(self.tensors.get(weight).map(|place| place.shape.clone())),
            _ => return Ok(None),
        };
        let count = self.tensors.get(&shape).map_or(0, |place| place.bytes as usize / 8);
        let extents = self.part(&shape, I64, &[count])?;
        Ok(Some((0..count).map(|at| whole(extents, at) as u64).collect()))
    }

    /// The weight of this name and extents, if it lies here as a compressed file has it.
    ///
    /// # Errors
    /// Fails if its parts are not those of one weight of these extents.
    pub(in crate::interop) fn compact(&self, weight: &str, shape: &[usize]) -> Result<Option<Compact<'_>>> {
        if self.compact_extents(weight)?.is_none() {
            return Ok(None);
        }
        let [_, scale, packed, .., compressed, bitmask, offsets, _] = parts(weight);
        let elements: usize = shape.iter().product();
        let inner = shape.last().copied().unwrap_or(1).max(1);
        let rows = &shape[..shape.len().saturating_sub(1)];
        let all = Compact { elements, inner, form: Values::Codes, values: &[], scales: None, mask: None };
        if self.tensors.contains_key(&packed) {
            let (bits, count) = (self.bits()?, elements / inner);
            let row = (inner * bits).div_ceil(32) * 4;
            let values = self.part(&packed, I32, &[count, row / 4])?;
            let groups = self.tensors.get(&scale).map_or(0, |place| place.bytes as usize / 4) / count.max(1);
            if groups == 0 || !inner.is_multiple_of(groups) {
                return Err(self.no_part(&scale));
            }
            let scales = Some((self.part(&scale, F32, &[count, groups])?, inner / groups));
            return Ok(Some(Compact { form: Values::Words { bits, row }, values, scales, ..all }));
        }
        let scales = match self.tensors.contains_key(&scale) {
            true => {
                let first = shape.first().copied().unwrap_or(1).max(1);
                let by_row: Vec<usize> = (0..shape.len()).map(|axis| if axis == 0 { first } else { 1 }).collect();
                Some((self.part(&scale, F32, &by_row)?, elements / first))
            }
            false => None,
        };
        let Some(values) = self.tensors.get(&compressed) else {
            return Ok(Some(Compact { values: self.part(weight, I8, shape)?, scales, ..all }));
        };
        let kept = values.shape.first().map_or(0, |count| *count as usize);
        let (form, element) = match values.element.of_weights().filter(|_| scales.is_none()) {
            Some(dtype) => (Values::Numbers(dtype), values.element),
            None => (Values::Codes, I8),
        };
        let bits = self.part(&bitmask, Element::Of(DType::U8), &[rows, &[inner.div_ceil(8)]].concat())?;
        let mask = Some((bits, self.part(&offsets, I64, rows)?));
        Ok(Some(Compact { form, values: self.part(&compressed, element, &[kept])?, scales, mask, ..all }))
    }

    /// Refuses a weight whose scales are no scales, or whose mask does not keep as many elements as there are, row by row.
    pub(in crate::interop) fn check_compact(&self, weight: &str, compact: &Compact<'_>) -> Result<()> {
        let [_, scale, _, _, input_scale, ..] = parts(weight);
        self.bits()?;
        self.check_scales(&scale, compact.scales.map_or(&[], |(scales, _)| scales))?;
        if self.tensors.contains_key(&input_scale) {
            self.check_scales(&input_scale, self.part(&input_scale, F32, &[1])?)?;
        }
        let Some((_, offsets)) = compact.mask else { return Ok(()) };
        let rows = compact.elements / compact.inner;
        let mut before = 0;
        for row in 0..rows {
            if whole(offsets, row) != before {
                return Err(self.no_part(&parts(weight)[8]));
            }
            before += (0..compact.inner).filter(|column| compact.stays(row, *column)).count();
        }
        let size = if let Values::Numbers(dtype) = compact.form { dtype.size() } else { 1 };
        if before * size == compact.values.len() { Ok(()) } else { Err(self.no_part(&parts(weight)[6])) }
    }

    /// Refuses scales that are negative or not finite. The scale of a row of zeros is zero.
    fn check_scales(&self, name: &str, scales: &[u8]) -> Result<()> {
        let numbers = scales.as_chunks().0.iter().map(|own| f32::from_le_bytes(*own));
        match numbers.enumerate().find(|(_, scale)| !scale.is_finite() || *scale < 0.0) {
            None => Ok(()),
            Some((at, scale)) => {
                let message =
                    format!("element {at} is {scale}, which is not a scale; the file is damaged: export the run again");
                Err(Error::file_at(&self.path, format!("tensor {name}"), message))
            }
        }
    }

    /// Bits of the codes that are packed.
    fn bits(&self) -> Result<usize> {
        let unreadable = |error: serde_json::Error| {
            let message = format!("is not JSON: {error}; the file is damaged: export the run again");
            Error::file_at(&self.path, format!("header, {CONFIG}"), message)
        };
        let text = self.facts.get(CONFIG).map_or("{}", String::as_str);
        let config: Value = serde_json::from_str(text).map_err(unreadable)?;
        Ok(if config["config_groups"]["group_0"]["weights"]["num_bits"] == 4 { 4 } else { 8 })
    }

    fn part(&self, name: &str, element: Element, shape: &[usize]) -> Result<&[u8]> {
        let is_right = self.tensors.get(name).is_some_and(|place| {
            place.element == element && place.shape.iter().copied().eq(shape.iter().map(|extent| *extent as u64))
        });
        if is_right { self.elements(name) } else { Err(self.no_part(name)) }
    }

    fn no_part(&self, name: &str) -> Error {
        let message = "is not the part of a weight that its other parts are of; export the run again";
        Error::file_at(&self.path, format!("tensor {name}"), message)
    }
}

impl<'a> Compact<'a> {
    fn stays(&self, row: usize, column: usize) -> bool {
        self.mask.is_none_or(|(bits, _)| bits[row * self.inner.div_ceil(8) + column / 8] >> (column % 8) & 1 == 1)
    }

    /// The number of the value of the first element from `at` on that has one.
    fn place(&self, at: usize) -> usize {
        let Some((_, offsets)) = self.mask else { return at };
        let (row, column) = (at / self.inner, at % self.inner);
        whole(offsets, row) + (0..column).filter(|column| self.stays(row, *column)).count()
    }

    /// The values of these elements, where they lie.
    pub(in crate::interop) fn values(&self, elements: Range<usize>) -> &'a [u8] {
        let begin = |at: usize| match self.form {
            _ if at >= self.elements => self.values.len(),
            Values::Codes => self.place(at),
            Values::Words { row, .. } => at / self.inner * row,
            Values::Numbers(dtype) => self.place(at) * dtype.size(),
        };
        self.values.get(begin(elements.start)..begin(elements.end)).unwrap_or_default()
    }

    /// The value of this number.
    fn number(&self, place: usize) -> f64 {
        match self.form {
            Values::Codes => self.values.get(place).map_or(f64::NAN, |code| f64::from(*code as i8)),
            Values::Words { bits, row } => {
                let (begin, bit) = (place / self.inner * row, place % self.inner * bits);
                let code = self.values[begin + bit / 8] >> (bit % 8) & (u8::MAX >> (8 - bits));
                f64::from(code) - f64::from(1_u8 << (bits - 1))
            }
            Values::Numbers(dtype) => {
                let (mut wide, count) = ([0; 8], self.values.len() / dtype.size());
                if place >= count {
                    return f64::NAN;
                }
                as_it_is(&[count], 0).convert(self.values, dtype, place, &mut wide, DType::F64);
                f64::from_le_bytes(wide)
            }
        }
    }

    /// Writes the elements from number `at` on to `to`, as many as fit, in the type `dtype`.
    pub(in crate::interop) fn convert(&self, at: usize, to: &mut [u8], dtype: DType) {
        let count = (to.len() / dtype.size()).min(self.elements.saturating_sub(at));
        if count == 0 {
            return;
        }
        let mut place = self.place(at);
        let mut wide = [0; PART * 8];
        for (part, to) in to[..count * dtype.size()].chunks_mut(PART * dtype.size()).enumerate() {
            let (begin, count) = (at + part * PART, to.len() / dtype.size());
            for (at, wide) in (begin..begin + count).zip(wide.chunks_exact_mut(8)) {
                let stays = self.stays(at / self.inner, at % self.inner);
                let value = if stays { self.number(place) } else { 0.0 };
                place += usize::from(stays);
                wide.copy_from_slice(&self.scaled(at, value).to_le_bytes());
            }
            as_it_is(&[count], 0).convert(&wide[..count * 8], DType::F64, 0, to, dtype);
        }
    }

    /// The value of element `at` by its scale, if it has one, as the codes were tested.
    fn scaled(&self, at: usize, value: f64) -> f64 {
        let Some((scales, each)) = self.scales else { return value };
        let scale = scales[at / each * 4..].first_chunk().map_or(f32::NAN, |own| f32::from_le_bytes(*own));
        f64::from(value as f32 * scale)
    }
}
