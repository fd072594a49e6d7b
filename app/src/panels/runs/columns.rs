//! The columns of the table: which have room, and how wide each is.
//!
//! Always holds: a column is as wide as what stands in it, as long as there is room; texts share what is left, and none has
//! more than it needs while another is cut. What a run is of stands next to its name in every width that has room for both, or
//! for all runs in the heading: settings alone do not say it.

use std::collections::HashSet;

use eframe::egui::Ui;

use super::table::mark;
use crate::{
    format,
    runs::{self, Row},
    state::State,
    theme,
    view::RunColumn,
    widgets::table,
};

/// A column with what it is called and what it holds.
pub(super) type Named = (RunColumn, &'static str, &'static str);

const COLUMNS: [Named; 10] = [
    (RunColumn::Star, STAR, "Whether you starred it."),
    (
        RunColumn::Name,
        "run",
        "Its number with the name that you gave it, or with what sets it apart from its preset or the first run of its title.",
    ),
    (RunColumn::Details, "title", "Its title. For a run that you named, also the settings that set it apart."),
    (RunColumn::Started, "when", "When it began."),
    (RunColumn::State, "state", "How far it came."),
    (RunColumn::Device, "device", "What it ran on."),
    (RunColumn::Measured, "peak", "The measured peak of what its budget counts."),
    (RunColumn::Predicted, "predicted", "The predicted peak of what its budget counts."),
    (RunColumn::Accuracy, "accuracy", "The best accuracy on test data."),
    (RunColumn::Step, "a step", "The mean time of a step, tests excluded."),
];
/// Columns that a pane without room leaves out, in this order: a row shows everything on hover.
const LEFT_OUT: [RunColumn; 7] = [
    RunColumn::Device,
    RunColumn::Predicted,
    RunColumn::State,
    RunColumn::Step,
    RunColumn::Star,
    RunColumn::Started,
    RunColumn::Accuracy,
];
/// This many of them are dropped before a text is narrower than [`ROOMY`].
const FOR_TEXTS: usize = 6;
/// Names and details of these widths tell most runs apart.
const ROOMY: [f32; 2] = [200.0, 150.0];
/// Up to this width a name comes before a title.
const NAME_FIRST: f32 = 150.0;
/// A name and a title of these widths are cut before the time goes when a run began: their rows show the whole of them on hover.
const WITH_TIME: [f32; 2] = [110.0, 64.0];
/// A name that leaves nothing out has the room of both.
const ALONE: f32 = 220.0;
/// It is cut to this before the last figures go: what tells it from the others is left.
const BESIDE_FIGURES: f32 = 100.0;
/// They are not narrower than this, except for texts that need less.
const TIGHT: [f32; 2] = [84.0, 64.0];
/// The widest name of a device.
const DEVICE: f32 = 110.0;
/// Between columns.
pub(super) const BETWEEN: f32 = 8.0;
/// Letters as texts have them.
const SOME_LETTERS: &str = "a text of some letters, micro-batch 64";
/// The longest texts of a column; one of them is the widest.
const LONGEST: usize = 6;

/// The heading of stars, and a star.
const STAR: &str = "★";

/// The number of a run as the column of names has it: its heading says what is numbered.
pub(super) fn numbered(number: u64) -> String {
    format!("{number}:")
}

/// How wide the texts of the rows are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Widths {
    /// One of the rows, where all are of its title and the details of none say more: the title need not stand in each of them.
    alike: Option<usize>,
    name: f32,
    details: f32,
    state: f32,
    device: f32,
    started: f32,
    /// How many names, and how many details, have which width.
    spread: [Spread; 2],
}

/// Steps in which widths are told apart, and how many there are.
const STEP: f32 = 12.0;
const STEPS: usize = 64;

/// How many texts are how wide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread([u32; STEPS]);

impl Default for Spread {
    fn default() -> Self {
        Self([0; STEPS])
    }
}

impl Spread {
    fn add(&mut self, width: f32) {
        self.0[((width / STEP).ceil() as usize).min(STEPS - 1)] += 1;
    }

