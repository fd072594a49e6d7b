//! Memory against accuracy: each run a point, and the frontier of those that nothing beats.

use eframe::egui::{Pos2, Rect, Vec2, pos2, vec2};

use super::{
    Figure,
    panel::{Axis, Panel},
    svg::{Mark, Pen, Words, fitted, legend, palette, width_of},
};
use crate::{
    format,
    session::frontier,
    theme::print,
    widgets::{
        axes::Round,
        places::{Placed, Places},
    },
};

/// A run that is drawn.
#[derive(Debug, Clone)]
pub(crate) struct Dot {
    /// The run's number, which the window shows as well; empty if it has none.
    pub(crate) number: String,
    pub(crate) name: String,
    /// Measured peak in MiB, best accuracy.
    pub(crate) at: [f64; 2],
    /// Whether it was ended at its budget: the others are not measured by it.
    pub(crate) is_cut_off: bool,
}

impl Dot {
    /// The words at its point, if there is room.
    fn label(&self) -> String {
        if self.number.is_empty() { self.name.clone() } else { format!("{}: {}", self.number, self.name) }
    }
}

/// Above the legend.
const HEAD: f32 = print::TITLE + print::EDGE + 4.0;
/// The longest name at a point, where a whole one has no room.
const NAME: f32 = 120.0;

/// Draws runs that compare under a title; the line of a budget in MiB, with whose it is, where it is near.
pub(crate) fn figure(title: &str, dots: &[Dot], (whose, budget): (&str, f64), is_of_values: bool) -> Figure {
    let palette = palette();
    let mut figure = Figure::new(title, print::PAGE, HEAD + print::LINE * 2.0 + print::CHART + print::BELOW);
    let heading = Words::new(print::TITLE, palette.strong()).heavy();
    let right = print::PAGE - print::EDGE;
    figure.words([print::EDGE, HEAD - 6.0], &fitted(title, right - print::EDGE, heading), heading);
    let best = frontier(&dots.iter().map(|dot| dot.at).collect::<Vec<_>>(), |i| !dots[i].is_cut_off);
    let whole = dots.iter().filter(|dot| !dot.is_cut_off).count();
    let mut entries = vec![(palette.frontier, Mark::Area, "best for its memory".to_owned())];
    if best.len() < whole {
        entries.push((palette.process, Mark::Area, "beaten".to_owned()));
    }
    if whole < dots.len() {
        entries.push((palette.warn, Mark::Area, "ended at its budget".to_owned()));
    }
    let widest = dots.iter().fold(0.0f64, |widest, dot| widest.max(dot.at[0]));
    let is_near = budget <= widest * 2.0;
    if is_near {
        entries.push((palette.budget, Mark::Dashed, format!("{whose}, {}", format::mib(budget))));
    }
    // The name of the vertical axis has a line of its own below the legend.
    let top = legend(&mut figure, &entries, [print::EDGE, HEAD + print::WORDS], right) + print::LINE;
    let bottom = figure.size()[1] - print::BELOW;
    let left = print::EDGE + print::LABELS;
    let low = dots.iter().fold(1.0f64, |low, dot| low.min(dot.at[1]));
    let high = dots.iter().fold(0.0f64, |high, dot| high.max(dot.at[1]));
    let around = ((high - low) * 0.15).max(0.02);
    let x = (0.0, if is_near { widest.max(budget) } else { widest } * 1.1);
    let floor = if low < 0.0 { low - around } else { (low - around).max(0.0) };
    let panel = Panel::new([left, top], [right - left, bottom - top], x, (floor, high + around));
    let (ticks, measure) =
        (format::tick_score(is_of_values), ["best test accuracy", "best test R²"][usize::from(is_of_values)]);
    let across = Axis::new(Round::Binary, &format::mib, "measured peak");
    panel.axes(&mut figure, &across, &Axis::new(Round::Decimal, &ticks, measure));
    let mut lines: Vec<[[f32; 2]; 2]> = Vec::new();
    if is_near {
        let at = panel.x(budget);
        lines.push([[at, panel.top], [at, panel.bottom]]);
        figure.line([at, panel.top], [at, panel.bottom], Pen::dashed(palette.budget, print::BUDGET));
    }
    let stairs: Vec<[f32; 2]> = stairs(&best.iter().map(|i| dots[*i].at).collect::<Vec<_>>())
        .into_iter()
        .map(|point| panel.at(point))
        .collect();
    lines.extend(stairs.windows(2).map(|pair| [pair[0], pair[1]]));
    figure.lines(&stairs, Pen::solid(palette.frontier, print::CURVE));
    for (i, dot) in dots.iter().enumerate() {
        let color = match dot.is_cut_off {
            true => palette.warn,
            false if best.contains(&i) => palette.frontier,
            false => palette.process,
        };
        figure.circle(panel.at(dot.at), print::DOT, color);
    }
    panel.frame(&mut figure);
    names(&mut figure, dots, &best, &panel, &lines);
    figure
}

