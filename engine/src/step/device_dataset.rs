//! A training set on the device: batches are gathered there, and the host sends only places.
//!
//! Always holds: a gathered batch is to the last bit the one that the host would have sent. Refuses: a batch from a set that
//! was never uploaded.

use crate::{
    backend::{Backend, DType, Executor, HostSlice, Tensor},
    data::{Dataset, DatasetInfo, DeviceDatasetLayout, Input},
    error::{Error, Result},
    experiment::{Data, Precision},
    memory::{heap, probe::uncounted},
};

/// The tensors of a training set.
pub(super) struct DeviceDataset<B: Backend> {
    layout: DeviceDatasetLayout,
    inputs: Tensor<B>,
    /// Labels and scaling, of images.
    images: Option<[Tensor<B>; 2]>,
    is_uploaded: bool,
}

impl<B: Backend> DeviceDataset<B> {
    /// Makes room for the training set of `data`.
    ///
    /// # Errors
    /// [`Error::Budget`] when the samples would cross the budget.
    pub(super) fn new(executor: &Executor<B>, data: &Data, info: &DatasetInfo) -> Result<Self> {
        let _layer = executor.enter(executor.ledger().layer_id("batch"));
        let layout = DeviceDatasetLayout::new(data, info);
        let (shape, dtype) = layout.inputs;
        let inputs = executor.reserve(shape, dtype, "training set")?;
        let images = match (layout.labels, layout.scaling) {
            (Some((shape, dtype)), Some(scaling)) => Some([
                executor.reserve(shape, dtype, "labels of the training set")?,
                executor.reserve(scaling, DType::F32, "scaling")?,
            ]),
            _ => None,
        };
        Ok(Self { layout, inputs, images, is_uploaded: false })
    }

    /// Uploads the training set. The chunks in host memory are not counted as the run's.
    ///
    /// # Errors
    /// Fails for files that cannot be read, and when the device fails.
    pub(super) fn upload(&mut self, executor: &Executor<B>, dataset: &Dataset) -> Result<()> {
        let backend = executor.backend();
        if let Some([_, scaling]) = &self.images {
            backend.write(scaling, HostSlice::F32(dataset.scaling()))?;
        }
        uncounted(|| {
            dataset.for_each_chunk(&self.layout, |rows, chunk| {
                backend.write(&self.inputs.rows_view(rows.clone()), chunk.inputs.slice())?;
                match &self.images {
                    Some([labels, _]) => backend.write(&labels.rows_view(rows), chunk.labels.slice()),
                    None => Ok(()),
                }
            })?;
            heap::give_back_own();
            Ok::<_, Error>(())
        })?;
        self.is_uploaded = true;
        Ok(())
    }

    /// Inputs and labels of the samples at `places`; without places in a dry run.
    pub(super) fn gather(
        &self,
        executor: &Executor<B>,
        places: HostSlice<'_>,
        samples: usize,
        info: &DatasetInfo,
        precision: Precision,
    ) -> Result<(Tensor<B>, Tensor<B>)> {
        if !self.is_uploaded && !places.is_empty() {
            return Err(Error::Misused("the training set was not uploaded to the device".to_owned()));
        }
        let places = executor.upload(places, [samples], DType::U32, "places")?;
        match (&self.images, info.input) {
            (Some([labels, scaling]), input) => {
                let images = executor.gather_images(&self.inputs, scaling, &places, input.dtype(precision))?;
                Ok((images, executor.gather_labels(labels, &places)?))
            }
            (None, Input::Tokens { length, .. }) => {
                executor.gather_tokens(&self.inputs, &places, length, info.scored_labels)
            }
            (None, Input::Image { .. }) => Err(Error::Misused("a training set of images without labels".to_owned())),
        }
    }
}
