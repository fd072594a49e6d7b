//! Every colour and distance on screen, dark and light, and the fonts.
//!
//! Owns the palette: a colour per [`Category`] and per curve. Nothing else names a colour. Distances are in points.

mod distances;
mod field;
mod mask;
pub(crate) mod print;

use std::sync::Arc;

use eframe::egui::{
    self, Color32, CornerRadius, FontData, FontDefinitions, FontFamily, FontId, Margin, Shadow, Stroke, TextStyle,
    Theme, Visuals, vec2,
};
use plimsoll_engine::memory::{Category, Phase};

pub(crate) use self::{distances::*, field::bordered, mask::mask};

/// The colours of one theme.
#[derive(Debug)]
pub(crate) struct Palette {
    categories: [Color32; Category::ALL.len()],
    /// Fits, finished well.
    pub(crate) good: Color32,
    /// Does not fit, failed.
    pub(crate) bad: Color32,
    /// Worth the eye.
    pub(crate) warn: Color32,
    /// The budget's line.
    pub(crate) budget: Color32,
    /// Over the part of the bar that is past the budget.
    pub(crate) past: Color32,
    /// Measured bytes.
    pub(crate) measured: Color32,
    /// Bytes that the allocator holds.
    pub(crate) reserved: Color32,
    /// Bytes that the process holds.
    pub(crate) process: Color32,
    /// The outline of the plan that a timeline is compared with.
    pub(crate) outline: Color32,
    /// Predicted bytes, as a curve.
    pub(crate) predicted: Color32,
    /// Training data.
    pub(crate) train: Color32,
    /// Test data.
    pub(crate) test: Color32,
    /// Samples per second.
    pub(crate) throughput: Color32,
    /// The frontier of the best runs.
    pub(crate) frontier: Color32,
    /// Runs and plans side by side, in their order.
    pub(crate) compared: [Color32; 6],
    /// The one button that matters.
    pub(crate) accent: Color32,
    /// Around the control that has the keyboard's focus.
    pub(crate) focus: Color32,
    /// Text on the accent.
    pub(crate) on_accent: Color32,
    /// The empty part of the bar.
    pub(crate) trough: Color32,
    /// Between the panes.
    pub(crate) ground: Color32,
    /// A pane.
    pub(crate) pane: Color32,
    /// A pane's tab bar.
    pub(crate) tabs: Color32,
    /// Every other row of a table.
    stripe: Color32,
    /// Lines between things.
    pub(crate) rule: Color32,
    /// A field that takes text.
    field: Color32,
    /// The border around a pane.
    border: Color32,
    /// Widgets at rest, under the pointer, pressed.
    widget: [Color32; 3],
    /// Text, strong text and weak text.
    text: [Color32; 3],
    /// Selected text, selected buttons.
    selection: Color32,
    /// Alternate bands of phases.
    phases: [Color32; 4],
}

/// The font of everything that is read.
pub(crate) const ROBOTO: &[u8] = include_bytes!("../../assets/fonts/Roboto-Regular.ttf");
/// The same font, heavier.
pub(crate) const ROBOTO_MEDIUM: &[u8] = include_bytes!("../../assets/fonts/Roboto-Medium.ttf");
/// The font of the signs that it lacks.
pub(crate) const DEJAVU: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans.ttf");

