//! The point, the smaller model or the mean that the pointer or the keys are at.

use eframe::egui::{Pos2, Response, Ui};
use egui_plot::{PlotPoint, PlotTransform};

use super::{Dot, PanelContext, REACH, about, at_point, labels::Named, seeds, smaller, together};
use crate::{
    command::Action,
    session::RunKey,
    widgets::tip::{self, Speaks},
};

/// Where the point of the run that is shown lies: the keys lead from point to point.
fn shown_at(dots: &[Dot<'_>], shown: Option<RunKey>, transform: &PlotTransform) -> Option<Pos2> {
    let dot = dots.iter().find(|dot| Some(dot.run.key) == shown)?;
    Some(transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1])))
}

/// The point under the pointer, or whose name is, or the one that the keys are at: its words, and the effect of a click on
/// it, where the picture takes one.
pub(super) fn ui(
    ui: &Ui,
    context: &PanelContext<'_>,
    (response, takes_clicks): (&Response, bool),
    (dots, named): (&[Dot<'_>], &[Named]),
    (smaller, shown): (&[smaller::Smaller<'_>], Option<RunKey>),
    transform: &PlotTransform,
) {
    let at_focus = tip::is_at_focus(response).then(|| shown_at(dots, shown, transform));
    let speaks = |at| if at_focus.is_some() { Speaks::Beside } else { Speaks::At(at) };
    let Some(at) = at_focus.unwrap_or(response.hover_pos()) else { return };
    let is_silent = at_point::is_open(ui.ctx());
    let tip = |name| (!is_silent).then(|| about::tip(response, speaks(at), name));
    let near = nearest(dots, transform, at).map(|dot| (dot, at_place_of(dots, dot, transform)));
    // A name that is cut is whole there as well.
    let by_name = || {
        let name = named.iter().find(|name| name.rect.contains(at))?;
        let here: Vec<&Dot<'_>> = name.dots.iter().map(|dot| &dots[*dot]).collect();
        Some((*here.first()?, here))
    };
    if let Some((dot, here)) = near.or_else(by_name) {
        let is_here =
            |named: &&Named| named.dots.iter().any(|named| here.iter().any(|dot| dot.run.key == dots[*named].run.key));
        if let Some(tip) = tip(named.iter().find(is_here).map(|name| name.rect)) {
            tip::show(tip, |ui| about::runs(ui, &here.iter().map(|dot| dot.run).collect::<Vec<_>>(), shown));
        }
        let keys: Vec<RunKey> = here.iter().map(|dot| dot.run.key).collect();
        if response.clicked() {
            // The arrows go on from here.
            response.request_focus();
        }
        if response.clicked()
            && takes_clicks
            && let Some(next) = together::next(&keys, shown)
        {
            context.send.send(Action::ShowRun(next));
        }
        if response.secondary_clicked() {
            let meant = shown.filter(|shown| keys.contains(shown)).unwrap_or(dot.run.key);
            context.send.send(Action::ShowRun(meant));
            at_point::open(ui.ctx(), meant);
        }
    } else if let Some(smaller) = smaller_near(smaller, transform, at)
        && let Some(tip) = tip(None)
    {
        tip::show(tip, |ui| smaller.about(ui));
    } else if let Some(seeds) = mean_near(dots, transform, at)
        && let Some(tip) = tip(None)
    {
        tip::show(tip, |ui| {
            ui.strong(seeds.words());
            ui.label(seeds::MEANING);
        });
    }
}

/// The smaller model that the pointer means, if it is near one.
fn smaller_near<'a>(
    smaller: &'a [smaller::Smaller<'a>],
    transform: &PlotTransform,
    at: Pos2,
) -> Option<&'a smaller::Smaller<'a>> {
    let distance = |[x, y]: [f64; 2]| transform.position_from_point(&PlotPoint::new(x, y)).distance(at);
    let near = smaller.iter().min_by(|a, b| distance(a.at).total_cmp(&distance(b.at)))?;
    (distance(near.at) <= REACH).then_some(near)
}

/// The mean of seeds that the pointer means, if it is near one.
fn mean_near(dots: &[Dot<'_>], transform: &PlotTransform, at: Pos2) -> Option<seeds::Seeds> {
    let distance = |[x, y]: [f64; 2]| transform.position_from_point(&PlotPoint::new(x, y)).distance(at);
    seeds::groups(dots).into_iter().find(|seeds| distance(seeds.mean) <= REACH)
}

/// The points at the place of one: it alone, or with others that lie on it.
fn at_place_of<'a>(dots: &'a [Dot<'a>], dot: &Dot<'_>, transform: &PlotTransform) -> Vec<&'a Dot<'a>> {
    let at = |dot: usize| {
        let [x, y] = dots[dot].at;
        Some(transform.position_from_point(&PlotPoint::new(x, y)))
    };
    let places = together::by_place(dots, at);
    let here = places.into_iter().find(|place| place.iter().any(|other| dots[*other].run.key == dot.run.key));
    match here {
        Some(here) => here.into_iter().map(|dot| &dots[dot]).collect(),
        // Those that are not in focus are each for itself.
        None => dots.iter().filter(|other| other.run.key == dot.run.key).collect(),
    }
}

/// The point that the pointer means, if it is near one.
fn nearest<'a>(dots: &'a [Dot<'a>], transform: &PlotTransform, at: Pos2) -> Option<&'a Dot<'a>> {
    let distance = |dot: &Dot<'_>| transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1])).distance(at);
    let near = dots.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(near) <= REACH).then_some(near)
}
