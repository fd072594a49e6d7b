//! Short messages in the corner.

use super::*;

#[test]
fn a_click_on_a_message_takes_it_away_and_reaches_nothing_below() {
    let mut window = window(digits());
    window.state_mut().as_mut().expect("drawn").toasts.info("Something to know");
    window.state_mut().as_mut().expect("drawn").toasts.warning("Something to mind");
    window.run_steps(3);
    let [low, high] = ["Something to know", "Something to mind"].map(|text| window.get_by_label_contains(text).rect());
    let whole = window.ctx.content_rect();
    assert!(whole.contains_rect(low) && whole.contains_rect(high) && high.bottom() < low.top(), "{low:?}, {high:?}");
    assert!(low.bottom() > whole.bottom() - 40.0, "{low:?} in {whole:?}");
    let hit = |window: &Window, at: eframe::egui::Pos2| window.ctx.layer_id_at(at).map(|layer| layer.order);
    assert_eq!(hit(&window, low.center()), Some(eframe::egui::Order::Foreground));
    window.get_by_label_contains("Something to know").click();
    window.run_steps(3);
    assert!(window.query_by_label_contains("Something to know").is_none());
    assert!(window.query_by_label_contains("Something to mind").is_some());
}

#[test]
fn what_is_told_again_is_told_once_and_goes_by_itself() {
    let mut window = window(digits());
    for _ in 0..2 {
        window.state_mut().as_mut().expect("drawn").toasts.info("Hm");
    }
    window.run_steps(3);
    assert_eq!(window.query_all_by_label_contains("Hm").count(), 1);
    let start = Instant::now();
    while window.query_by_label_contains("Hm").is_some() {
        window.step();
        assert!(start.elapsed() < Duration::from_secs(30), "it stays");
    }
    assert!(start.elapsed() > Duration::from_secs(2), "it can be read");
}