const fn rgb(hex: u32) -> Color32 {
    Color32::from_rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

const DARK_TEXT: Color32 = rgb(0x0d1014);
const LIGHT_TEXT: Color32 = rgb(0xffffff);

/// Relative luminance (WCAG 2).
fn luminance(color: Color32) -> f64 {
    let channel = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(color.r()) + 0.7152 * channel(color.g()) + 0.0722 * channel(color.b())
}

/// How far two colours stand apart, 1 to 21 (WCAG 2).
pub(crate) fn contrast(a: Color32, b: Color32) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

const DARK: Palette = Palette {
    categories: [
        rgb(0x8b95a3), // context
        rgb(0x4f8ff0), // parameters
        rgb(0x87b4ff), // master weights
        rgb(0xa77bf0), // optimizer state
        rgb(0x3cb8ac), // buffers
        rgb(0xe3c352), // batch
        rgb(0xef8b42), // gradients
        rgb(0x55b56a), // activations
        rgb(0xe172a8), // scratch
        rgb(0x525a66), // slack
    ],
    good: rgb(0x5cc979),
    bad: rgb(0xff6b5e),
    warn: rgb(0xf0b23e),
    budget: rgb(0xff6b5e),
    past: Color32::from_rgba_premultiplied(0x10, 0x04, 0x04, 0x90),
    measured: rgb(0xf4f6f8),
    reserved: rgb(0x87b4ff),
    process: rgb(0x8b95a3),
    outline: rgb(0xffd166),
    predicted: rgb(0x55b56a),
    train: rgb(0x5a9bff),
    test: rgb(0xf0a04b),
    throughput: rgb(0x3cb8ac),
    frontier: rgb(0x5cc979),
    compared: [rgb(0x5a9bff), rgb(0xf0a04b), rgb(0x5cc979), rgb(0xe172a8), rgb(0xe3c352), rgb(0x3cc8c0)],
    accent: rgb(0x2f74d8),
    focus: rgb(0xffd166),
    on_accent: rgb(0xffffff),
    trough: rgb(0x262b33),
    ground: rgb(0x0f1216),
    pane: rgb(0x181c22),
    tabs: rgb(0x12151a),
    stripe: rgb(0x14181d),
    rule: rgb(0x2b313a),
    field: rgb(0x101318),
    border: rgb(0x66707e),
    widget: [rgb(0x262c35), rgb(0x323a46), rgb(0x3b4554)],
    text: [rgb(0xc6ccd5), rgb(0xf2f4f7), rgb(0x919aa7)],
    selection: rgb(0x24508f),
    phases: [
        Color32::from_rgba_premultiplied(0x10, 0x12, 0x16, 0x16),
        Color32::from_rgba_premultiplied(0x10, 0x10, 0x04, 0x16),
        Color32::from_rgba_premultiplied(0x06, 0x06, 0x07, 0x08),
        Color32::from_rgba_premultiplied(0x12, 0x0a, 0x18, 0x1a),
    ],
};

const LIGHT: Palette = Palette {
    categories: [
        rgb(0x76808d),
        rgb(0x2f6fd6),
        rgb(0x7aa6ee),
        rgb(0x8a57d8),
        rgb(0x1f9a8e),
        rgb(0xd9b02c),
        rgb(0xe0762a),
        rgb(0x3d9a53),
        rgb(0xd0528d),
        rgb(0xb4bbc4),
    ],
    good: rgb(0x15682f),
    bad: rgb(0xad241a),
    warn: rgb(0x7d5300),
    budget: rgb(0xc62f23),
    past: Color32::from_rgba_premultiplied(0x80, 0x78, 0x78, 0x80),
    measured: rgb(0x10151b),
    reserved: rgb(0x2f6fd6),
    process: rgb(0x76808d),
    outline: rgb(0x3d0066),
    predicted: rgb(0x2c8a44),
    train: rgb(0x1f63cf),
    test: rgb(0x9c4a06),
    throughput: rgb(0x147f75),
    frontier: rgb(0x1d7f3c),
    compared: [rgb(0x1f63cf), rgb(0xb2560a), rgb(0x1d7f3c), rgb(0xb8306f), rgb(0x7d6200), rgb(0x0f7b78)],
    accent: rgb(0x1f63cf),
    focus: rgb(0x8a3ffc),
    on_accent: rgb(0xffffff),
    trough: rgb(0xdde2e8),
    ground: rgb(0xdfe3e8),
    pane: rgb(0xfafbfc),
    tabs: rgb(0xe9ecf0),
    stripe: rgb(0xf0f2f5),
    rule: rgb(0xd0d6dd),
    field: rgb(0xffffff),
    border: rgb(0x7a848f),
    widget: [rgb(0xd9dfe6), rgb(0xcbd3dc), rgb(0xbac5d1)],
    text: [rgb(0x2b323b), rgb(0x0c1015), rgb(0x505a65)],
    selection: rgb(0xbcd6ff),
    phases: [
        Color32::from_rgba_premultiplied(0x03, 0x08, 0x10, 0x12),
        Color32::from_rgba_premultiplied(0x14, 0x10, 0x00, 0x18),
        Color32::from_rgba_premultiplied(0x00, 0x00, 0x00, 0x06),
        Color32::from_rgba_premultiplied(0x0c, 0x06, 0x14, 0x16),
    ],
};

/// The palette of the theme that `ui` is drawn in.
pub(crate) fn palette(ui: &egui::Ui) -> &'static Palette {
    of(ui.visuals().dark_mode)
}

