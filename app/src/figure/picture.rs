//! A figure as a picture: the SVG text, drawn in the program's own fonts.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use resvg::{
    tiny_skia::{Color, Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

use super::Figure;
use crate::theme::{self, print};

/// Points an inch.
const POINTS: f32 = 72.0;
/// Inches a metre.
const METRE: f32 = 39.370_08;

/// A picture: rows of opaque pixels of red, green and blue.
pub(crate) struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) rgb: Vec<u8>,
}

fn fonts() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let made = || {
        let mut fonts = Database::new();
        for font in [theme::ROBOTO, theme::ROBOTO_MEDIUM, theme::DEJAVU] {
            fonts.load_font_data(font.to_vec());
        }
        Arc::new(fonts)
    };
    Arc::clone(FONTS.get_or_init(made))
}

impl Picture {
    /// Draws a figure, fine enough to print.
    ///
    /// # Errors
    /// A figure of no size.
    pub(crate) fn of(figure: &Figure) -> anyhow::Result<Self> {
        let options = Options { fontdb: fonts(), dpi: POINTS, font_family: "Roboto".to_owned(), ..Options::default() };
        let tree = Tree::from_str(&figure.svg(), &options).context("the figure is not as SVG is")?;
        let scale = print::DOTS_PER_INCH / POINTS;
        let [width, height] = figure.size().map(|side| (side * scale).round() as u32);
        let mut pixels = Pixmap::new(width, height).context("the figure has no size")?;
        pixels.fill(Color::WHITE);
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
        // On white paper every pixel is opaque.
        let rgb = pixels.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Ok(Self { width, height, rgb })
    }

    /// The picture as PNG, which says how large it is printed.
    ///
    /// # Errors
    /// None that can be met: the bytes go to memory.
    pub(crate) fn png(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let per_metre = (print::DOTS_PER_INCH * METRE).round() as u32;
        let size = png::PixelDimensions { xppu: per_metre, yppu: per_metre, unit: png::Unit::Meter };
        encoder.set_pixel_dims(Some(size));
        encoder.write_header()?.write_image_data(&self.rgb)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::svg::{Words, palette};

    #[test]
    fn a_picture_has_the_size_of_print_and_its_words_are_drawn() {
        let mut figure = Figure::new("a figure", 72.0, 36.0);
        let empty = Picture::of(&figure).expect("drawn");
        assert_eq!((empty.width, empty.height), (300, 150));
        assert!(empty.rgb.iter().all(|part| *part == 0xff));
        figure.words([4.0, 20.0], "Peak →", Words::new(12.0, palette().strong()));
        let with_words = Picture::of(&figure).expect("drawn");
        let dark = with_words.rgb.chunks_exact(3).filter(|pixel| pixel[0] < 0x60).count();
        assert!(dark > 500, "{dark} dark pixels");
        let png = with_words.png().expect("written");
        let mut read = png::Decoder::new(std::io::Cursor::new(png)).read_info().expect("a PNG");
        let dims = read.info().pixel_dims.expect("a size in print");
        assert_eq!((dims.xppu, dims.unit), (11811, png::Unit::Meter));
        let mut pixels = vec![0; read.output_buffer_size().expect("small")];
        read.next_frame(&mut pixels).expect("pixels");
        assert_eq!(pixels, with_words.rgb);
    }
}
