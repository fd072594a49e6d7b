//! SVG text, written mark by mark.

use std::fmt::Write;

use eframe::egui::Color32;
use skrifa::{
    FontRef, MetadataProvider,
    instance::{LocationRef, Size},
};

use crate::theme::{self, Palette, print};

/// A figure that is being drawn. Distances are in points, from the upper left corner.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    title: String,
    width: f32,
    height: f32,
    marks: String,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pen {
    pub(crate) color: Color32,
    pub(crate) width: f32,
    pub(crate) is_dashed: bool,
}

impl Pen {
    /// A whole line.
    pub(crate) fn solid(color: Color32, width: f32) -> Self {
        Self { color, width, is_dashed: false }
    }

    /// A dashed line.
    pub(crate) fn dashed(color: Color32, width: f32) -> Self {
        Self { color, width, is_dashed: true }
    }
}

/// Which part of words stands at their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The text begins there.
    Start,
    /// The text's middle is there.
    Middle,
    /// The text ends there.
    End,
}

/// How words are set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub(crate) size: f32,
    pub(crate) color: Color32,
    pub(crate) anchor: Anchor,
    pub(crate) is_heavy: bool,
}

impl Words {
    /// Plain words that begin at their place.
    pub(crate) fn new(size: f32, color: Color32) -> Self {
        Self { size, color, anchor: Anchor::Start, is_heavy: false }
    }

    /// The same text, with another part at its place.
    pub(crate) fn at(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// The same text, heavier.
    pub(crate) fn heavy(self) -> Self {
        Self { is_heavy: true, ..self }
    }
}

/// The sign of an entry of a legend, drawn like the curve that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A filled square.
    Area,
    /// A whole line.
    Line,
    /// A dashed line.
    Dashed,
}

impl Mark {
    /// A dashed line needs room for two dashes.
    fn width(self) -> f32 {
        match self {
            Self::Area => print::SWATCH,
            Self::Line | Self::Dashed => print::STRETCH,
        }
    }
}

/// The colours of every figure.
pub(crate) fn palette() -> &'static Palette {
    theme::of(false)
}

impl Figure {
    /// An empty figure.
    pub(crate) fn new(title: impl Into<String>, width: f32, height: f32) -> Self {
        Self { title: title.into(), width, height, marks: String::new() }
    }

    /// Its width and height, in points.
    pub(crate) fn size(&self) -> [f32; 2] {
        [self.width, self.height]
    }

    fn mark(&mut self, mark: std::fmt::Arguments<'_>) {
        // Writing to text does not fail.
        let _ = self.marks.write_fmt(mark);
        self.marks.push('\n');
    }

