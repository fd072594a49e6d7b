//! Memory against accuracy: each run a point, and the frontier of those that nothing beats.

use super::{
    Figure,
    panel::{Axis, Panel},
    svg::{Anchor, Pen, Words, fitted, legend, palette, width_of},
};
use crate::{format, session::frontier, theme::print, widgets::axes::Round};

/// A run that is drawn.
#[derive(Debug, Clone)]
pub(crate) struct Dot {
    pub(crate) name: String,
    /// Measured peak in MiB, best accuracy.
    pub(crate) at: [f64; 2],
}

/// Above the legend.
const HEAD: f32 = print::TITLE + print::EDGE + 4.0;
/// The longest name at a point.
const NAME: f32 = 120.0;

/// A box in the figure: left, top, right, bottom.
type Place = [f32; 4];

/// Draws runs that compare under a title; the budget's line where it is near.
pub(crate) fn figure(title: &str, dots: &[Dot], budget: f64) -> Figure {
    let palette = palette();
    let mut figure = Figure::new(title, print::PAGE, HEAD + print::LINE + print::CHART + print::BELOW);
    let heading = Words::new(print::TITLE, palette.strong()).heavy();
    let right = print::PAGE - print::EDGE;
    figure.words([print::EDGE, HEAD - 6.0], &fitted(title, right - print::EDGE, heading), heading);
    let best = frontier(&dots.iter().map(|dot| dot.at).collect::<Vec<_>>());
    let mut entries = vec![(palette.frontier, false, "best for its memory".to_owned())];
    if best.len() < dots.len() {
        entries.push((palette.process, false, "beaten".to_owned()));
    }
    let widest = dots.iter().fold(0.0f64, |widest, dot| widest.max(dot.at[0]));
    let is_near = budget <= widest * 2.0;
    if is_near {
        entries.push((palette.budget, true, "budget".to_owned()));
    }
    let top = legend(&mut figure, &entries, [print::EDGE, HEAD + print::WORDS], right);
    let bottom = figure.size()[1] - print::BELOW;
    let left = print::EDGE + print::LABELS;
    let low = dots.iter().fold(1.0f64, |low, dot| low.min(dot.at[1]));
    let high = dots.iter().fold(0.0f64, |high, dot| high.max(dot.at[1]));
    let around = ((high - low) * 0.15).max(0.02);
    let x = (0.0, if is_near { widest.max(budget) } else { widest } * 1.1);
    let panel = Panel::new([left, top], [right - left, bottom - top], x, ((low - around).max(0.0), high + around));
    let percent = |y: f64| if y <= 1.0 { format!("{}%", format::plain(y * 100.0)) } else { String::new() };
    let across = Axis::new(Round::Binary, &format::mib, "measured peak");
    panel.axes(&mut figure, &across, &Axis::new(Round::Decimal, &percent, "best test accuracy"));
    if is_near {
        let at = panel.x(budget);
        figure.line([at, panel.top], [at, panel.bottom], Pen::dashed(palette.budget, print::BUDGET));
    }
    let stairs: Vec<[f32; 2]> = stairs(&best.iter().map(|i| dots[*i].at).collect::<Vec<_>>())
        .into_iter()
        .map(|point| panel.at(point))
        .collect();
    figure.lines(&stairs, Pen::solid(palette.frontier, print::CURVE));
    for (i, dot) in dots.iter().enumerate() {
        let color = if best.contains(&i) { palette.frontier } else { palette.process };
        figure.circle(panel.at(dot.at), print::DOT, color);
    }
    panel.frame(&mut figure);
    names(&mut figure, dots, &best, &panel);
    figure
}

/// The frontier as stairs: more accuracy costs memory all at once.
fn stairs(frontier: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let corner = |pair: &[[f64; 2]]| [[pair[1][0], pair[0][1]], pair[1]];
    frontier.first().copied().into_iter().chain(frontier.windows(2).flat_map(corner)).collect()
}

/// The names at the points, those that nothing beats first, each where it covers neither another name nor a point.
fn names(figure: &mut Figure, dots: &[Dot], best: &[usize], panel: &Panel) {
    let words = Words::new(print::SMALL, palette().strong());
    let around = |[x, y]: [f32; 2]| [x - print::DOT, y - print::DOT, x + print::DOT, y + print::DOT];
    let mut taken: Vec<Place> = dots.iter().map(|dot| around(panel.at(dot.at))).collect();
    let beaten = (0..dots.len()).filter(|i| !best.contains(i));
    for i in best.iter().copied().chain(beaten) {
        let name = fitted(&dots[i].name, NAME, words);
        let (width, [x, y], away) = (width_of(&name, words), panel.at(dots[i].at), print::DOT + 2.0);
        let sides = [
            ([x + away, y + words.size * 0.35], Anchor::Start, x + away),
            ([x - away, y + words.size * 0.35], Anchor::End, x - away - width),
            ([x, y - away], Anchor::Middle, x - width / 2.0),
            ([x, y + away + words.size * 0.8], Anchor::Middle, x - width / 2.0),
        ];
        let free = sides.into_iter().find_map(|(at, anchor, left)| {
            let place = [left, at[1] - words.size * 0.8, left + width, at[1] + words.size * 0.2];
            let is_inside = place[0] >= panel.left && place[2] <= panel.right;
            let is_free = is_inside && taken.iter().all(|other| apart(&place, other));
            is_free.then_some((at, anchor, place))
        });
        if let Some((at, anchor, place)) = free {
            figure.words(at, &name, words.at(anchor));
            taken.push(place);
        }
    }
}

fn apart(a: &Place, b: &Place) -> bool {
    a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(name: &str, at: [f64; 2]) -> Dot {
        Dot { name: name.to_owned(), at }
    }

    #[test]
    fn every_run_is_a_point_and_names_do_not_cover_each_other() {
        let dots = [dot("small", [10.0, 0.8]), dot("large", [30.0, 0.9]), dot("worse", [30.0, 0.85])];
        let svg = figure("Digits", &dots, 32.0).svg();
        assert_eq!(svg.matches("<circle").count(), 3);
        for said in ["small", "large", "worse", "budget", "beaten"] {
            assert!(svg.contains(&format!(">{said}<")), "{said} in {svg}");
        }
        // Two runs at one point cannot both have a name beside it on the same side.
        let same: Vec<Dot> = (0..9).map(|i| dot(&format!("run {i}"), [10.0, 0.5])).collect();
        let named = figure("Same", &same, 1e6).svg().matches(">run ").count();
        assert!((1..=4).contains(&named), "{named}");
        assert_eq!(stairs(&[[1.0, 0.5], [3.0, 0.9]]), [[1.0, 0.5], [3.0, 0.5], [3.0, 0.9]]);
        assert!(!figure("Nothing", &[], 1.0).svg().contains("NaN"));
    }
}
