//! Every pane in both themes, three sizes and three scales, judged by its layout: no text covers another or leaves its
//! place, what is cut shows the whole of itself on hover, and text stands out from what lies below it.

use std::collections::BTreeSet;

use eframe::egui::{Color32, Pos2, Rect, Shape, Vec2, epaint::ClippedShape, epaint::TextShape, pos2};

use super::*;

/// Sizes of the window, in pixels.
pub(super) const SIZES: [[f32; 2]; 3] = [[960.0, 600.0], [1280.0, 800.0], [1920.0, 1080.0]];
pub(super) const SCALES: [f32; 3] = [1.0, 1.5, 2.0];
/// Panes in front at once, next to the experiment: together they are all.
pub(super) const FRONTS: [&[Pane]; 4] = [
    &[Pane::Step, Pane::Live, Pane::Tradeoff, Pane::Layers],
    &[Pane::Gradients, Pane::Devices, Pane::Alive],
    &[Pane::Log, Pane::TryOut],
    &[Pane::Compare, Pane::Runs],
];
/// A window of this height, in points, has room for several panes.
const ROOMY: f32 = 600.0;
/// The least contrast of text (WCAG 2, level AA).
const CONTRAST: f64 = 4.5;
/// Points by which the boxes of two texts may touch.
const TOUCH: f32 = 1.5;
/// Frames after which a tooltip is there.
pub(super) const PATIENCE: usize = 45;

/// One shape with what it may be seen through.
pub(super) struct Piece {
    clip: Rect,
    pub(super) shape: Shape,
}

impl Piece {
    /// A text that can be seen, with its box and the part of that which is seen.
    fn text(&self) -> Option<(&TextShape, Rect, Rect)> {
        let Shape::Text(text) = &self.shape else { return None };
        let whole = text.visual_bounding_rect();
        let seen = whole.intersect(self.clip);
        let is_seen = seen.width() > 1.0 && seen.height() > 1.0 && !text.galley.text().trim().is_empty();
        is_seen.then_some((text, whole, seen))
    }

    /// The colour that it paints at a point, if it does.
    fn paint(&self, at: Pos2) -> Option<Color32> {
        if !self.clip.contains(at) || !self.shape.visual_bounding_rect().contains(at) {
            return None;
        }
        match &self.shape {
            Shape::Rect(rect) => Some(rect.fill),
            Shape::Circle(circle) => (circle.center.distance(at) <= circle.radius).then_some(circle.fill),
            Shape::Path(path) if path.closed && is_inside(&path.points, at) => Some(path.fill),
            Shape::Mesh(mesh) => {
                let corner = |index: u32| mesh.vertices[index as usize];
                let hit = mesh
                    .indices
                    .chunks_exact(3)
                    .rev()
                    .find(|triangle| is_inside(&[0, 1, 2].map(|corner_of| corner(triangle[corner_of]).pos), at));
                hit.map(|triangle| corner(triangle[0]).color)
            }
            _ => None,
        }
    }
}

fn is_inside(polygon: &[Pos2], at: Pos2) -> bool {
    let edges = polygon.iter().zip(polygon.iter().cycle().skip(1));
    edges.filter(|(a, b)| (a.y > at.y) != (b.y > at.y) && at.x < (b.x - a.x) * (at.y - a.y) / (b.y - a.y) + a.x).count()
        % 2
        == 1
}

fn flatten(shape: &Shape, clip: Rect, pieces: &mut Vec<Piece>) {
    match shape {
        Shape::Vec(shapes) => shapes.iter().for_each(|shape| flatten(shape, clip, pieces)),
        Shape::Noop => {}
        shape => pieces.push(Piece { clip, shape: shape.clone() }),
    }
}

pub(super) fn pieces(window: &Window) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for ClippedShape { clip_rect, shape, .. } in &window.output().shapes {
        flatten(shape, *clip_rect, &mut pieces);
    }
    pieces
}

/// The texts that are drawn at a point, whole.
pub(super) fn texts_at(window: &Window, at: Pos2) -> Vec<String> {
    let pieces = pieces(window);
    let texts =
        pieces.iter().filter_map(Piece::text).filter(|(text, _, seen)| !text.galley.elided && seen.contains(at));
    texts.map(|(text, ..)| words(text).to_owned()).collect()
}

/// The colour that lies at a point below the piece `top`.
fn ground(pieces: &[Piece], top: usize, at: Pos2) -> Color32 {
    pieces[..top].iter().filter_map(|piece| piece.paint(at)).fold(Color32::BLACK, |below, color| below.blend(color))
}