    /// What of the texts has no room in a width, of all together.
    fn cut(&self, width: f32) -> f32 {
        let lacks = |(step, count): (usize, &u32)| (step as f32 * STEP - width).max(0.0) * *count as f32;
        self.0.iter().enumerate().map(lacks).sum()
    }
}

impl Widths {
    /// The widths for the rows that are shown. Few texts are laid out: a wide one is long.
    pub(super) fn of(ui: &Ui, state: &State, order: &[usize]) -> Self {
        let rows = || order.iter().map(|i| &state.runs.rows()[*i]);
        let width = |text: &str| table::text_width(ui, text);
        // Names stand after their numbers, of which the highest is the widest.
        let highest = rows().map(|row| row.run.number).max().unwrap_or_default();
        let numbers = width(&numbered(highest)) + BETWEEN / 2.0;
        let sign = |row: &Row| mark(row.run.state).map_or(0.0, |sign| width(sign) + BETWEEN / 2.0);
        let longest = |text: fn(&Row) -> &str| {
            let mut rows: Vec<&Row> = rows().collect();
            let few = LONGEST.min(rows.len());
            rows.sort_by_key(|row| std::cmp::Reverse(text(row).len()));
            rows.truncate(few);
            rows
        };
        let most = |widths: &mut dyn Iterator<Item = f32>| widths.fold(0.0, f32::max);
        let mut states: Vec<&str> = Vec::new();
        let mut devices: Vec<String> = Vec::new();
        // What began longest ago is told with the most words, or what began today to the second.
        let oldest = rows().map(|row| row.run.started).min().map(runs::when).unwrap_or_default();
        let sharing = rows().filter(|row| row.to_the_second).map(|row| row.run.started).max();
        let sharing = sharing.map(|started| runs::when_among(started, true)).unwrap_or_default();
        let began = width(&oldest).max(width(&sharing));
        for row in rows() {
            if !states.contains(&row.run.status()) {
                states.push(row.run.status());
            }
            let device = row.device();
            if devices.len() < LONGEST && !devices.contains(&device) {
                devices.push(device);
            }
        }
        // Of the texts that are not laid out, by their letters.
        let letter = width(SOME_LETTERS) / SOME_LETTERS.len() as f32;
        let about = |text: &str| text.chars().count() as f32 * letter;
        let mut spread = [Spread::default(); 2];
        let mut told = HashSet::new();
        for row in rows().filter(|row| !row.in_table.is_empty()) {
            spread[0].add(numbers + sign(row) + about(row.short_name()));
            // Its title is what is read there; the rest of the details may be cut. One that many rows repeat counts once.
            let title = row.told_title().unwrap_or(&row.in_table);
            if told.insert(title) {
                spread[1].add(about(title));
            }
        }
        Self {
            alike: order.first().copied().filter(|first| {
                let title = &state.runs.rows()[*first].run.title;
                let says_no_more = |row: &Row| row.in_table.is_empty() || row.in_table == *title;
                let is_alike = |row: &Row| row.run.title == *title && says_no_more(row);
                // Names of settings alone do not say it themselves.
                !title.is_empty() && rows().all(is_alike) && rows().any(|row| !row.in_table.is_empty())
            }),
            spread,
            name: numbers
                + most(&mut longest(Row::short_name).into_iter().map(|row| width(row.short_name()) + sign(row))),
            details: most(&mut longest(|row| &row.in_table).into_iter().map(|row| width(&row.in_table))),
            state: most(&mut states.into_iter().map(&width)),
            // Digits are of one width, and so are the names of months, nearly.
            started: began + STEP / 2.0,
            device: most(&mut devices.iter().map(|device| width(device))).min(DEVICE),
        }
    }

    /// What name and details need.
    fn texts(self) -> [f32; 2] {
        [self.name, self.details]
    }
}

/// The row whose title the heading of the names tells for all, because they have no column of it.
pub(super) fn told_once(columns: &[(Named, f32)], widths: Widths) -> Option<usize> {
    widths.alike.filter(|_| columns.iter().all(|((column, ..), _)| *column != RunColumn::Details))
}

