//! The words of the timeline: none lies over another or over the line of the budget, wherever peak and budget are.

use super::{
    pictures::{SCALES, SIZES},
    *,
};
use crate::panels::timeline::{Seen, seen_id};

/// Words that lie over each other in the picture that was drawn last, and how many words there are.
fn overlaps(window: &Window) -> (usize, Vec<String>) {
    let (lines, places): Seen = window.ctx.data(|data| data.get_temp(seen_id())).expect("drawn");
    let over_lines = places.iter().flat_map(|place| {
        let struck = lines.iter().filter(|line| place.y_range().contains(**line));
        struck.map(move |line| format!("{place:?} over the line at {line}"))
    });
    let pairs = places.iter().enumerate().flat_map(|(i, place)| places[..i].iter().map(move |other| (place, other)));
    let over_words = pairs.filter(|(a, b)| a.intersects(**b)).map(|(a, b)| format!("{a:?} over {b:?}"));
    (places.len(), over_lines.chain(over_words).collect())
}

#[test]
fn no_words_lie_over_others_or_over_the_budgets_line() {
    let peak = Plan::of(&digits(), &plimsoll_engine::hardware::Machine::nominal()).expect("a plan").load().0;
    // From a budget that cuts the picture to one past the break of its axis.
    for share in [0.4, 0.9, 0.98, 1.0, 1.01, 1.03, 1.06, 1.2, 1.5, 40.0] {
        let budget = Bytes((peak as f64 * share) as u64);
        let mut window = window(Experiment { budget, ..digits() });
        show(&mut window, Pane::Step);
        for (size, scale) in SIZES.into_iter().flat_map(|size| SCALES.map(|scale| (size, scale))) {
            let pixels = vec2(size[0], size[1]);
            let scale = crate::zoom::allowed(pixels, scale);
            window.set_size(pixels / scale).set_pixels_per_point(scale);
            window.run_steps(3);
            let (count, overlaps) = overlaps(&window);
            assert!(count > 0 && overlaps.is_empty(), "budget {share} of the peak, {size:?} at {scale}: {overlaps:?}");
        }
    }
}

fn show(window: &mut Window, pane: Pane) {
    window.state_mut().as_mut().expect("drawn").layout.set_shown(pane, true);
    window.run_steps(3);
}

#[test]
fn a_picture_without_a_line_for_signs_names_its_measured_line_within() {
    let mut window = window(digits());
    show(&mut window, Pane::Step);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    // As at 150% in 1280 x 800.
    for size in [vec2(1280.0, 800.0), vec2(853.0, 533.0)] {
        window.set_size(size);
        window.run_steps(5);
        let plot = window.get_by_label_contains("Predicted memory of one step").rect();
        let signs = window.get_all_by_label("measured").map(|sign| sign.rect());
        let within = signs.filter(|sign| plot.contains_rect(*sign)).count();
        assert_eq!(within, usize::from(size.x < 1000.0), "{size:?}: {plot:?}");
    }
}
