//! Whether a click takes an offer: another comes to its place at once, and a double click is meant for the first alone.

use eframe::egui::{Id, Pos2, Response};

/// Clicks at one place, nearer to each other than these seconds and points, are those of a double click.
const AGAIN: f64 = 0.7;
const STILL: f32 = 6.0;

/// Whether an offer is taken. Others come to its place then: a second click there, by a pointer that stays, is one of a double
/// click and not meant for them.
pub(super) fn is_taken(response: &Response) -> bool {
    let id = Id::unique("an offer that was taken");
    let (ctx, by_pointer) = (&response.ctx, response.interact_pointer_pos());
    if !response.clicked() {
        return false;
    }
    let now = ctx.input(|input| input.time);
    let before: Option<(f64, Pos2)> = ctx.data(|data| data.get_temp(id));
    let is_again = |at: Pos2| before.is_some_and(|(then, there)| now - then < AGAIN && at.distance(there) < STILL);
    // A click that takes nothing counts as well: a third one right after it is no more meant for what stands there now.
    if let Some(at) = by_pointer {
        ctx.data_mut(|data| data.insert_temp(id, (now, at)));
    }
    !by_pointer.is_some_and(is_again)
}

#[cfg(test)]
mod tests {
    use eframe::egui::{self, Ui, vec2};
    use egui_kittest::{Harness, kittest::Queryable as _};

    use super::*;

    #[test]
    fn a_double_click_takes_one_offer() {
        let mut taken = 0;
        let draw =
            |ui: &mut Ui, taken: &mut usize| *taken += usize::from(is_taken(&ui.button("an offer of some width")));
        let mut window = Harness::builder().with_step_dt(0.02).build_ui_state(draw, taken);
        let mut click = |window: &mut Harness<'_, usize>, along: f32| {
            let at = window.get_by_label("an offer of some width").rect().left_center() + vec2(along, 0.0);
            window.hover_at(at);
            for pressed in [true, false] {
                let (button, modifiers) = (egui::PointerButton::Primary, egui::Modifiers::NONE);
                window.event(egui::Event::PointerButton { pos: at, button, pressed, modifiers });
                window.step();
            }
            taken = *window.state();
            taken
        };
        assert_eq!([10.0, 10.0, 12.0].map(|along| click(&mut window, along)), [1, 1, 1]);
        for _ in 0..3 {
            window.run_steps((AGAIN / 0.02 * 0.6) as usize);
            assert_eq!(click(&mut window, 12.0), 1, "slow clicks that follow each other");
        }
        assert_eq!(click(&mut window, 40.0), 2, "the pointer has moved");
        window.run_steps((AGAIN / 0.02) as usize + 1);
        assert_eq!(click(&mut window, 40.0), 3, "it waited");
    }
}