/// The columns that have room, each with its width.
pub(super) fn columns(ui: &Ui, widths: Widths) -> Vec<(Named, f32)> {
    let fixed = |(column, name, _): &Named| {
        let content = match column {
            RunColumn::Star => return table::text_width(ui, STAR).max(table::sign_width(ui, STAR)),
            // Their room is shared out below.
            RunColumn::Name | RunColumn::Details => 0.0,
            RunColumn::Started => widths.started,
            RunColumn::State => widths.state,
            RunColumn::Device => widths.device,
            RunColumn::Measured | RunColumn::Predicted => table::bytes_width(ui),
            RunColumn::Accuracy => table::text_width(ui, &format::share(1.0)),
            RunColumn::Step => table::text_width(ui, "9.99 ms"),
        };
        content.max(table::heading_width(ui, name))
    };
    let all: Vec<(Named, f32)> = COLUMNS.into_iter().map(|column| (column, fixed(&column))).collect();
    // Room for the scroll bar, which floats.
    let room = ui.available_width() - theme::GAP;
    shared_out(all, (widths.texts(), widths.alike.is_some()), &widths.spread, room)
}

/// Leaves out what has no room, and gives the texts what is left of `room`. `needs` is what they would take whole, with whether
/// the details may go, and `spread` how wide they are in the single rows.
fn shared_out(
    mut columns: Vec<(Named, f32)>,
    (mut needs, may_go): ([f32; 2], bool),
    spread: &[Spread; 2],
    room: f32,
) -> Vec<(Named, f32)> {
    let place = |column: RunColumn| match column {
        RunColumn::Name => Some(0),
        RunColumn::Details => Some(1),
        _ => None,
    };
    let least = |(column, _, _): &Named, width: f32, needs: [f32; 2], most: [f32; 2]| match place(*column) {
        Some(text) => needs[text].min(most[text]).max(width),
        None => width,
    };
    let taken_by = |columns: &[(Named, f32)], needs: [f32; 2], most: [f32; 2]| {
        columns.iter().map(|(named, width)| least(named, *width, needs, most) + BETWEEN).sum::<f32>() - BETWEEN
    };
    // A column in which nothing stands, or in each row the same, takes no room that another needs.
    if (may_go || needs[1] <= 0.0) && taken_by(&columns, needs, [f32::INFINITY; 2]) > room {
        columns.retain(|((own, ..), _)| *own != RunColumn::Details);
        needs[1] = 0.0;
    }
    let least = |named: &Named, width: f32, most: [f32; 2]| least(named, width, needs, most);
    let taken = |columns: &[(Named, f32)], most: [f32; 2]| taken_by(columns, needs, most);
    for (count, column) in LEFT_OUT.into_iter().enumerate() {
        if column == RunColumn::Star && needs[1] > 0.0 {
            // Its room would bring none of the others back.
            continue;
        }
        let most = match (needs[1] <= 0.0, count < FOR_TEXTS) {
            // When it began tells a run from others of its title: the texts yield first.
            (true, _) if matches!(column, RunColumn::Star | RunColumn::Started | RunColumn::Accuracy) => {
                [BESIDE_FIGURES, 0.0]
            }
            (false, true) if column == RunColumn::Started => WITH_TIME,
            // A single text is what the table is read by.
            (true, _) => [ALONE, 0.0],
            (false, true) => ROOMY,
            (false, false) => TIGHT,
        };
        if taken(&columns, most) <= room {
            break;
        }
        columns.retain(|((own, ..), _)| *own != column);
    }
    // What has no room even so would stand beyond the edge of the pane.
    for column in [RunColumn::Details, RunColumn::Star] {
        if taken(&columns, TIGHT) > room {
            columns.retain(|((own, ..), _)| *own != column);
        }
    }
    let mut left = (room - taken(&columns, TIGHT)).max(0.0);
    columns.iter_mut().for_each(|(named, width)| *width = least(named, *width, TIGHT));
    let mut texts: Vec<(usize, &mut f32)> =
        columns.iter_mut().filter_map(|((column, ..), width)| Some((place(*column)?, width))).collect();
    if let [(0, name), (1, details)] = &mut texts[..] {
        let both = **name + **details + left;
        // The name tells a run from the others: up to a width, it comes before what else is known of it.
        let least = [needs[0].min(NAME_FIRST).min(both - **details).max(**name), **details];
        let given = share(both, least, needs, spread);
        (**name, **details) = (given[0], given[1]);
        left = (both - given[0] - given[1]).max(0.0);
    } else if let [(text, width)] = &mut texts[..] {
        let given = (needs[*text] - **width).clamp(0.0, left);
        **width += given;
        left -= given;
    }
    // The room that is left goes to the last text, so that the figures stand at the right.
    if let Some((_, width)) = texts.into_iter().max_by_key(|(text, _)| *text) {
        *width += left;
    }
    columns
}

