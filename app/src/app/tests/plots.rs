//! A view of a plot that was chosen for one run hides nothing of the next.

use super::{runs::train, *};

/// How much of its horizontal axis the plot that has the focus shows.
fn width(window: &Window) -> f64 {
    let plot = window.ctx.memory(|memory| memory.focused()).expect("a plot has the focus");
    window.ctx.data(|data| data.get_temp(crate::widgets::plot_keys::width_id(plot))).expect("it is a plot")
}

fn focus(window: &mut Window, name: &str) {
    window.get_by_label_contains(name).focus();
    window.run_steps(3);
}

#[test]
fn curves_of_another_run_are_seen_whole_after_a_closer_look_at_those_of_one() {
    let mut window = window(digits());
    train(&mut window);
    focus(&mut window, "Loss plot");
    let whole = width(&window);
    for _ in 0..3 {
        window.event(egui::Event::Text("+".to_owned()));
        window.run_steps(2);
    }
    let close = width(&window);
    assert!(close < whole / 2.0, "{close} of {whole}");
    window.run_steps(5);
    assert_eq!(width(&window), close, "as long as it is the same run");
    let mut longer = digits();
    longer.run.steps = Some(24);
    window.state_mut().as_mut().expect("drawn").sender.send(crate::command::Action::Adopt(Box::new(longer)));
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.total_steps == 24));
    train(&mut window);
    window.run_steps(3);
    focus(&mut window, "Loss plot");
    assert!(width(&window) > whole * 1.5, "{} after {whole}", width(&window));
}