/// The palette of a theme.
pub(crate) fn of(dark: bool) -> &'static Palette {
    if dark { &DARK } else { &LIGHT }
}

impl Palette {
    /// The colour of a category, everywhere.
    pub(crate) fn category(&self, category: Category) -> Color32 {
        self.categories[category as usize]
    }

    /// Text on a ground: dark or light, the one that stands out more.
    pub(crate) fn on(&self, ground: Color32) -> Color32 {
        if contrast(DARK_TEXT, ground) >= contrast(LIGHT_TEXT, ground) { DARK_TEXT } else { LIGHT_TEXT }
    }

    /// The band behind a phase of the step.
    pub(crate) fn phase(&self, phase: Phase) -> Color32 {
        match phase {
            Phase::Forward | Phase::Teach | Phase::Evaluate | Phase::Compress => self.phases[0],
            Phase::Recompute => self.phases[1],
            Phase::Start | Phase::Loading | Phase::Batch | Phase::Backward => self.phases[2],
            Phase::Optimizer | Phase::Prune | Phase::Saving => self.phases[3],
        }
    }

    /// The ground that a figure is printed on.
    pub(crate) fn paper(&self) -> Color32 {
        self.field
    }

    /// Weak text.
    pub(crate) fn weak(&self) -> Color32 {
        self.text[2]
    }

    /// Text on a card or a button that explains it.
    pub(crate) fn card_text(&self) -> Color32 {
        self.text[0]
    }

    /// Strong text.
    pub(crate) fn strong(&self) -> Color32 {
        self.text[1]
    }

    fn visuals(&self, base: Visuals) -> Visuals {
        let mut visuals = base;
        let radius = CornerRadius::same(4);
        let widgets = &mut visuals.widgets;
        widgets.noninteractive.bg_fill = self.pane;
        widgets.noninteractive.weak_bg_fill = self.pane;
        widgets.noninteractive.bg_stroke = Stroke::new(1.0, self.rule);
        widgets.noninteractive.fg_stroke = Stroke::new(1.0, self.text[0]);
        let states = [&mut widgets.inactive, &mut widgets.hovered, &mut widgets.active];
        for (state, fill) in states.into_iter().zip(self.widget) {
            (state.bg_fill, state.weak_bg_fill) = (fill, fill);
            state.bg_stroke = Stroke::NONE;
            state.fg_stroke = Stroke::new(1.2, self.text[0]);
            state.corner_radius = radius;
            state.expansion = 0.0;
        }
        widgets.hovered.fg_stroke.color = self.text[1];
        widgets.hovered.bg_stroke = Stroke::new(1.0, self.widget[2]);
        widgets.active.fg_stroke.color = self.text[1];
        widgets.open = widgets.active;
        widgets.noninteractive.corner_radius = radius;
        visuals.selection.bg_fill = self.selection;
        visuals.selection.stroke = Stroke::new(1.0, self.text[1]);
        visuals.weak_text_color = Some(self.text[2]);
        visuals.hyperlink_color = self.train;
        visuals.faint_bg_color = self.stripe;
        visuals.extreme_bg_color = self.field;
        visuals.warn_fg_color = self.warn;
        visuals.error_fg_color = self.bad;
        visuals.panel_fill = self.pane;
        visuals.window_fill = self.pane;
        visuals.window_stroke = Stroke::new(1.0, self.rule);
        visuals.window_corner_radius = CornerRadius::same(8);
        visuals.menu_corner_radius = CornerRadius::same(6);
        visuals.popup_shadow = Shadow { offset: [0, 4], blur: 14, spread: 0, color: Color32::from_black_alpha(70) };
        visuals.disabled_alpha = distances::DISABLED;
        visuals.slider_trailing_fill = true;
        visuals.indent_has_left_vline = false;
        visuals
    }
}

