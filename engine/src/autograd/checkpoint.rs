//! Checkpointed segments: save the inputs, and run the forward pass again during the backward pass.
//!
//! Chen et al. 2016, "Training deep nets with sublinear memory cost". The second run launches the same kernels on the
//! same numbers, so losses agree to the last bit with a run that saved everything. A segment may take and return several
//! values: the next layer works on the last one, and the others are skip connections past it.

use super::{Pass, Tape, Value, ValueId};
use crate::{
    backend::{Backend, Tensor},
    error::Result,
    memory::Phase,
};

impl<'m, B: Backend> Tape<'m, B> {
    /// Runs `segment`, which returns at least one value, on `inputs`, and saves only those.
    ///
    /// # Errors
    /// The error of `segment`.
    pub fn checkpoint(
        &mut self,
        inputs: Vec<Value<B>>,
        segment: impl Fn(&mut Self, Vec<Value<B>>) -> Result<Vec<Value<B>>> + 'm,
    ) -> Result<Vec<Value<B>>> {
        if !self.is_recording {
            return segment(self, inputs);
        }
        let kept: Vec<(Tensor<B>, Option<ValueId>)> = inputs.iter().map(|x| (x.tensor.clone(), x.id)).collect();
        self.is_recording = false;
        self.any_requires_grad = kept.iter().any(|(_, id)| id.is_some());
        let outputs = segment(self, inputs.into_iter().map(|x| Value::constant(x.tensor)).collect());
        self.is_recording = true;
        let mut outputs = outputs?;
        if !self.any_requires_grad {
            // Neither the segment nor anything before it is trained: there is nothing to record.
            return Ok(outputs);
        }
        let Some(last) = outputs.pop() else { return Ok(outputs) };
        for skip in &mut outputs {
            skip.id = Some(self.name());
        }
        let skips: Vec<ValueId> = outputs.iter().filter_map(|skip| skip.id).collect();
        let (layer, recompute) = (self.executor.ledger().layer(), self.recompute);
        outputs.push(self.record(layer, true, last.tensor, move |back, gradient| {
            let executor = back.executor().clone();
            let ledger = executor.ledger();
            let mut gradients: Vec<Option<Tensor<B>>> = skips.into_iter().map(|id| back.take(id)).collect();
            gradients.push(Some(gradient));
            let phase = ledger.set_phase(Phase::Recompute);
            let mut again = Tape { pass: Pass::Recompute, ..Tape::recording(&executor) }.with_recompute(recompute);
            again.retained = back.retained.cloned();
            let (tensors, ids): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
            if back.retained.is_some() {
                back.release(tensors.clone());
            }
            let leaf = |(tensor, id): (Tensor<B>, &Option<ValueId>)| match id {
                Some(_) => again.leaf(tensor),
                None => Value::constant(tensor),
            };
            let inputs: Vec<Value<B>> = tensors.into_iter().zip(&ids).map(leaf).collect();
            let leaves: Vec<Option<ValueId>> = inputs.iter().map(Value::id).collect();
            let outputs = segment(&mut again, inputs)?;
            ledger.set_phase(phase);
            // The outputs' values are not needed, only the tensors that the rules inside have saved.
            let outputs: Vec<Option<ValueId>> = outputs.into_iter().map(|output| output.id).collect();
            let seeds = outputs.into_iter().zip(gradients).filter_map(|(id, gradient)| id.zip(gradient)).collect();
            let found = again.backward_from(seeds, &leaves, back.listener)?;
            let given = ids.into_iter().zip(found).filter_map(|(id, gradient)| id.zip(gradient));
            given.into_iter().try_for_each(|(id, gradient)| back.accumulate_grad(id, gradient))
        }));
        Ok(outputs)
    }
}