/// The frontier as stairs: more accuracy costs memory all at once.
fn stairs(frontier: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let corner = |pair: &[[f64; 2]]| [[pair[1][0], pair[0][1]], pair[1]];
    frontier.first().copied().into_iter().chain(frontier.windows(2).flat_map(corner)).collect()
}

/// The names at the points, those that nothing beats first: whole, or short, or the number alone, where one has room.
fn names(figure: &mut Figure, dots: &[Dot], best: &[usize], panel: &Panel, lines: &[[[f32; 2]; 2]]) {
    let words = Words::new(print::SMALL, palette().strong());
    let at = |point: [f64; 2]| Pos2::from(panel.at(point));
    let frame = Rect::from_min_max(pos2(panel.left, panel.top), pos2(panel.right, panel.bottom));
    let around = |dot: &Dot| Rect::from_center_size(at(dot.at), Vec2::splat(print::DOT * 2.0));
    let mut places = Places::new(frame, dots.iter().map(around).collect());
    lines.iter().for_each(|[from, to]| places.line(Pos2::from(*from), Pos2::from(*to)));
    let beaten = (0..dots.len()).filter(|i| !best.contains(i));
    for i in best.iter().copied().chain(beaten) {
        let texts = [dots[i].label(), fitted(&dots[i].label(), NAME, words), dots[i].number.clone()];
        let size = |text: &str| vec2(width_of(text, words), words.size);
        let found =
            texts.iter().filter(|text| !text.is_empty()).find_map(|text| Some((text, places.place(i, size(text))?)));
        let Some((text, Placed { rect, leader, .. })) = found else { continue };
        if let Some([start, end]) = leader {
            figure.line([start.x, start.y], [end.x, end.y], Pen::solid(palette().weak(), print::HAIR));
        }
        figure.words([rect.left(), rect.bottom() - words.size * 0.2], text, words);
        places.take(rect, leader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(name: &str, at: [f64; 2]) -> Dot {
        Dot { number: String::new(), name: name.to_owned(), at, is_cut_off: false }
    }

    #[test]
    fn every_run_is_a_point_and_names_do_not_cover_each_other() {
        let dots = [dot("small", [10.0, 0.8]), dot("large", [30.0, 0.9]), dot("worse", [30.0, 0.85])];
        let svg = figure("Digits", &dots, ("budget of these settings", 32.0), false).svg();
        assert_eq!(svg.matches("<circle").count(), 3);
        for said in ["small", "large", "worse", "budget of these settings, 32 MiB", "beaten"] {
            assert!(svg.contains(&format!(">{said}<")), "{said} in {svg}");
        }
        let long = Dot { number: "3".to_owned(), ..dot(&"a name with no end ".repeat(20), [10.0, 0.8]) };
        assert!(figure("Long", &[long], ("budget", 32.0), false).svg().contains(">3: a name with"));
        // A run that was ended at its budget beats none.
        let cut_off = Dot { is_cut_off: true, ..dot("cut off", [5.0, 0.95]) };
        let svg = figure("Digits", &[cut_off, dot("small", [10.0, 0.8])], ("budget", 1e6), false).svg();
        assert!(svg.contains(">ended at its budget<") && !svg.contains(">beaten<"), "{svg}");
        // Runs at one point have their names around it.
        let same: Vec<Dot> = (0..9).map(|i| dot(&format!("run {i}"), [10.0, 0.5])).collect();
        let named = figure("Same", &same, ("budget", 1e6), false).svg().matches(">run ").count();
        assert_eq!(named, 9);
        assert_eq!(stairs(&[[1.0, 0.5], [3.0, 0.9]]), [[1.0, 0.5], [3.0, 0.5], [3.0, 0.9]]);
        assert!(!figure("Nothing", &[], ("budget", 1.0), false).svg().contains("NaN"));
    }
}