/// Whether something opaque was painted over a place, between two pieces.
fn is_covered(pieces: &[Piece], from: usize, to: usize, at: Pos2) -> bool {
    pieces[from + 1..to].iter().any(|piece| piece.paint(at).is_some_and(|color| color.a() >= 190))
}

fn ink(text: &TextShape) -> Color32 {
    let own = text.galley.job.sections.first().map_or(text.fallback_color, |section| section.format.color);
    let own = text.override_text_color.unwrap_or(own);
    let own = if own == Color32::PLACEHOLDER { text.fallback_color } else { own };
    own.gamma_multiply(text.opacity_factor)
}

fn words(text: &TextShape) -> &str {
    text.galley.text()
}

/// Collects the faults of a picture.
pub(super) fn judge(pieces: &[Piece], screen: Rect, faults: &mut BTreeSet<String>) {
    let texts: Vec<_> = pieces.iter().enumerate().filter_map(|(i, piece)| Some((i, piece.text()?))).collect();
    for (n, (i, (text, whole, seen))) in texts.iter().enumerate() {
        let is_cut =
            seen.width() + TOUCH < whole.width() || seen.right() > screen.right() || seen.left() < screen.left();
        if is_cut && !is_covered(pieces, *i, pieces.len(), seen.center()) {
            faults.insert(format!("cut at its side: {:?}", words(text)));
        }
        for (j, (other, _, place)) in &texts[n + 1..] {
            let both = seen.intersect(*place);
            if both.width() > TOUCH && both.height() > TOUCH && !is_covered(pieces, *i, *j, both.center()) {
                faults.insert(format!("{:?} is over {:?}", words(other), words(text)));
            }
        }
        let covered = [0.1, 0.5, 0.9].map(|share| {
            is_covered(pieces, *i, pieces.len(), pos2(seen.left() + seen.width() * share, seen.center().y))
        });
        if covered.contains(&true) && covered.contains(&false) {
            faults.insert(format!("partly covered: {:?}", words(text)));
        }
        for share in [0.1, 0.5, 0.9] {
            let at = pos2(seen.left() + seen.width() * share, seen.center().y);
            if is_covered(pieces, *i, pieces.len(), at) {
                continue;
            }
            let below = ground(pieces, *i, at);
            let contrast = theme::contrast(below.blend(ink(text)), below);
            if contrast < CONTRAST {
                faults.insert(format!("contrast {contrast:.1} of {:?}, {:?} on {below:?}", words(text), ink(text)));
            }
        }
    }
}

/// Texts that are cut, at their end or in their middle, with where they are.
pub(super) fn shortened(pieces: &[Piece]) -> Vec<(String, Pos2)> {
    let texts = pieces.iter().enumerate().filter_map(|(i, piece)| Some((i, piece.text()?)));
    let cut = texts.filter(|(_, (text, ..))| {
        let middle = words(text).split_once('…').is_some_and(|(_, tail)| !tail.is_empty());
        text.galley.elided || middle
    });
    let open = cut.filter(|(i, (_, _, seen))| !is_covered(pieces, *i, pieces.len(), seen.center()));
    open.map(|(_, (text, _, seen))| (words(text).to_owned(), seen.center())).collect()
}

/// Whether a text on screen is the whole of one that is cut.
fn is_whole(piece: &Piece, cut: &str) -> bool {
    let Some((text, ..)) = piece.text() else { return false };
    let head = cut.split('…').next().unwrap_or(cut);
    !text.galley.elided
        && !words(text).contains(&format!("{head}…"))
        && cut.split('…').all(|part| words(text).contains(part.trim()))
}

/// Every text that is cut shows the whole of itself to one who points at it.
pub(super) fn point_at_what_is_cut(window: &mut Window, known: &mut BTreeSet<String>, faults: &mut BTreeSet<String>) {
    for (cut, at) in shortened(&pieces(window)) {
        if !known.insert(cut.clone()) {
            continue;
        }
        window.hover_at(at);
        window.run_steps(PATIENCE);
        if !pieces(window).iter().any(|piece| is_whole(piece, &cut)) {
            faults.insert(format!("cut, and not told on hover: {cut:?}"));
        }
        window.remove_cursor();
        window.run_steps(2);
    }
}

/// Every pane, size, scale and theme of a window as it is.
fn every_picture(window: &mut Window, state: &str, all: &mut BTreeSet<String>) {
    let mut known = BTreeSet::new();
    for (size, scale) in SIZES.into_iter().flat_map(|size| SCALES.map(|scale| (size, scale))) {
        both_themes(window, (state, size, scale), &FRONTS, &mut known, all);
    }
}

