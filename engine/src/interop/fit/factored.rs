//! Factors of layers whose weights lie whole in a file, made as they are asked for.

use std::{panic::resume_unwind, thread};

use super::{
    super::{
        compressed::parts,
        low_rank::{Factors, convert},
    },
    Fitted, Now,
};
use crate::{
    error::{Error, Result},
    experiment::LowRank,
    interop::Mapped,
    memory::{
        heap,
        probe::{Meter, counted_on, meter_of_this_thread, meter_this_thread},
    },
    nn::Factorable,
    tensor::DType,
};

impl Mapped {
    /// Whether the factors themselves lie here, as numbers or as the parts of a compressed file.
    pub(super) fn has_factors(&self, layers: &[Factorable]) -> bool {
        let weights = |layer: &Factorable| {
            let factors = layer.ranks.into_iter().flat_map(|ranks| layer.whole.factors(ranks));
            factors.map(|factor| format!("{}.weight", layer.name_of(factor))).collect::<Vec<_>>()
        };
        layers.iter().flat_map(weights).any(|name| parts(&name).iter().any(|part| self.tensors.contains_key(part)))
    }

    /// How to fix a model that is factored otherwise than the run that saved the weights.
    pub(super) fn other_factors(&self, choice: &LowRank) -> Option<String> {
        let own = self.low_rank()?;
        let is_same = (own.rank, own.energy, own.size) == (choice.rank, choice.energy, choice.size);
        (!is_same).then(|| format!("write {} as the run of these weights has it, or choose whole weights", own.words()))
    }
}

impl Fitted {
    /// The same weights for a model with some factored layers.
    pub(super) fn factored(self, factors: Factors) -> Self {
        Self { factors: Some(factors), ..self }
    }

    /// Counts the memory in which layers are factored on `meter` from here on.
    pub(crate) fn count_on(&mut self, meter: &'static Meter) {
        self.meter = Some(meter);
    }

    /// Frees the factors that were made, and hands the memory back that they were made in, so that training takes other memory
    /// in its place and not on top of it.
    pub(crate) fn clear_factors(&mut self) {
        if let Some(factors) = &mut self.factors {
            // They are blocks of another thread's heap, whose end goes back only as they are freed.
            heap::giving_back(|| counted_on(self.meter, || factors.clear()));
            heap::give_back();
        }
    }

    /// The tensor of the whole model that the tensor `name` of this one is, or is made of.
    pub(super) fn whole_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.factors.as_ref().map_or(name, |factors| factors.whole_of(name))
    }

    /// Decomposes the layer of the factor `name`, unless it is not a factor or the layer is the one before.
    pub(super) fn make_factors(&mut self, name: &str) -> Result<()> {
        let Some((weight, count)) = self.factors.as_ref().and_then(|factors| factors.lacks(name)) else {
            return Ok(());
        };
        self.clear_factors();
        self.let_go();
        self.now = Now { name: weight, dtype: Some(DType::F64), at: 0 };
        let mut numbers = counted_on(self.meter, || vec![0.0; count]);
        let read = self.read_pieces(bytemuck::cast_slice_mut(&mut numbers));
        let Self { factors, mapped, meter, .. } = self;
        counted_on(*meter, || {
            let numbers = numbers;
            match factors {
                Some(factors) => read.and_then(|()| on_own_thread(|| factors.make(name, &numbers, mapped))),
                None => read,
            }
        })
    }

    /// Whether the present tensor is a factor that was made.
    pub(super) fn is_factor(&self) -> bool {
        self.factors.as_ref().is_some_and(|factors| factors.numbers(&self.now.name).is_some())
    }

    /// Reads on of it.
    pub(super) fn read_factor(&mut self, to: &mut [u8]) -> Result<()> {
        let Self { factors, now, .. } = self;
        let numbers = factors.as_ref().and_then(|factors| factors.numbers(&now.name)).unwrap_or_default();
        let dtype = now.dtype.unwrap_or(DType::F64);
        let count = to.len() / dtype.size();
        if now.at + count > numbers.len() {
            return Err(Error::Misused(format!("more of {} was asked for than there is", now.name)));
        }
        convert(numbers, now.at, to, dtype);
        now.at += count;
        Ok(())
    }
}

/// Does `work` on a thread of its own, counted where this one is: the libraries of products keep buffers for each thread until it
/// ends, and those of a run's threads would stay counted with data that outlive the run.
fn on_own_thread(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let meter = meter_of_this_thread();
    let counted = || {
        // Until the thread has ended, and with it its buffers.
        meter_this_thread(meter);
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("factoring".to_owned()).spawn_scoped(scope, counted);
        let thread = thread.map_err(|error| Error::NoThread { purpose: "factoring", reason: error.to_string() })?;
        let done = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        // Its buffers were freed as it ended, below the factors that it made.
        heap::give_back();
        done
    })
}
