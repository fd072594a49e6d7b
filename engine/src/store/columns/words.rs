//! Columns of words, of which few are different: the place of each in a list of them.

use super::{Columns, Reader, put, put_ints};

impl Columns {
    /// Adds a column of words.
    pub(in crate::store) fn words<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        let mut list: Vec<&str> = Vec::new();
        let mut place = |word: &'a str| {
            let known = list.iter().position(|known| *known == word);
            known.unwrap_or_else(|| {
                list.push(word);
                list.len() - 1
            }) as u64
        };
        let places: Vec<u64> = words.map(&mut place).collect();
        put(&mut self.0, list.len() as u64);
        for word in list {
            put(&mut self.0, word.len() as u64);
            self.0.extend(word.as_bytes());
        }
        put_ints(&mut self.0, &places);
    }
}

impl<'a> Reader<'a> {
    /// The next column, of words.
    pub(in crate::store) fn words(&mut self) -> Option<Vec<&'a str>> {
        let different = self.length()?;
        let mut list = Vec::new();
        for _ in 0..different {
            let length = self.length()?;
            list.push(str::from_utf8(self.take(length)?).ok()?);
        }
        let places = self.ints()?.into_iter();
        places.map(|place| list.get(usize::try_from(place).ok()?).copied()).collect()
    }

    /// Whether there are no more columns.
    pub(in crate::store) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A number of bytes or words that are still there: each takes a byte at least.
    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.int()?).ok().filter(|length| *length <= self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let ways = ["", "", "cuDNN", "", "products of patches", "cuDNN", "ß"];
        let mut columns = Columns::new();
        columns.ints((0..).take(ways.len()));
        columns.words(ways.into_iter());
        let bytes = columns.finish();
        let mut reader = Reader::new(&bytes, ways.len()).expect("columns");
        assert_eq!(reader.ints(), Some((0..).take(ways.len()).collect()));
        assert!(!reader.is_at_end());
        assert_eq!((reader.words(), reader.is_at_end()), (Some(ways.to_vec()), true));
        assert_eq!(reader.words(), None);
    }

    #[test]
    fn a_list_that_its_bytes_cannot_hold_is_none() {
        for lengths in [&[u64::MAX][..], &[3, 1], &[1, 9, 0]] {
            let mut columns = Columns::new();
            lengths.iter().for_each(|length| put(&mut columns.0, *length));
            let bytes = columns.finish();
            assert_eq!(Reader::new(&bytes, 1).and_then(|mut reader| reader.words()), None, "{lengths:?}");
        }
        // A place behind the list.
        let mut columns = Columns::new();
        put(&mut columns.0, 0);
        put_ints(&mut columns.0, &[0]);
        let bytes = columns.finish();
        assert_eq!(Reader::new(&bytes, 1).and_then(|mut reader| reader.words()), None);
    }
}
