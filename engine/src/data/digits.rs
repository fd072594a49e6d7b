//! The 1797 hand-written digits that ship with the program: 8 x 8 x 1, ten classes, pixels 0 to 16.
//!
//! Test part of the UCI "Optical Recognition of Handwritten Digits" set (E. Alpaydin, C. Kaynak, 1998; CC BY 4.0);
//! `assets/data/README.md` carries the attribution.

use std::io::Read;

use crate::{
    data::{
        DatasetInfo, Input, divide,
        image_set::{Samples, held, held_bytes, split},
        source::{Source, Store},
    },
    error::{Error, Result},
    experiment::Data,
};

static PACKED: &[u8] = include_bytes!("../../../assets/data/digits.csv.gz");

const COUNT: usize = 1797;
const SIDE: usize = 8;
const CLASSES: usize = 10;
const BRIGHTEST: u8 = 16;

/// The digits that ship with the program.
pub(super) struct Digits;

impl Source for Digits {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        let (train, test) = divide(COUNT, data.test_fraction)?;
        Ok(DatasetInfo::one_label(Input::Image { height: SIDE, width: SIDE, channels: 1 }, CLASSES, train, test))
    }

    fn open(&self, _: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        Ok(Store::Images(held(open(info, seed)?)))
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(held_bytes(data, info))
    }
}

/// Training and test samples.
fn open(facts: &DatasetInfo, seed: u64) -> Result<(Samples, Samples)> {
    let text = unpack()?;
    let rows = text.lines().enumerate().map(|(i, line)| row(i + 1, line)).collect::<Result<Vec<_>>>()?;
    if rows.len() != COUNT {
        return Err(damaged(rows.len() + 1, "a different number of rows than 1797"));
    }
    let classes: Vec<u8> = rows.iter().map(|row| row[SIDE * SIDE]).collect();
    let (train, test) = split(seed, &classes, facts.test);
    let part = |indices: Vec<u32>| {
        let rows = || indices.iter().map(|index| &rows[*index as usize]);
        Samples {
            pixels: rows().flat_map(|row| &row[..SIDE * SIDE]).copied().collect(),
            labels: rows().map(|row| row[SIDE * SIDE]).collect(),
        }
    };
    Ok((part(train), part(test)))
}

fn unpack() -> Result<String> {
    let mut text = String::new();
    match flate2::read::GzDecoder::new(PACKED).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(damaged(1, &error.to_string())),
    }
}

/// 64 pixels and the label.
fn row(line: usize, text: &str) -> Result<[u8; SIDE * SIDE + 1]> {
    let mut values = [0; SIDE * SIDE + 1];
    let mut fields = text.split(',');
    for (i, value) in values.iter_mut().enumerate() {
        let most = if i < SIDE * SIDE { BRIGHTEST } else { CLASSES as u8 - 1 };
        let field = fields.next().and_then(|field| field.parse().ok()).filter(|value| *value <= most);
        *value = field.ok_or_else(|| damaged(line, "a value is missing or out of range"))?;
    }
    Ok(values)
}

fn damaged(line: usize, message: &str) -> Error {
    Error::file_at(
        "digits.csv.gz",
        format!("line {line}"),
        format!("the digits in the program are damaged: {message}; build the program again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_digits_are_there() {
        let facts = Digits.info(&Data::default()).expect("the default fraction");
        let (train, test) = open(&facts, 1).expect("the embedded set");
        assert_eq!((train.labels.len(), test.labels.len()), (facts.train, facts.test));
        assert_eq!(train.pixels.len() + test.pixels.len(), COUNT * 64);
        assert!(train.pixels.contains(&16));
    }

    #[test]
    fn a_bad_row_is_named() {
        let good = ["0"; 65].join(",");
        assert!(row(1, &good).is_ok());
        for bad in [good.replacen('0', "17", 1), format!("{}10", &good[..128]), good[..127].to_owned(), "x".to_owned()]
        {
            assert!(row(7, &bad).expect_err("bad").to_string().contains("line 7"), "{bad}");
        }
    }
}
