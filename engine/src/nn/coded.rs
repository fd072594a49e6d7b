//! A frozen weight as codes (Dettmers et al. 2023, "QLoRA"): how it is held, and how it is made.
//!
//! Always holds: while codes are made, at most [`PART`] elements of the weight are held as numbers at the same time.

use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        ops::{Code, Coded, CodedWeight, SCALE_BLOCK},
    },
    error::Result,
    experiment::BaseWeights,
    memory::{Category, timeline::LayerId},
    nn::{Param, ParamRole},
};

/// Elements that are coded at a time: a multiple of every code's block.
const PART: usize = 16 << 20;

/// A coded weight `[out, inner]`.
pub struct CodedParam<B: Backend> {
    code: Code,
    sizes: [usize; 2],
    codes: Param<B>,
    /// A scale a block; or a code a block, their scales, and the mean.
    scales: Vec<Param<B>>,
}

impl<B: Backend> CodedParam<B> {
    /// A weight of `layer` whose codes are not written yet. `made` turns a tensor into a frozen parameter.
    pub(super) fn new(
        executor: &Executor<B>,
        base: BaseWeights,
        sizes: [usize; 2],
        made: impl Fn(ParamRole, Tensor<B>, usize) -> Param<B>,
    ) -> Result<Option<Self>> {
        let (code, has_coded_scales) = match base {
            BaseWeights::None => return Ok(None),
            BaseWeights::Int8 => (Code::Int8, false),
            BaseWeights::Nf4 => (Code::Nf4, false),
            BaseWeights::Nf4Double => (Code::Nf4, true),
        };
        let elements = sizes[0] * sizes[1];
        let blocks = code.blocks(elements);
        let param = |role: ParamRole, count: usize, dtype: DType, numbers: usize| -> Result<Param<B>> {
            let tensor = executor.allocate([count], dtype, Category::Parameters, role.name())?;
            Ok(made(role, tensor, numbers))
        };
        let codes = param(ParamRole::WeightCodes, code.bytes(elements), DType::U8, elements)?;
        let scales = if has_coded_scales {
            vec![
                param(ParamRole::ScaleCodes, blocks, DType::U8, 0)?,
                param(ParamRole::ScaleTops, blocks.div_ceil(SCALE_BLOCK), DType::F32, 0)?,
                param(ParamRole::ScaleMean, 1, DType::F32, 0)?,
            ]
        } else {
            vec![param(ParamRole::WeightScales, blocks, DType::F32, 0)?]
        };
        Ok(Some(Self { code, sizes, codes, scales }))
    }

    /// The weight's rows and columns.
    pub fn sizes(&self) -> [usize; 2] {
        self.sizes
    }

    /// The layer it belongs to.
    pub fn layer(&self) -> LayerId {
        self.codes.layer()
    }

    /// The weight's tensors as parameters, none of which is trained.
    pub fn params(&self) -> impl Iterator<Item = &Param<B>> {
        std::iter::once(&self.codes).chain(&self.scales)
    }

    /// The weight as products read it.
    pub fn weight(&self) -> CodedWeight<'_, B> {
        let scales = self.scales.iter().map(Param::weight).collect();
        CodedWeight { code: self.code, sizes: self.sizes, codes: self.codes.weight(), scales }
    }

    /// Makes the codes: `fill` writes a part of the elements of the weight, row after row, to each tensor of f32 that it is
    /// given, with the number of the part.
    ///
    /// # Errors
    /// Fails when the elements would cross the budget ([`Error::Budget`](crate::error::Error::Budget)), when the device fails,
    /// and where `fill` does.
    pub fn write(&self, executor: &Executor<B>, mut fill: impl FnMut(&Tensor<B>, usize) -> Result<()>) -> Result<()> {
        let _layer = executor.enter(self.layer());
        let elements = self.sizes[0] * self.sizes[1];
        let part = elements.min(PART);
        let room = executor.allocate([part], DType::F32, Category::Scratch, "weight")?;
        let is_double = self.scales.len() > 1;
        let scales = match is_double {
            true => executor.allocate([self.code.blocks(elements)], DType::F32, Category::Scratch, "scales")?,
            false => self.scales[0].weight().clone(),
        };
        for (number, begin) in (0..elements).step_by(part.max(1)).enumerate() {
            let count = part.min(elements - begin);
            let room = room.rows_view(0..count);
            fill(&room, number)?;
            let (first, block) = (self.code.bytes(begin), begin / self.code.block());
            let codes = self.codes.weight().rows_view(first..first + self.code.bytes(count));
            let scales = scales.rows_view(block..block + self.code.blocks(count));
            executor.launch(Coded::Encode(self.code), &[&room], &[&codes, &scales])?;
        }
        if is_double {
            let [codes, tops, mean] = [0, 1, 2].map(|i| self.scales[i].weight());
            executor.launch(Coded::EncodeScales, &[&scales], &[codes, tops, mean])?;
        }
        Ok(())
    }
}
