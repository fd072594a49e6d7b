//! The names at the points of memory against accuracy, as runs come one by one: each point has one, and none moves, until there
//! are too many.

use std::{collections::HashMap, sync::Arc};

use eframe::egui::{Pos2, Rect, Vec2};
use plimsoll_engine::train::{Event, StepRecord, Summary};

use egui_kittest::kittest::NodeT;

use super::{
    pictures::{PATIENCE, set_size},
    runs::show,
    *,
};
use crate::panels::tradeoff::labels::{CROWD, Seen, seen_id};

/// Points this near to each other are one place and share a name.
const ONE: f32 = 2.0 * theme::POINT_RADIUS;

/// The names that were drawn last.
pub(super) fn seen(window: &Window) -> Vec<Seen> {
    window.ctx.data(|data| data.get_temp(seen_id())).expect("drawn")
}

fn receive(window: &mut Window, event: &Event) {
    window.state_mut().as_mut().expect("drawn").state.session.receive(event);
    window.run_steps(2);
}

/// A step that measured a peak.
fn step(mib: f64) -> Event {
    let live = Bytes((mib * 1024.0 * 1024.0) as u64);
    Event::Step(StepRecord { live, reserved: live, process: live, ..crate::session::tests::step() })
}

fn tested(accuracy: f64) -> Event {
    Event::Evaluated { step: 1, at_secs: 1.0, loss: 1.0, accuracy, errors: None }
}

/// A run with its settings and point, which it reaches by way of a lower one.
fn add(window: &mut Window, run: u64, (mib, accuracy): (f64, f64), watch: &mut dyn FnMut(&Window)) {
    let mut experiment = digits();
    (experiment.batch.micro, experiment.run.seed) = (16 + run as usize * 16, run % 3);
    let plan = Plan::of(&experiment, &plimsoll_engine::hardware::Machine::nominal()).expect("a plan");
    receive(window, &Event::Started { run, plan: Arc::new(plan) });
    receive(window, &step(mib));
    for share in [0.97, 1.0] {
        receive(window, &tested(accuracy * share));
        watch(window);
    }
    receive(window, &Event::Ended { run, outcome: Outcome::Finished, summary: Box::<Summary>::default() });
    watch(window);
}

/// Runs as they come: most are near to others, some take more memory than all before.
fn points() -> Vec<(f64, f64)> {
    let point = |i: u32| {
        let [a, b] = [i.wrapping_mul(2_654_435_761) >> 8, i.wrapping_mul(40_503) % 997].map(f64::from);
        let (along, up) = (a / f64::from(1 << 24), b / 997.0);
        (4.0 + 6.0 * along + f64::from(i / 10) * 2.0, 0.9 + 0.06 * along + 0.02 * up)
    };
    (1..=30).map(point).collect()
}

/// The points that have no name.
fn without_name(window: &Window, count: usize) -> Vec<u64> {
    let named = seen(window);
    let runs = app(window).state.session.runs().iter().take(count).map(|run| run.key);
    runs.filter(|run| !named.iter().any(|seen| seen.runs.contains(run))).collect()
}

/// The number that a name is cut to, where it stands.
fn number(seen: &Seen) -> Rect {
    // No more than one.
    if seen.rect.width() < 36.0 {
        return seen.rect;
    }
    let toward = seen.rect.clamp(seen.at) - seen.at;
    Rect::from_min_max(seen.rect.clamp(seen.at) - Vec2::splat(1.0), seen.rect.clamp(seen.at) + Vec2::splat(1.0))
        .translate(toward.normalized() * 6.0)
        .expand2(Vec2::new(14.0, 8.0))
}

/// The points.
fn marks(window: &Window) -> Vec<Pos2> {
    let items =
        window.query_all_by_role(Role::ListItem).map(|node| (node.accesskit_node().label(), node.rect().center()));
    items.filter(|(name, _)| name.as_ref().is_some_and(|name| name.starts_with("Run "))).map(|(_, at)| at).collect()
}

