//! Checkpointed segments: keep the input, run forward again on the way back.
//!
//! Chen et al. 2016, "Training deep nets with sublinear memory cost". The second run launches the same kernels on the
//! same numbers, so losses agree to the last bit with a run that kept everything.

use super::{Pass, Tape, Value};
use crate::{backend::Backend, error::Result, memory::Phase};

impl<'m, B: Backend> Tape<'m, B> {
    /// Runs `segment` on `x`, keeping only `x`.
    pub fn checkpoint(
        &mut self,
        x: Value<B>,
        segment: impl Fn(&mut Self, Value<B>) -> Result<Value<B>> + 'm,
    ) -> Result<Value<B>> {
        if !self.is_recording {
            return segment(self, x);
        }
        let (input, input_id) = (x.tensor.clone(), x.id);
        self.is_recording = false;
        let output = segment(self, Value::constant(x.tensor));
        self.is_recording = true;
        let layer = self.executor.ledger().layer();
        Ok(self.record(layer, true, output?.tensor, move |back, gradient| {
            let executor = back.executor().clone();
            let ledger = executor.ledger();
            let phase = ledger.set_phase(Phase::Recompute);
            let mut again = Tape { pass: Pass::Recompute, ..Tape::recording(&executor) };
            let x = if input_id.is_some() { again.leaf(input) } else { Value::constant(input) };
            let leaf = x.id;
            let output = segment(&mut again, x)?;
            ledger.set_phase(phase);
            let Some(output_id) = output.id else { return Ok(()) };
            // The output's value is not needed: only what the rules inside have saved.
            drop(output);
            let dx = again.backward(output_id, gradient, leaf, back.listener)?;
            match (input_id, dx) {
                (Some(id), Some(dx)) => back.give(id, dx),
                _ => Ok(()),
            }
        }))
    }
}