    /// A filled rectangle.
    pub(crate) fn rect(&mut self, [x, y]: [f32; 2], [width, height]: [f32; 2], color: Color32) {
        let (x, y, width, height) = (Short(x), Short(y), Short(width), Short(height));
        let fill = Fill(color);
        self.mark(format_args!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" {fill}/>"#));
    }

    /// A straight line.
    pub(crate) fn line(&mut self, from: [f32; 2], to: [f32; 2], pen: Pen) {
        self.lines(&[from, to], pen);
    }

    /// A line through points.
    pub(crate) fn lines(&mut self, points: &[[f32; 2]], pen: Pen) {
        let (points, pen) = (Path(points), Stroke(pen));
        self.mark(format_args!(r#"<polyline points="{points}" {pen}/>"#));
    }

    /// A filled shape.
    pub(crate) fn shape(&mut self, points: &[[f32; 2]], color: Color32) {
        let (points, fill) = (Path(points), Fill(color));
        self.mark(format_args!(r#"<polygon points="{points}" {fill}/>"#));
    }

    /// A filled circle.
    pub(crate) fn circle(&mut self, [x, y]: [f32; 2], radius: f32, color: Color32) {
        let (x, y, radius, fill) = (Short(x), Short(y), Short(radius), Fill(color));
        self.mark(format_args!(r#"<circle cx="{x}" cy="{y}" r="{radius}" {fill}/>"#));
    }

    /// Words whose foot is at a place.
    pub(crate) fn words(&mut self, [x, y]: [f32; 2], text: &str, words: Words) {
        let (x, y, size, fill) = (Short(x), Short(y), Short(words.size), Fill(words.color));
        let anchor = match words.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if words.is_heavy { r#" font-weight="500""# } else { "" };
        let text = escaped(text);
        self.mark(format_args!(
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}"{weight} {fill}>{text}</text>"#
        ));
    }

    /// Words on a ground of the paper's colour, so that they stand out from the marks below.
    pub(crate) fn words_on_plate(&mut self, [x, y]: [f32; 2], text: &str, words: Words) {
        let width = width_of(text, words);
        let left = match words.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        let ground = palette().paper().gamma_multiply(0.85);
        self.rect([left - 2.0, y - words.size], [width + 4.0, words.size * 1.3], ground);
        self.words([x, y], text, words);
    }

    /// The whole as SVG, as large as it is printed.
    pub(crate) fn svg(&self) -> String {
        let (width, height) = (Short(self.width), Short(self.height));
        let (paper, title) = (Fill(palette().paper()), escaped(&self.title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}pt\" height=\"{height}pt\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Roboto, Arial, sans-serif\" role=\"img\">\n\
             <title>{title}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" {paper}/>\n{}</svg>\n",
            self.marks
        )
    }
}

/// How wide words are in the program's font.
pub(crate) fn width_of(text: &str, words: Words) -> f32 {
    let bytes = if words.is_heavy { theme::ROBOTO_MEDIUM } else { theme::ROBOTO };
    let Ok(font) = FontRef::new(bytes) else { return text.chars().count() as f32 * words.size * 0.5 };
    let (letters, metrics) = (font.charmap(), font.glyph_metrics(Size::new(words.size), LocationRef::default()));
    let width = |letter| letters.map(letter).and_then(|glyph| metrics.advance_width(glyph));
    // A sign of another font is about as wide as it is high.
    text.chars().map(|letter| width(letter).unwrap_or(words.size * 0.8)).sum()
}

/// Words cut to a width, with a sign that they are.
pub(crate) fn fitted(text: &str, room: f32, words: Words) -> String {
    if width_of(text, words) <= room {
        return text.to_owned();
    }
    let mut cut: String = text.to_owned();
    while cut.pop().is_some() {
        let with_sign = format!("{cut}…");
        if width_of(&with_sign, words) <= room {
            return with_sign;
        }
    }
    String::new()
}

/// A colour as the legend has it, then words, one entry after the other; where the next line begins.
pub(crate) fn legend(
    figure: &mut Figure,
    entries: &[(Color32, Mark, String)],
    [left, top]: [f32; 2],
    right: f32,
) -> f32 {
    let words = Words::new(print::WORDS, palette().strong());
    let (mut x, mut y) = (left, top);
    for (color, mark, text) in entries {
        let width = mark.width() + 3.0 + width_of(text, words);
        if x > left && x + width > right {
            (x, y) = (left, y + print::LINE);
        }
        let middle = y - print::SWATCH / 2.0 + 0.5;
        let ends = [[x, middle], [x + mark.width(), middle]];
        match mark {
            Mark::Area => figure.rect([x, y - print::SWATCH + 0.5], [print::SWATCH; 2], *color),
            Mark::Line => figure.lines(&ends, Pen::solid(*color, print::CURVE * 1.5)),
            Mark::Dashed => figure.lines(&ends, Pen::dashed(*color, print::CURVE * 1.5)),
        }
        figure.words([x + mark.width() + 3.0, y], text, words);
        x += width + print::BESIDE * 1.5;
    }
    y + print::LINE
}

/// Text inside an element.
pub(crate) fn escaped(text: &str) -> String {
    // Characters that XML does not allow are left out.
    let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number with two decimals at most.
struct Short(f32);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Adding zero makes of minus zero a plain one.
        write!(f, "{}", (self.0 * 100.0).round() / 100.0 + 0.0)
    }
}

struct Path<'a>(&'a [[f32; 2]]);

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, [x, y]) in self.0.iter().enumerate() {
            write!(f, "{}{},{}", if i > 0 { " " } else { "" }, Short(*x), Short(*y))?;
        }
        Ok(())
    }
}

/// A colour as three numbers and how much it covers.
fn parts(color: Color32) -> ([u8; 3], f32) {
    let [red, green, blue, alpha] = color.to_srgba_unmultiplied();
    ([red, green, blue], f32::from(alpha) / 255.0)
}

/// A colour as style sheets write it, `#2f6fd6`, and its opacity.
pub(crate) fn hex(color: Color32) -> (String, f32) {
    let ([red, green, blue], alpha) = parts(color);
    (format!("#{red:02x}{green:02x}{blue:02x}"), alpha)
}

struct Fill(Color32);

impl std::fmt::Display for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (color, alpha) = hex(self.0);
        write!(f, r#"fill="{color}""#)?;
        if alpha < 1.0 { write!(f, r#" fill-opacity="{}""#, Short(alpha)) } else { Ok(()) }
    }
}

struct Stroke(Pen);

impl std::fmt::Display for Stroke {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (color, alpha) = hex(self.0.color);
        write!(f, r#"fill="none" stroke="{color}" stroke-width="{}" stroke-linejoin="round""#, Short(self.0.width))?;
        if self.0.is_dashed {
            write!(f, r#" stroke-dasharray="4 3""#)?;
        }
        if alpha < 1.0 { write!(f, r#" stroke-opacity="{}""#, Short(alpha)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use resvg::usvg::roxmltree;

    use super::*;

    #[test]
    fn whatever_is_written_in_a_figure_stays_text() {
        let mut figure = Figure::new("a < b & \"c\"\u{1}", 100.0, 50.0);
        figure.words([0.0, 10.0], "</text><script>\u{0}", Words::new(8.0, palette().strong()));
        figure.rect([-0.001, 0.0], [10.0, 10.0], palette().budget.gamma_multiply(0.5));
        let svg = figure.svg();
        let read = roxmltree::Document::parse(&svg).expect("well formed");
        let text = |name: &str| read.descendants().find(|node| node.has_tag_name(name)).and_then(|node| node.text());
        assert_eq!((text("title"), text("text")), (Some("a < b & \"c\""), Some("</text><script>")));
        assert!(svg.contains(r##"x="0" y="0" width="10""##) && svg.contains("fill-opacity"), "{svg}");
    }

    #[test]
    fn a_legend_draws_a_line_as_it_is_in_the_picture() {
        let dashed = |mark| {
            let mut figure = Figure::new("Legend", 100.0, 50.0);
            legend(&mut figure, &[(palette().budget, mark, "budget".to_owned())], [0.0, 10.0], 100.0);
            figure.svg().contains("stroke-dasharray")
        };
        assert_eq!([Mark::Area, Mark::Line, Mark::Dashed].map(dashed), [false, false, true]);
    }

    #[test]
    fn words_are_as_wide_as_the_font_has_them() {
        let words = Words::new(10.0, palette().strong());
        let [narrow, wide] = ["iii", "MMM"].map(|text| width_of(text, words));
        assert!(narrow * 2.0 < wide, "{narrow} {wide}");
        assert_eq!(fitted("short", 100.0, words), "short");
        let cut = fitted("much too long for so little room", 60.0, words);
        assert!(cut.ends_with('…') && width_of(&cut, words) <= 60.0, "{cut}");
        assert_eq!(fitted("no room", 1.0, words), "");
    }
}
