//! Parts that more than one pane draws with.

pub(crate) mod axes;
pub(crate) mod button;
pub(crate) mod chip;
pub(crate) mod control;
pub(crate) mod covered;
pub(crate) mod dense_line;
pub(crate) mod draft;
pub(crate) mod ends;
pub(crate) mod legend;
pub(crate) mod line_plot;
pub(crate) mod places;
pub(crate) mod plot_keys;
pub(crate) mod run_name;
pub(crate) mod series;
pub(crate) mod stack;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod tip;
pub(crate) mod toasts;
