//! The points by keys and for a screen reader: the picture is one stop of the Tab key, the arrows go from point to point,
//! and each point has a name.
//!
//! Always holds: a key has the effect of the pointer at a point. Looking changes nothing of the experiment; Enter loads the
//! settings of the run, and the menu key opens its menu.

use eframe::egui::{
    EventFilter, InputState, Key, Modifiers, Pos2, Rect, Response, Role, Sense, Ui, Vec2, WidgetInfo, accesskit,
};
use egui_plot::{PlotPoint, PlotTransform};

use super::{Dot, PanelContext, REACH, at_point, view};
use crate::{
    command::Action,
    format,
    session::{RunKey, RunRecord},
};

/// The name of a point: `Run 4: micro-batch 32, 1.23 MiB, 96.1%`.
pub(super) fn name(run: &RunRecord) -> String {
    let best = run.best_accuracy.map_or_else(|| "–".to_owned(), |best| format::score(&run.experiment().data, best));
    format!("{}, {}, {best}", run.name(), run.peak_load)
}

/// Takes the keys where the picture has the focus, and names it and its points.
pub(super) fn ui(
    ui: &Ui,
    context: &PanelContext<'_>,
    plot: &Response,
    dots: &[Dot<'_>],
    shown: Option<RunKey>,
    transform: &PlotTransform,
) {
    let place = |dot: &Dot<'_>| transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1]));
    let present = dots.iter().find(|dot| Some(dot.run.key) == shown);
    let about = format!("Memory against accuracy: {}", format::counted(dots.len() as u64, "run"));
    let about = match present.filter(|_| plot.has_focus()) {
        Some(dot) => format!("{about}, at {}", name(dot.run)),
        None => about,
    };
    plot.widget_info(|| WidgetInfo::labeled(Role::Figure, true, &about));
    for dot in dots.iter().filter(|dot| transform.frame().contains(place(dot))) {
        spoken(ui, context, plot, dot, place(dot));
    }
    if !plot.has_focus() {
        return;
    }
    if plot.gained_focus() {
        // Only in the frame after it are the arrows kept from leading the focus away.
        ui.ctx().request_repaint();
    }
    let filter = EventFilter { horizontal_arrows: true, vertical_arrows: true, ..EventFilter::default() };
    ui.memory_mut(|memory| memory.set_focus_lock_filter(plot.id, filter));
    if let Some(to) = asked(ui, dots, shown) {
        view::lead(ui, to);
        context.send.send(Action::ShowRun(to));
    }
    let Some(dot) = present else { return };
    if ui.input(|input| input.key_pressed(Key::Enter)) && context.state.document.experiment != *dot.run.experiment() {
        context.send.send(Action::Adopt(Box::new(dot.run.experiment().clone())));
    }
    let is_menu_asked = |input: &mut InputState| {
        input.consume_key(Modifiers::SHIFT, Key::F10) || input.consume_key(Modifiers::NONE, Key::Menu)
    };
    if ui.input_mut(is_menu_asked) {
        at_point::open_by_key(ui.ctx(), dot.run.key, place(dot), plot.id);
    }
}

/// The point that an arrow goes to: sideways along the memory, up and down along the accuracy.
fn asked(ui: &Ui, dots: &[Dot<'_>], shown: Option<RunKey>) -> Option<RunKey> {
    for (axis, back, on) in [(0, Key::ArrowLeft, Key::ArrowRight), (1, Key::ArrowDown, Key::ArrowUp)] {
        for (key, step) in [(back, -1), (on, 1)] {
            if ui.input_mut(|input| input.consume_key(Modifiers::NONE, key)) {
                return beside(dots, shown, axis, step);
            }
        }
    }
    let ends = [(Key::Home, true), (Key::End, false)];
    let (_, is_first) =
        ends.into_iter().find(|(key, _)| ui.input_mut(|input| input.consume_key(Modifiers::NONE, *key)))?;
    let order = in_order(dots, 0);
    if is_first { order.first().copied() } else { order.last().copied() }
}

/// The runs in focus, along an axis; of equal ones the older first.
fn in_order(dots: &[Dot<'_>], axis: usize) -> Vec<RunKey> {
    let mut order: Vec<&Dot<'_>> = dots.iter().filter(|dot| dot.in_focus).collect();
    order.sort_by(|a, b| a.at[axis].total_cmp(&b.at[axis]).then(a.run.key.cmp(&b.run.key)));
    order.into_iter().map(|dot| dot.run.key).collect()
}

/// The run a step farther along an axis; the first where the one that is shown has no point. None past the ends.
fn beside(dots: &[Dot<'_>], shown: Option<RunKey>, axis: usize, step: isize) -> Option<RunKey> {
    let order = in_order(dots, axis);
    let at = order.iter().position(|key| Some(*key) == shown);
    at.map_or(order.first().copied(), |at| order.get(at.checked_add_signed(step)?).copied())
}

/// A point for a screen reader: it has a name, and can be pressed.
fn spoken(ui: &Ui, context: &PanelContext<'_>, plot: &Response, dot: &Dot<'_>, at: Pos2) {
    let id = plot.id.with(("point", dot.run.key));
    let around = Rect::from_center_size(at, Vec2::splat(REACH));
    let response = ui.interact(around, id, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ListItem, true, name(dot.run)));
    ui.ctx().accesskit_node_builder(id, |node| node.add_action(accesskit::Action::Click));
    if ui.input(|input| input.has_accesskit_action_request(id, accesskit::Action::Click)) {
        context.send.send(Action::ShowRun(dot.run.key));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, hardware::Machine, plan::Plan, train::Event};

    use super::*;
    use crate::session::Session;

    #[test]
    fn arrows_go_along_the_axes_and_stop_at_the_ends() {
        let mut session = Session::default();
        let plan = Arc::new(Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan"));
        (1..=4).for_each(|run| session.receive(&Event::Started { run, plan: Arc::clone(&plan) }));
        let runs = session.runs();
        let places = [([3.0, 0.5], true), ([1.0, 0.9], true), ([2.0, 0.7], false), ([2.0, 0.2], true)];
        let dot = |(run, (at, in_focus))| Dot { run, at, is_best: false, is_cut_off: false, in_focus };
        let dots: Vec<Dot<'_>> = runs.iter().zip(places).map(dot).collect();
        let key = |index: usize| runs[index].key;
        assert_eq!(in_order(&dots, 0), [key(1), key(3), key(0)], "those of other tasks are left out");
        assert_eq!(in_order(&dots, 1), [key(3), key(0), key(1)]);
        assert_eq!(beside(&dots, Some(key(3)), 0, 1), Some(key(0)));
        assert_eq!(beside(&dots, Some(key(3)), 0, -1), Some(key(1)));
        assert_eq!(beside(&dots, Some(key(0)), 0, 1), None);
        assert_eq!(beside(&dots, Some(key(0)), 1, 1), Some(key(1)));
        assert_eq!(beside(&dots, Some(99), 0, 1), Some(key(1)), "one without a point begins at the first");
    }
}
