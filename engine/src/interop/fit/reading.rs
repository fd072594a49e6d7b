//! Weights that fit a model as a session reads them: tensor by tensor, converted on the way.

use super::{
    super::{finite::first_not_finite, mapped::give_back},
    Fitted, Now, Piece,
};
use crate::{
    backend::Shape,
    error::{Error, Result},
    memory::probe::uncounted,
    step::load::Source,
    tensor::DType,
};

/// Elements that are converted before the pages that they were read from are given back.
const AT_ONCE: usize = 1 << 15;

impl Source for Fitted {
    fn find(&mut self, name: &str, _: Shape, dtype: DType) -> Result<bool> {
        // The memory of a look-up belongs to this program and not to the run.
        uncounted(|| {
            if !self.has(name) {
                return Ok(false);
            }
            self.make_factors(name)?;
            self.let_go();
            self.now = Now { name: name.to_owned(), dtype: Some(dtype), at: 0 };
            Ok(true)
        })
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        uncounted(|| if self.is_factor() { self.read_factor(to) } else { self.read_pieces(to) })
    }
}

impl Fitted {
    /// Reads on of a tensor that lies here.
    pub(super) fn read_pieces(&mut self, to: &mut [u8]) -> Result<()> {
        let Self { mapped, tensors, factors, now, .. } = self;
        let name = factors.as_ref().map_or(now.name.as_str(), |factors| factors.whole_of(&now.name));
        let (Some(pieces), Some(dtype)) = (tensors.get(name), now.dtype) else {
            return Err(Error::Misused(format!("{} was asked for before it was found", now.name)));
        };
        let mut to = to;
        let mut begin = 0;
        for Piece { name, dtype: own, view, shape } in pieces {
            let end = begin + view.elements();
            while now.at < end && to.len() >= dtype.size() {
                let count = (end - now.at).min(to.len() / dtype.size()).min(AT_ONCE);
                let (at, next) = (now.at - begin, now.at - begin + count);
                let (part, rest) = to.split_at_mut(count * dtype.size());
                match own {
                    Some(own) => {
                        let all = mapped.elements(name)?;
                        view.convert(all, *own, at, part, dtype);
                        give_back(&all[view.passed(at) * own.size()..view.passed(next) * own.size()]);
                    }
                    None => {
                        if let Some(coded) = mapped.coded(name, shape)? {
                            coded.convert(at, part, dtype);
                            give_back(coded.values(at..next));
                        }
                    }
                }
                if let Some(index) = first_not_finite(part, dtype) {
                    let message = format!(
                        "element {} is not finite as {}; the file is damaged, or was saved by a run that had diverged: \
                         choose other weights",
                        at + index,
                        dtype.name()
                    );
                    return Err(Error::file_at(&mapped.path, format!("tensor {name}"), message));
                }
                now.at += count;
                to = rest;
            }
            begin = end;
        }
        match to.is_empty() {
            true => Ok(()),
            false => Err(Error::Misused(format!("more of {} was asked for than there is", now.name))),
        }
    }

    /// Gives back the pages that were read of the last tensor.
    pub(super) fn let_go(&self) {
        for piece in self.tensors.get(self.whole_of(&self.now.name)).into_iter().flatten() {
            self.mapped.release(&piece.name);
        }
    }
}
