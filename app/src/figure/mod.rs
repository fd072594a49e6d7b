//! Figures that leave the program: every chart at print size, light, without the window around it.
//!
//! Owns [`Figure`], which is drawn once, as SVG; a picture is made from that text. Always holds: a figure reads only its
//! arguments, its colours come from the light theme, and its text is kept as text. Nothing in it has a name, so that a page
//! can hold several.

pub(crate) mod chart;
pub(crate) mod compared;
pub(crate) mod curves;
pub(crate) mod layers;
mod panel;
pub(crate) mod picture;
pub(crate) mod svg;
pub(crate) mod timeline;
pub(crate) mod tradeoff;

pub(crate) use self::svg::Figure;
