//! The role of a parameter in its layer, and its use for a rule that treats the matrices of hidden layers apart.

/// The role of a parameter in its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParamRole {
    /// A factor: the weight of a layer or a norm, or the table of an embedding.
    Weight,
    /// A summand: the bias.
    Bias,
    /// The first matrix of an adapter.
    AdapterDown,
    /// The second matrix of an adapter.
    AdapterUp,
    /// The codes of a weight.
    WeightCodes,
    /// The scales of a weight's blocks.
    WeightScales,
    /// The codes of a weight's scales.
    ScaleCodes,
    /// The scales of those.
    ScaleTops,
    /// The mean of a weight's scales.
    ScaleMean,
}

impl ParamRole {
    /// The name in timelines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Bias => "bias",
            Self::AdapterDown => "adapter down",
            Self::AdapterUp => "adapter up",
            Self::WeightCodes => "weight codes",
            Self::WeightScales => "weight scales",
            Self::ScaleCodes => "scale codes",
            Self::ScaleTops => "scale tops",
            Self::ScaleMean => "scale mean",
        }
    }

    /// The name of its gradient in timelines.
    pub(super) const fn gradient_name(self) -> &'static str {
        if matches!(self, Self::Bias) { "bias gradient" } else { "weight gradient" }
    }

    /// Whether it is of a weight that is held as codes.
    pub const fn is_of_codes(self) -> bool {
        matches!(self, Self::WeightCodes | Self::WeightScales | Self::ScaleCodes | Self::ScaleTops | Self::ScaleMean)
    }
}

/// The use of a parameter for a rule that treats the matrices of hidden layers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParamUse {
    /// A matrix that a hidden layer multiplies by: of a dense layer, of a convolution as `[filters, taps]`, of an adapter.
    HiddenMatrix,
    /// Anything else: a table, a summand or a factor; a filter for each channel; the layer that gives the classes.
    Other,
}
