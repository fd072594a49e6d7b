//! What is known from frame to frame: the sides of names by their runs, and what was laid out.

use std::{collections::HashMap, sync::Arc};

use eframe::egui::{Pos2, Rect, Ui, Vec2};
use egui_plot::PlotTransform;

use super::{
    settle::{Found, Sized, settle},
    words::FORMS,
};
use crate::{session::RunKey, widgets::places::Places};

/// The side of a name.
#[derive(Debug, Clone, Copy)]
struct Side {
    /// The first that it had next to its point: it is there again in a view that was moved and moved back.
    home: Option<usize>,
    /// Where it stood last.
    last: usize,
    /// Whether its point stayed there: the name of one that moves makes room for the others where it comes to rest.
    is_settled: bool,
}

/// The sides of all names that ever were in the picture, and the picture that they were in. A name keeps its side while it is
/// not drawn, and stays with the name that it joined while the picture is the same.
#[derive(Debug, Clone)]
pub(super) struct Sides {
    size: Vec2,
    view: [[f64; 2]; 2],
    /// Whether the axes show all of it, and grow with it.
    is_whole: bool,
    /// Whether only those that nothing beats had names.
    is_crowd: bool,
    of: HashMap<RunKey, Side>,
    /// The names that others joined.
    hosts: HashMap<RunKey, RunKey>,
}

impl Sides {
    /// The sides of the last frame, and whether its picture is drawn again: as large, and of the same view, or of all runs.
    pub(super) fn of_last(ui: &Ui, transform: &PlotTransform, is_whole: bool, is_crowd: bool) -> (Self, bool) {
        let now = Self::new(transform, is_whole, is_crowd);
        let Some(last) = ui.data(|data| data.get_temp::<Self>(id(ui))) else { return (now, false) };
        let is_same_view = last.view == now.view || last.is_whole && is_whole;
        let stays = (last.size - now.size).abs().max_elem() < 1.0 && is_same_view && last.is_crowd == is_crowd;
        let hosts = if stays { last.hosts } else { HashMap::new() };
        (Self { of: last.of, hosts, ..now }, stays)
    }

    fn new(transform: &PlotTransform, is_whole: bool, is_crowd: bool) -> Self {
        let bounds = transform.bounds();
        let (size, view) = (transform.frame().size(), [bounds.min(), bounds.max()]);
        Self { size, view, is_whole, is_crowd, of: HashMap::new(), hosts: HashMap::new() }
    }

    /// The side that a name has; in the same picture where it stood last.
    pub(super) fn get(&self, run: RunKey, stays: bool) -> Option<usize> {
        let side = self.of.get(&run)?;
        if stays { Some(side.last) } else { side.home }
    }

    /// Whether a name was that of a point at rest in the last picture.
    pub(super) fn is_settled(&self, run: RunKey) -> bool {
        self.of.get(&run).is_some_and(|side| side.is_settled)
    }

    /// Notes where a name stands, and whether its point is at rest.
    pub(super) fn stands(&mut self, run: RunKey, (side, has_leader): (usize, bool), is_settled: bool) {
        let home = self.of.get(&run).and_then(|known| known.home).or((!has_leader).then_some(side));
        self.of.insert(run, Side { home, last: side, is_settled });
    }

    /// Has a name stand with that of another run from now on.
    pub(super) fn join(&mut self, run: RunKey, host: RunKey) {
        self.hosts.remove(&host);
        self.hosts.insert(run, host);
    }

    /// The run that a run's name stands with.
    pub(super) fn host(&self, run: RunKey) -> Option<RunKey> {
        self.hosts.get(&run).copied()
    }

    /// Keeps them for the next frame.
    pub(super) fn keep(self, ui: &Ui) {
        ui.data_mut(|data| data.insert_temp(id(ui), self));
    }
}

fn id(ui: &Ui) -> eframe::egui::Id {
    ui.scope_id().with("sides of names")
}

/// The picture that names were laid out in.
#[derive(Debug, PartialEq)]
pub(super) struct Picture {
    pub(super) frame: Rect,
    /// The rooms of the points that stay.
    pub(super) rooms: Vec<Rect>,
    pub(super) lines: Vec<[Pos2; 2]>,
    pub(super) names: Vec<Sized>,
    pub(super) first: usize,
}

struct Laid {
    picture: Picture,
    after: (Places, Vec<Found>),
}

/// The places of settled names: those of the last frame, if its picture is the same. To find them takes long where there are many.
pub(super) fn settled(ui: &Ui, places: &Places, picture: Picture) -> (Places, Vec<Found>) {
    let id = ui.scope_id().with("settled names");
    let known: Option<Arc<Laid>> = ui.data(|data| data.get_temp(id));
    if let Some(laid) = known.filter(|laid| laid.picture == picture) {
        return laid.after.clone();
    }
    let after = settle(places, &picture.names, picture.first);
    ui.data_mut(|data| data.insert_temp(id, Arc::new(Laid { picture, after: after.clone() })));
    after
}

/// The words of names in all forms, by what they were made of.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) own: Vec<String>,
    pub(super) numbers: Vec<String>,
    pub(super) texts: Vec<[String; FORMS]>,
}

/// The words of these names: those of the last frame, if the names are the same.
pub(super) fn told(
    ui: &Ui,
    own: Vec<String>,
    numbers: Vec<String>,
    make: fn(&[String], &[String]) -> Vec<[String; FORMS]>,
) -> Arc<Told> {
    let id = ui.scope_id().with("words of names");
    let known: Option<Arc<Told>> = ui.data(|data| data.get_temp(id));
    if let Some(told) = known.filter(|told| told.own == own && told.numbers == numbers) {
        return told;
    }
    let texts = make(&own, &numbers);
    let told = Arc::new(Told { own, numbers, texts });
    ui.data_mut(|data| data.insert_temp(id, Arc::clone(&told)));
    told
}

/// Notes whether numbers alone stand at points: the legend then tells the names, from the next frame on.
pub(super) fn note_numbers(ui: &Ui, are: bool) {
    if are != are_numbers(ui) {
        ui.data_mut(|data| data.insert_temp(numbers_id(ui), are));
        ui.ctx().request_repaint();
    }
}

/// Whether numbers alone stand at points.
pub(in crate::panels::tradeoff) fn are_numbers(ui: &Ui) -> bool {
    ui.data(|data| data.get_temp(numbers_id(ui))).unwrap_or_default()
}

fn numbers_id(ui: &Ui) -> eframe::egui::Id {
    ui.scope_id().with("numbers at points")
}
