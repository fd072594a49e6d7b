//! HTML, written part by part.

use crate::{
    figure::{
        Figure,
        svg::{escaped, hex, palette},
    },
    theme::print,
};

/// A page that is being written.
pub(super) struct Page {
    title: String,
    body: String,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    /// Words, to the left.
    Words(String),
    /// A figure, to the right.
    Figure(String),
}

impl Cell {
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self::Words(text.into())
    }

    pub(super) fn figure(text: impl ToString) -> Self {
        Self::Figure(text.to_string())
    }

    /// A figure that may be unknown.
    pub(super) fn known(figure: Option<impl ToString>) -> Self {
        Self::Figure(figure.map_or_else(|| "–".to_owned(), |figure| figure.to_string()))
    }
}

impl Page {
    /// A page under a title.
    pub(super) fn new(title: &str) -> Self {
        let title = escaped(title);
        Self { body: format!("<h1>{title}</h1>\n"), title }
    }

    /// A heading.
    pub(super) fn heading(&mut self, text: &str) {
        self.body.push_str(&format!("<h2>{}</h2>\n", escaped(text)));
    }

    /// A paragraph for each part of a text between empty lines.
    pub(super) fn words(&mut self, text: &str) {
        for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
            self.body.push_str(&format!("<p>{}</p>\n", escaped(paragraph)));
        }
    }

    /// Text as it is.
    pub(super) fn text(&mut self, text: &str) {
        self.body.push_str(&format!("<pre>{}</pre>\n", escaped(text)));
    }

    /// A figure.
    pub(super) fn figure(&mut self, figure: &Figure) {
        self.body.push_str(&format!("<figure>\n{}</figure>\n", figure.svg()));
    }

    /// A table under its headings.
    pub(super) fn table(&mut self, heading: &[&str], rows: &[Vec<Cell>]) {
        // A column of figures has its heading to the right as well.
        let is_figure = |column: usize| rows.iter().any(|row| matches!(row.get(column), Some(Cell::Figure(_))));
        let cell = |tag: &str, text: &str, right: bool| {
            let class = if right { " class=\"n\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(text))
        };
        let heads: String = heading.iter().enumerate().map(|(i, text)| cell("th", text, is_figure(i))).collect();
        self.body.push_str(&format!("<table>\n<tr>{heads}</tr>\n"));
        for row in rows {
            let cells: String = row
                .iter()
                .map(|of_row| match of_row {
                    Cell::Words(text) => cell("td", text, false),
                    Cell::Figure(text) => cell("td", text, true),
                })
                .collect();
            self.body.push_str(&format!("<tr>{cells}</tr>\n"));
        }
        self.body.push_str("</table>\n");
    }

    /// The whole page.
    pub(super) fn finish(self) -> String {
        let (title, body, style) = (self.title, self.body, style());
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta name=\"generator\" content=\"plimsoll {}\">\n<title>{title}</title>\n<style>\n{style}</style>\n</head>\n\
             <body>\n{body}</body>\n</html>\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}

fn style() -> String {
    let color = |color| hex(color).0;
    let palette = palette();
    let (paper, text, weak, rule) =
        (color(palette.paper()), color(palette.strong()), color(palette.weak()), color(palette.rule));
    let (ground, width) = (color(palette.tabs), print::PAGE * 1.6);
    format!(
        "body {{ max-width: {width}pt; margin: 2em auto; padding: 0 1em; font: 11pt/1.45 Roboto, Arial, sans-serif; \
         color: {text}; background: {paper}; }}\n\
         h1 {{ font-size: 1.5em; }} h2 {{ font-size: 1.15em; margin-top: 1.8em; border-bottom: 1px solid {rule}; }}\n\
         table {{ border-collapse: collapse; margin: 0.6em 0; }} \
         th, td {{ text-align: left; padding: 0.15em 1.2em 0.15em 0; border-bottom: 1px solid {rule}; \
         vertical-align: top; font-variant-numeric: tabular-nums; }}\n\
         th {{ color: {weak}; font-weight: 500; }} .n {{ text-align: right; }}\n\
         pre {{ background: {ground}; padding: 0.8em; overflow-x: auto; font-size: 0.9em; }}\n\
         figure {{ margin: 1em 0; }} svg {{ max-width: 100%; height: auto; }}\n\
         @media print {{ body {{ max-width: none; margin: 0; }} figure, tr {{ break-inside: avoid; }} }}\n"
    )
}