/// What the names and the details get of `both`: as much as they need where there is room, else so that the least of all
/// texts together is cut, and neither has more than it needs.
fn share(both: f32, least: [f32; 2], needs: [f32; 2], spread: &[Spread; 2]) -> [f32; 2] {
    let most = [needs[0].max(least[0]), needs[1].max(least[1])];
    if most[0] + most[1] <= both {
        return most;
    }
    let (from, to) = (least[0].max(both - most[1]), most[0].min(both - least[1]).max(least[0]));
    let cut = |name: f32| spread[0].cut(name) + spread[1].cut(both - name);
    let steps = ((to - from) / STEP).max(0.0) as usize;
    // Of several that cut as little, the one that is nearest to the middle.
    let key = |name: &f32| (cut(*name).round(), (*name - both / 2.0).abs());
    let ways = (0..=steps).map(|step| from + step as f32 * STEP).chain([to]);
    let name = ways.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)).unwrap_or(from);
    [name, both - name]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: f32 = 700.0;

    /// Columns of 50 points, with their names and widths in a room where the texts need this much.
    fn widths(needs: [f32; 2], room: f32) -> Vec<(RunColumn, f32)> {
        let columns = COLUMNS.into_iter().map(|column| (column, 50.0)).collect();
        let mut spread = [Spread::default(); 2];
        spread.iter_mut().zip(needs).for_each(|(spread, width)| spread.add(width));
        shared_out(columns, (needs, false), &spread, room)
            .into_iter()
            .map(|((column, ..), width)| (column, width))
            .collect()
    }

    fn of(widths: &[(RunColumn, f32)], column: RunColumn) -> Option<f32> {
        widths.iter().find(|(own, _)| *own == column).map(|(_, width)| *width)
    }

    #[test]
    fn no_column_stands_beyond_the_edge() {
        for room in [160.0, 200.0, 240.0, 280.0, 400.0] {
            let columns = widths([300.0, 300.0], room);
            let taken = columns.iter().map(|(_, width)| width + BETWEEN).sum::<f32>() - BETWEEN;
            assert!(taken <= room + 0.1 && of(&columns, RunColumn::Name) >= Some(TIGHT[0]), "{room}: {columns:?}");
            assert_eq!(of(&columns, RunColumn::Details).is_some(), room > 240.0, "{room}: {columns:?}");
        }
    }

    #[test]
    fn texts_are_whole_where_there_is_room_and_share_it_where_there_is_not() {
        let whole = widths([100.0, 120.0], ROOM);
        assert_eq!((of(&whole, RunColumn::Name), whole.len()), (Some(100.0), 10));
        assert!(of(&whole, RunColumn::Details).expect("there") >= 120.0, "{whole:?}");
        let total =
            |widths: &[(RunColumn, f32)]| widths.iter().map(|(_, width)| width + BETWEEN).sum::<f32>() - BETWEEN;
        for (needs, room) in
            [([100.0, 120.0], ROOM), ([400.0, 90.0], ROOM), ([90.0, 500.0], ROOM), ([500.0, 500.0], ROOM)]
        {
            let widths = widths(needs, room);
            assert!((total(&widths) - room).abs() < 0.5, "{widths:?}: all of the room is used");
            let [name, details] =
                [RunColumn::Name, RunColumn::Details].map(|column| of(&widths, column).expect("there"));
            let is_cut = [name < needs[0] - 0.5, details < needs[1] - 0.5];
            let has_more = [name > needs[0].max(50.0) + 0.5, details > needs[1].max(50.0) + 0.5];
            assert!(!(is_cut[0] && has_more[1] || is_cut[1] && has_more[0]), "{needs:?}: {widths:?}");
        }
    }

    #[test]
    fn a_title_that_all_rows_have_takes_no_room_that_a_name_needs() {
        let columns = || COLUMNS.into_iter().map(|column| (column, 50.0)).collect();
        let shown = |room: f32| shared_out(columns(), ([240.0, 200.0], true), &[Spread::default(); 2], room);
        let has = |columns: &[(Named, f32)]| columns.iter().any(|((column, ..), _)| *column == RunColumn::Details);
        let all = 8.0 * 50.0 + 240.0 + 200.0 + 9.0 * BETWEEN;
        assert_eq!((has(&shown(all)), shown(all).len()), (true, 10));
        let narrower = shown(all - 1.0);
        assert_eq!((has(&narrower), narrower.len()), (false, 9), "no figure goes for it");
        let name = |columns: &[(Named, f32)]| {
            columns.iter().find(|((column, ..), _)| *column == RunColumn::Name).map(|(_, width)| *width)
        };
        assert!(name(&narrower).expect("there") >= 240.0 && name(&shown(420.0)).expect("there") >= NAME_FIRST);
        // In a narrow pane the name is cut before the time and the accuracy go, and the star goes first.
        let has = |columns: &[(Named, f32)], own| columns.iter().any(|((column, ..), _)| *column == own);
        let narrow = shown(BESIDE_FIGURES + 3.0 * (50.0 + BETWEEN));
        assert!(has(&narrow, RunColumn::Started) && has(&narrow, RunColumn::Accuracy), "{narrow:?}");
        assert!(!has(&narrow, RunColumn::Star) && has(&narrow, RunColumn::Measured), "{narrow:?}");
        assert!(name(&narrow).expect("there") >= BESIDE_FIGURES);
    }

    #[test]
    fn one_long_detail_does_not_take_the_room_of_all_names() {
        let mut spread = [Spread::default(); 2];
        (0..20).for_each(|_| spread[0].add(240.0));
        (0..20).for_each(|_| spread[1].add(80.0));
        spread[1].add(400.0);
        let [name, details] = share(330.0, [84.0, 84.0], [240.0, 400.0], &spread);
        assert!(name >= 239.0 && details >= 80.0, "{name} {details}");
        assert_eq!(name + details, 330.0);
    }

    #[test]
    fn figures_that_a_row_tells_on_hover_go_before_a_text_is_narrow() {
        let long = widths([300.0, 300.0], 640.0);
        assert_eq!(of(&long, RunColumn::Device), None);
        assert!(of(&long, RunColumn::Name).expect("there") >= NAME_FIRST - 0.5, "{long:?}");
        let alike = widths([165.0, 0.0], 400.0);
        assert_eq!(of(&alike, RunColumn::Details), None, "nothing is left out");
        assert!(of(&alike, RunColumn::Name).expect("there") >= 165.0, "{alike:?}");
        assert!(of(&widths([165.0, 0.0], ROOM), RunColumn::Details).is_some(), "there is room for all");
        let both = widths([240.0, 240.0], 420.0);
        assert!(of(&both, RunColumn::Name).expect("there") >= WITH_TIME[0], "{both:?}");
        assert!(of(&both, RunColumn::Started).is_some(), "a name is cut before the time goes: {both:?}");
        assert!(of(&both, RunColumn::Details).expect("there") >= TIGHT[1], "a title stands next to its name: {both:?}");
        let some = widths([300.0, 300.0], 460.0);
        assert!(of(&some, RunColumn::Started).is_some(), "a title yields before the time: {some:?}");
        assert!(of(&some, RunColumn::Name).expect("there") >= NAME_FIRST, "{some:?}");
        let narrow = widths([300.0, 300.0], 330.0);
        assert!(of(&narrow, RunColumn::Name).expect("there") >= TIGHT[0], "{narrow:?}");
        assert!(of(&narrow, RunColumn::Details).expect("there") >= TIGHT[1], "{narrow:?}");
        assert!(of(&narrow, RunColumn::Measured).is_some() && of(&narrow, RunColumn::Accuracy).is_some(), "{narrow:?}");
    }
}