/// Installs fonts and both themes.
pub(crate) fn install(ctx: &egui::Context) {
    ctx.set_fonts(fonts());
    for (theme, palette) in [(Theme::Dark, &DARK), (Theme::Light, &LIGHT)] {
        ctx.style_mut_of(theme, |style| {
            style.visuals = palette.visuals(theme.default_visuals());
            style.text_styles = [
                (TextStyle::Small, FontId::proportional(SMALL_TEXT)),
                (TextStyle::Body, FontId::proportional(13.0)),
                (TextStyle::Button, FontId::proportional(13.0)),
                (TextStyle::Heading, FontId::new(VERDICT_TEXT, medium())),
                (TextStyle::Monospace, FontId::monospace(12.0)),
            ]
            .into();
            style.spacing.item_spacing = vec2(GAP, ROW_GAP);
            style.spacing.button_padding = vec2(8.0, 3.0);
            style.spacing.interact_size.y = 22.0;
            style.spacing.menu_margin = Margin::same(6);
            style.spacing.tooltip_width = TOOLTIP_WIDTH;
            style.spacing.slider_rail_height = 4.0;
            style.spacing.scroll.floating = true;
            style.spacing.scroll.dormant_handle_opacity = SCROLL_SEEN;
            style.interaction.selectable_labels = false;
            style.interaction.tooltip_delay = 0.6;
            style.interaction.tooltip_grace_time = 0.0;
        });
    }
}

/// The family of the verdict: heavier than body text.
fn medium() -> FontFamily {
    FontFamily::Name("medium".into())
}

/// Roboto, whose figures are all of one width, before egui's own fonts; DejaVu Sans after them for the arrows and signs
/// that they lack.
fn fonts() -> FontDefinitions {
    let mut fonts = FontDefinitions::default();
    for (name, bytes) in [("Roboto", ROBOTO), ("Roboto Medium", ROBOTO_MEDIUM), ("DejaVu Sans", DEJAVU)] {
        fonts.font_data.insert(name.to_owned(), Arc::new(FontData::from_static(bytes)));
    }
    for family in [FontFamily::Proportional, FontFamily::Monospace] {
        fonts.families.entry(family).or_default().push("DejaVu Sans".to_owned());
    }
    let body = fonts.families.entry(FontFamily::Proportional).or_default();
    let with = |first: &str| std::iter::once(first.to_owned()).chain(body.iter().cloned()).collect::<Vec<_>>();
    let (regular, heavier) = (with("Roboto"), with("Roboto Medium"));
    *body = regular;
    fonts.families.insert(medium(), heavier);
    fonts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_out_from_what_it_is_drawn_on_in_both_themes() {
        for palette in [&DARK, &LIGHT] {
            for text in [palette.text[0], palette.text[1], palette.text[2], palette.good, palette.bad, palette.warn] {
                for ground in [palette.pane, palette.tabs, palette.widget[0]] {
                    assert!(contrast(text, ground) >= 4.5, "{text:?} on {ground:?}: {}", contrast(text, ground));
                }
            }
            assert!(contrast(palette.test, palette.tabs) >= 4.5);
            assert!(contrast(palette.on_accent, palette.accent) >= 4.5);
            for ground in [palette.pane, palette.tabs, palette.ground] {
                assert!(contrast(palette.focus, ground) >= 3.0, "the ring is seen on {ground:?}");
            }
            for ground in [palette.pane, palette.tabs, palette.field] {
                assert!(contrast(palette.border, ground) >= 3.0, "a field is seen on {ground:?}");
            }
        }
    }

    #[test]
    fn every_category_has_a_colour_of_its_own() {
        for palette in [&DARK, &LIGHT] {
            for (i, a) in palette.categories.iter().enumerate() {
                assert!(palette.categories[i + 1..].iter().all(|b| b != a), "{a:?}");
                assert!(contrast(*a, palette.pane) >= 1.7, "{a:?}");
            }
            for category in Category::ALL {
                let past = palette.category(category).blend(palette.past);
                assert!(contrast(palette.on(past), past) >= 4.5, "{category:?} past the budget");
                assert!(
                    contrast(palette.on(palette.category(category)), palette.category(category)) >= 4.5,
                    "{category:?}"
                );
            }
        }
    }
}