/// Gives a window its size in pixels and its scale, as far as it may be zoomed; that scale, and the size in points.
pub(super) fn set_size(window: &mut Window, size: [f32; 2], scale: f32) -> (f32, Vec2) {
    let pixels = vec2(size[0], size[1]);
    let scale = crate::zoom::allowed(pixels, scale);
    // The scale first: a new one changes the size with it.
    window.set_pixels_per_point(scale);
    window.run_steps(2);
    window.set_size(pixels / scale);
    (scale, pixels / scale)
}

pub(super) fn set_theme(window: &mut Window, dark: bool) {
    let theme = if dark { egui::ThemePreference::Dark } else { egui::ThemePreference::Light };
    window.state_mut().as_mut().expect("drawn").view.theme = theme;
}

/// A window as it is in a size and a scale, with each of `fronts` once in front, in both themes.
pub(super) fn both_themes(
    window: &mut Window,
    (state, size, scale): (&str, [f32; 2], f32),
    fronts: &[&[Pane]],
    known: &mut BTreeSet<String>,
    all: &mut BTreeSet<String>,
) {
    let (scale, points) = set_size(window, size, scale);
    for dark in [true, false] {
        set_theme(window, dark);
        // If there is no room for all, each is in front once by itself.
        let fronts = fronts.iter().copied().chain(Pane::ALL.chunks(1).filter(|_| points.y < ROOMY));
        for front in fronts {
            let layout = &mut window.state_mut().as_mut().expect("drawn").layout;
            front.iter().for_each(|pane| layout.set_shown(*pane, true));
            window.run_steps(4);
            let mut faults = BTreeSet::new();
            judge(&pieces(window), Rect::from_min_size(Pos2::ZERO, points), &mut faults);
            point_at_what_is_cut(window, known, &mut faults);
            let place =
                format!("{state}, {} x {} at {scale}, {}", size[0], size[1], if dark { "dark" } else { "light" });
            all.extend(faults.into_iter().map(|fault| format!("{place}: {fault}")));
        }
    }
}

pub(super) fn assert_none(faults: &BTreeSet<String>) {
    let listed: Vec<&str> = faults.iter().map(String::as_str).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), listed.join("\n"));
}

#[test]
fn a_plan_can_be_read_in_every_pane_size_scale_and_theme() {
    let mut window = window(digits());
    settle(&mut window);
    let mut faults = BTreeSet::new();
    every_picture(&mut window, "planned", &mut faults);
    assert_none(&faults);
}

#[test]
fn runs_and_a_comparison_can_be_read_in_every_pane_size_scale_and_theme() {
    let mut window =
        window(Experiment { title: "A title that is longer than there is room for".to_owned(), ..digits() });
    for count in 1..=2 {
        window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        until(&mut window, |app| app.state.session.runs().iter().filter(|run| run.summary.is_some()).count() == count);
        if count == 2 {
            window.key_press_modifiers(Modifiers::COMMAND, Key::P);
            window.run_steps(2);
        }
        window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
        until(&mut window, |app| app.state.plan().is_some());
    }
    settle(&mut window);
    assert!(app(&window).state.pin.is_some());
    let mut faults = BTreeSet::new();
    every_picture(&mut window, "after two runs", &mut faults);
    assert_none(&faults);
}

#[test]
fn what_does_not_fit_can_be_read_in_every_pane_size_scale_and_theme() {
    let mut experiment = presets::shipped().into_iter().find(|s| s.name == "vit-digits").expect("shipped").experiment;
    experiment.budget = Bytes::mib(3);
    let mut window = window(experiment);
    settle(&mut window);
    let mut faults = BTreeSet::new();
    every_picture(&mut window, "over the budget", &mut faults);
    assert_none(&faults);
}

#[test]
fn a_plan_for_a_card_can_be_read_in_every_pane_size_scale_and_theme() {
    let named = |name: &str| presets::shipped().into_iter().find(|s| s.name == name).expect("shipped").experiment;
    let mut window = window(named("gpt2-rtx4060-plan"));
    settle(&mut window);
    until(&mut window, |app| app.state.devices.is_some());
    let plan = app(&window).state.plan().expect("a plan");
    assert!(plan.target.profile().is_some_and(|card| card.slug == "rtx4060-8g"));
    let mut faults = BTreeSet::new();
    every_picture(&mut window, "for a card", &mut faults);
    assert_none(&faults);
}

#[test]
fn an_experiment_that_cannot_be_can_be_read_in_every_pane_size_scale_and_theme() {
    let mut experiment = digits();
    experiment.data.kind = DataKind::Idx;
    let mut window = window(experiment);
    assert!(!app(&window).state.prediction.problems().is_empty());
    let mut faults = BTreeSet::new();
    every_picture(&mut window, "not valid", &mut faults);
    assert_none(&faults);
}
