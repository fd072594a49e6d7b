//! The memory of each layer: weights, gradients, optimizer state and saved activations as a bar.

use plimsoll_engine::{
    Bytes,
    memory::Category,
    plan::{LayerRow, Plan},
};

use super::{
    Figure,
    panel::{Axis, Panel},
    svg::{Anchor, Mark, Words, fitted, legend, palette},
};
use crate::{format, theme::print, widgets::axes::Round};

/// Layers that are drawn; of more, the largest.
const DRAWN: usize = 48;
/// Left of the bars: the names of the layers.
const NAMES: f32 = 120.0;
/// The height above the legend.
const HEAD: f32 = print::TITLE + print::EDGE + 4.0;
/// A part of a bar: the category of its colour, its name, and its bytes.
type Part = (Category, &'static str, fn(&LayerRow) -> u64);

/// The parts of a bar, from the left.
const PARTS: [Part; 4] = [
    (Category::Parameters, "weights", |layer| layer.weight_bytes),
    (Category::Gradients, "gradients", |layer| layer.gradient_bytes),
    (Category::OptimizerState, "optimizer state", |layer| layer.optimizer_bytes),
    (Category::Activations, "saved activations", |layer| layer.saved_bytes),
];

fn total(layer: &LayerRow) -> u64 {
    PARTS.iter().map(|(.., bytes)| bytes(layer)).sum()
}

/// The layers in forward order, the largest of them if there are many; and how many are left out.
fn drawn(plan: &Plan) -> (Vec<&LayerRow>, usize) {
    let mut rows: Vec<(usize, &LayerRow)> =
        plan.layers.iter().enumerate().filter(|(_, layer)| total(layer) > 0).collect();
    rows.sort_by_key(|(_, layer)| std::cmp::Reverse(total(layer)));
    let left_out = rows.len().saturating_sub(DRAWN);
    rows.truncate(DRAWN);
    rows.sort_by_key(|(i, _)| *i);
    (rows.into_iter().map(|(_, layer)| layer).collect(), left_out)
}

/// Draws the layers of a plan.
pub(crate) fn figure(plan: &Plan) -> Figure {
    let palette = palette();
    let (rows, left_out) = drawn(plan);
    let title = format!("{}: memory of each layer", plan.experiment.title);
    let step = print::BAR + 3.0;
    let mut figure =
        Figure::new(&title, print::PAGE, HEAD + print::LINE + step * rows.len() as f32 + print::BELOW + print::LINE);
    let (heading, right) = (Words::new(print::TITLE, palette.strong()).heavy(), print::PAGE - print::EDGE);
    figure.words([print::EDGE, HEAD - 6.0], &fitted(&title, right - print::EDGE, heading), heading);
    let mut entries: Vec<_> =
        PARTS.iter().map(|(category, name, _)| (palette.category(*category), Mark::Area, (*name).to_owned())).collect();
    if left_out > 0 {
        entries.push((
            palette.paper(),
            Mark::Area,
            format!("without {}", format::counted(left_out as u64, "smaller layer")),
        ));
    }
    let top = legend(&mut figure, &entries, [print::EDGE, HEAD + print::WORDS], right) - print::WORDS + 4.0;
    let widest = rows.iter().map(|layer| total(layer)).max().unwrap_or_default();
    let (left, height) = (print::EDGE + NAMES, step * rows.len().max(1) as f32);
    let panel = Panel::new([left, top], [right - left, height], (0.0, Bytes(widest).as_mib() * 1.02), (0.0, 1.0));
    panel.axes(
        &mut figure,
        &Axis::new(Round::Binary, &format::mib, ""),
        &Axis::new(Round::Whole, &|_| String::new(), ""),
    );
    let words = Words::new(print::SMALL, palette.strong());
    for (i, layer) in rows.iter().enumerate() {
        let y = top + step * i as f32 + 1.5;
        let name = fitted(&layer.path, NAMES - 6.0, words);
        figure.words([left - 4.0, y + print::BAR * 0.75], &name, words.at(Anchor::End));
        let mut from = 0;
        for (category, _, bytes) in PARTS {
            let to = from + bytes(layer);
            let [a, b] = [from, to].map(|at| panel.x(Bytes(at).as_mib()));
            if to > from {
                figure.rect([a, y], [b - a, print::BAR], palette.category(category));
            }
            from = to;
        }
    }
    panel.frame(&mut figure);
    figure
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

    #[test]
    fn every_layer_that_holds_something_has_a_bar() {
        let plan = Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan");
        let svg = figure(&plan).svg();
        for layer in plan.layers.iter().filter(|layer| total(layer) > 0) {
            assert!(svg.contains(&format!(">{}<", layer.path)), "{} in {svg}", layer.path);
        }
        let mut many = plan.clone();
        many.layers =
            (0..100).map(|i| LayerRow { path: format!("l{i}"), weight_bytes: i, ..plan.layers[0].clone() }).collect();
        let (rows, left_out) = drawn(&many);
        assert_eq!(rows.len() + left_out, many.layers.iter().filter(|layer| total(layer) > 0).count());
        assert!(
            figure(&many).svg().contains("smaller layers")
                && rows.windows(2).all(|w| w[0].weight_bytes < w[1].weight_bytes)
        );
    }
}