/// Adds runs in a window of 1280 x 800 pixels. `joins` says whether there are more than have room for a number of their own.
fn added(scale: f32, joins: bool) {
    let mut window = window(digits());
    set_size(&mut window, [1280.0, 800.0], scale);
    show(&mut window, Pane::Tradeoff);
    let mut before: HashMap<u64, Seen> = HashMap::new();
    let mut moved = Vec::new();
    for (count, point) in (1..).zip(points()) {
        add(&mut window, count, point, &mut |window| {
            let names = seen(window);
            let marks = marks(window);
            let has_grown = |name: &&Seen| before.get(&name.run).is_some_and(|known| known.runs != name.runs);
            let grown: Vec<Rect> =
                names.iter().filter(has_grown).map(|name| name.rect.expand2(Vec2::new(6.0, 0.0))).collect();
            for name in names.iter().filter(|name| name.run != count) {
                let Some(known) = before.insert(name.run, name.clone()) else { continue };
                let shift = name.at - known.at;
                let stood = number(&known).translate(shift);
                let is_covered = marks
                    .iter()
                    .any(|at| at.distance(name.at) > ONE && stood.expand(theme::POINT_RADIUS).contains(*at));
                // The name of a run that another joins is longer, and may need the room of its neighbour.
                let is_covered = is_covered || grown.iter().any(|rect| rect.intersects(stood));
                // Where the axes grow, its point is another place; and the name of more runs is a longer one.
                let is_there = shift.length() < 0.5 && known.runs == name.runs;
                if known.side != name.side && is_there && !is_covered {
                    moved.push(format!("{count}: {known:?} to {name:?}"));
                }
            }
        });
        let nameless = without_name(&window, count as usize);
        assert!(nameless.is_empty(), "{scale}, {count} runs: {nameless:?} have no name");
        let joined = seen(&window).iter().map(|name| name.joined).sum::<usize>();
        assert!(joins || joined == 0, "{scale}, {count} runs: {joined} have no number of their own");
    }
    assert!(moved.is_empty(), "{scale}: {} moved:\n{}", moved.len(), moved.join("\n"));
}

#[test]
fn each_point_has_a_name_that_stays_at_its_side_as_runs_come() {
    added(1.0, false);
}

#[test]
fn each_point_has_a_name_that_stays_at_its_side_as_runs_come_in_a_window_at_150_percent() {
    added(1.5, true);
}

#[test]
fn each_point_has_a_name_that_stays_at_its_side_as_runs_come_in_a_window_at_200_percent() {
    added(2.0, false);
}

#[test]
fn in_a_crowd_only_points_that_nothing_beats_have_names() {
    let mut window = window(digits());
    set_size(&mut window, [1280.0, 800.0], 1.0);
    show(&mut window, Pane::Tradeoff);
    // Five of them on a frontier, with the first, next to which there is no room, and the others far below it.
    let point = |run: u64| match run % 10 {
        0 => (run as f64, 0.9 + run as f64 / 1000.0),
        other => (run as f64, 0.2 - other as f64 / 100.0),
    };
    let mut all_named = 0;
    for run in 1..=50 {
        add(&mut window, run, point(run), &mut |_| {});
        all_named += usize::from(without_name(&window, run as usize).is_empty());
    }
    let mut named: Vec<u64> = seen(&window).into_iter().flat_map(|name| name.runs).collect();
    named.sort_unstable();
    assert_eq!((all_named, named), (CROWD, vec![10, 20, 30, 40, 50]));
    // The legend tells what the numbers are, and which points have some.
    let at = window.get_by_label("numbers: runs").rect().center();
    window.hover_at(at);
    window.run_steps(PATIENCE);
    let tip = window.get_by_label_contains("only those that nothing beats are numbered");
    let told = tip.accesskit_node().value().expect("words");
    assert!(told.contains("Run 20: micro-batch 336") && !told.contains("Run 21:"), "{told}");
}
