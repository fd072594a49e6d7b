//! The search for the layer where numbers stopped being finite, for a run that ends because of them.

use super::{MicroBatch, Session, on_device::OnDevice};
use crate::{
    autograd::Tape,
    backend::{Backend, DType, Tensor},
    data::Split,
    error::{NotFinite, Result},
    memory::{Category, Part, Phase},
};

impl<B: Backend> Session<B> {
    /// Finds where numbers stopped being finite: the first layer, in forward order, whose parameters or whose output
    /// for `batch` are not. `None` when all are finite.
    ///
    /// # Errors
    /// Fails if [`Session::step`] does.
    pub fn diagnose(&self, batch: impl MicroBatch) -> Result<Option<String>> {
        let executor = &self.executor;
        executor.ledger().set_phase(Phase::Evaluate);
        executor.ledger().enter(Part::Diagnosis);
        let OnDevice { inputs, .. } = self.upload(batch, Split::Train, [self.info.input.label(), "labels"])?;
        let mut found = None;
        self.model.trace(&mut Tape::no_grad(executor), inputs, &mut |layer, output| {
            if found.is_some() {
                return Ok(());
            }
            let _layer = executor.enter(layer.layer());
            // Codes are always finite; their scales show whether the weight was.
            for param in layer.params().into_iter().filter(|param| param.weight().dtype() != DType::U8) {
                if found.is_none() && !self.is_finite(param.weight())? {
                    found = Some(format!("the {} of {}", param.name(), executor.ledger().layer_path()));
                }
            }
            if found.is_none() && !self.is_finite(output)? {
                found = Some(format!("the output of {}", executor.ledger().layer_path()));
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn is_finite(&self, tensor: &Tensor<B>) -> Result<bool> {
        let sum = self.executor.filled(0.0, [1], DType::F64, Category::Scratch, "finiteness")?;
        self.executor.add_sum_of_squares(tensor, &sum)?;
        Ok(self.executor.read(&sum)?.is_none_or(|values| values[0].is_finite()))
    }

    /// The error of a run whose numbers are no longer finite. It names the layer where that began, if it is found.
    pub fn not_finite(&self, step: u64, batch: impl MicroBatch) -> NotFinite {
        NotFinite { step, layer: self.diagnose(batch).ok().flatten() }
    }
}
