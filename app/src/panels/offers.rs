//! The row of offers under the budget bar: other configurations that fit, each with its saving and its cost, applied by a
//! click.
//!
//! Always holds: the row has one line and one height, with offers, without any, and while they are looked for; an offer
//! stands in it once. Offers without room are in the menu at its end. A double click takes one offer, whatever comes to its
//! place.

mod taken;

use eframe::egui::{self, Align, Button, Layout, RichText, TextStyle, TextWrapMode, Ui, WidgetText, vec2};
use plimsoll_engine::{
    Bytes,
    experiment::PoolPolicy,
    plan::{Advice, Change, HostOffer, Plan, Verdict},
};

use self::taken::is_taken;
use super::PanelContext;
use crate::{
    advice::{self, Shortfall},
    command::{Action, UiCommand},
    format,
    limit::{Limit, no_room, way_words},
    planner::Options,
    theme,
    widgets::{text, tip::Tip as _},
};

/// Configurations offered under one title.
const OFFERED: usize = 3;
/// Share of the line that the sentence why nothing fits may take next to offers.
const SENTENCE_SHARE: f32 = 0.45;

/// The memory that offers are to lower, as it is now.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Needed {
    /// The peak of a run.
    Peak(Bytes),
    /// The host memory of its data, where that is what has no room.
    Host(Bytes),
}

impl Needed {
    fn by(plan: &Plan) -> Self {
        match plan.verdict() {
            Verdict::OverHostBudget { .. } | Verdict::NoRoomForData { .. } => Self::Host(plan.host.total()),
            _ => Self::Peak(plan.load()),
        }
    }

    /// How an offer changes it, in words, and whether it lowers it.
    fn changed(self, offer: &Advice) -> (String, bool) {
        match self {
            Self::Peak(now) => (offer.peak.difference(now), offer.peak < now),
            Self::Host(now) => (format!("{} of host memory", offer.host.difference(now)), offer.host < now),
        }
    }
}

/// A part of the row.
enum Part<'a> {
    /// The title of the offers after it.
    Title(String),
    /// A configuration, and the words of its button in place of its changes.
    Offer(&'a Advice, Option<String>),
    /// Another way to feed the model.
    Way(&'a HostOffer),
}

/// Draws the row.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>, plan: &Plan) {
    let size = vec2(ui.available_width(), theme::OFFERS_HEIGHT);
    let (rect, _) = ui.allocate_exact_size(size, egui::Sense::hover());
    let builder = egui::UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center));
    // A child that takes no room of its own: the line is there in any case.
    let ui = &mut ui.new_child(builder);
    if context.state.prediction.obstacle.is_some() {
        return way_back(ui, context);
    }
    match context.state.prediction.newest_options() {
        None => {
            ui.label(RichText::new("Looking for what else fits…").weak());
        }
        Some(options) if options.is_empty() && options.fill.is_none() => {
            ui.label(RichText::new("No other configuration of this batch is faster or takes less.").weak());
        }
        Some(options) => {
            let parts = parts(plan, options);
            if let Some(shortfall) = &options.shortfall {
                let room = ui.available_width();
                let most =
                    if parts.is_empty() { room } else { beside(ui, plan, &parts, room * (1.0 - SENTENCE_SHARE)) };
                sentence(ui, &why_nothing_fits(shortfall, plan), most);
            }
            row(ui, context, plan, &parts);
        }
    }
}

/// An impossible experiment has no offers: those of the previous one would be taken for its own.
fn way_back(ui: &mut Ui, context: &PanelContext<'_>) {
    ui.label(RichText::new("This is for the last experiment that could be planned.").weak());
    let undo = Button::new("Undo the change");
    if context.state.document.can_undo() && ui.add(undo).tip(UiCommand::Undo.tooltip_with_key(ui.ctx())).clicked() {
        context.send.ui(UiCommand::Undo);
    }
}

/// The part of the line that the offers with `room` leave.
fn beside(ui: &Ui, plan: &Plan, parts: &[Part<'_>], room: f32) -> f32 {
    let (_, taken) = shown(ui, plan, parts, room);
    // The rounding of a text's width.
    ui.available_width() - taken - theme::GAP - ui.spacing().item_spacing.x - 2.0
}

/// Why nothing fits, from the whole to the shortest form.
fn why_nothing_fits(shortfall: &Shortfall, plan: &Plan) -> Vec<String> {
    match shortfall.of_host(plan) {
        Some(_) => no_room(plan),
        None => vec![shortfall.words(plan)],
    }
}

/// The longest form of a sentence that has room in `most` of the line, with the whole of it on hover; the shortest is cut
/// where even that has none.
fn sentence(ui: &mut Ui, forms: &[String], most: f32) {
    let font = TextStyle::Body.resolve(ui.style());
    let Some(words) = forms.iter().find(|words| text::width(ui, words, &font) <= most).or(forms.last()) else { return };
    let shown = RichText::new(words).color(theme::palette(ui).bad);
    ui.scope(|ui| {
        ui.set_max_width(most);
        text::cut(ui, shown, &forms[0]);
    });
    ui.add_space(theme::GAP);
}

/// The parts of the row, in the order of their worth.
fn parts<'a>(plan: &'a Plan, options: &'a Options) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    // Where only the data have no room, another way to feed the model is enough.
    if plan.load() <= plan.line().bytes && !plan.host_offers.is_empty() {
        parts.push(Part::Title("Feed the model otherwise:".to_owned()));
        parts.extend(plan.host_offers.iter().take(OFFERED).map(Part::Way));
    }
    let mut group = |title: String, offers: Vec<&'a Advice>| {
        if !offers.is_empty() {
            parts.push(Part::Title(title));
            parts.extend(offers.into_iter().take(OFFERED).map(|advice| Part::Offer(advice, None)));
        }
    };
    group("Nearest changes that fit:".to_owned(), options.nearest.iter().collect());
    group("Changes of the training that fit:".to_owned(), options.further.iter().collect());
    // A configuration that is one change away is not offered a second time.
    let is_new = |advice: &&Advice| options.nearest.iter().all(|near| near.experiment != advice.experiment);
    // The list leaves out the present configuration, which may be the best itself.
    let is_best = plan.verdict().fits() && options.best.first().is_none_or(|advice| advice.time_ratio >= 1.0);
    let title = match (is_best, options.nearest.is_empty()) {
        (true, _) => "Less memory:".to_owned(),
        (false, true) => format!("Within {}, the fastest first:", format::size(Limit::of(plan).bytes)),
        (false, false) => "Others:".to_owned(),
    };
    group(title, options.best.iter().filter(is_new).collect());
    // A budget that has room. If nothing fits as it is, the nearest changes say it.
    if let Some(fill) = options.fill.as_ref().filter(|_| plan.verdict().fits()) {
        parts.insert(0, Part::Offer(fill, Some(fill_words(plan, fill))));
    }
    parts
}

/// The words of the offer to fill the budget with a larger batch, if there is room for one.
fn fill_words(plan: &Plan, fill: &Advice) -> String {
    let batch = &fill.experiment.batch;
    let micro = format::count(batch.micro as u64);
    let larger = batch.micro > plan.experiment.batch.micro;
    // A pool that takes the whole budget at the start leaves no headroom: free memory lies inside it.
    let is_reserved = plan.target.is_gpu() && plan.experiment.gpu.pool == PoolPolicy::Reserve;
    let title = match (larger, is_reserved) {
        (true, false) => "Use the headroom:",
        (true, true) => "Use the reserved pool:",
        (false, _) => "Largest that fits:",
    };
    format!("{title} micro-batch {micro}")
}

/// How many of the parts have `room`, and their width, with the menu of the others.
fn shown(ui: &Ui, plan: &Plan, parts: &[Part<'_>], room: f32) -> (usize, f32) {
    let gap = ui.spacing().item_spacing.x;
    let more = button_width(ui, &["More ⏷".to_owned()]) + gap;
    let widths: Vec<f32> = parts.iter().map(|part| width(ui, plan, part) + gap).collect();
    let whole: f32 = widths.iter().sum();
    if whole <= room {
        return (parts.len(), whole);
    }
    let mut taken = 0.0;
    let fits = |width: &&f32| {
        taken += **width;
        taken <= room - more
    };
    let mut shown = widths.iter().take_while(fits).count();
    // A title alone at the end goes with its offers.
    shown -= usize::from(shown < parts.len() && matches!(parts[..shown].last(), Some(Part::Title(_))));
    (shown, widths[..shown].iter().sum::<f32>() + more)
}

fn row(ui: &mut Ui, context: &PanelContext<'_>, plan: &Plan, parts: &[Part<'_>]) {
    let (shown, _) = shown(ui, plan, parts, ui.available_width());
    let (here, rest) = parts.split_at(shown);
    here.iter().for_each(|part| draw(ui, context, plan, part));
    if !rest.is_empty() {
        let menu = ui.menu_button("More ⏷", |ui| rest.iter().for_each(|part| draw(ui, context, plan, part)));
        menu.response.accessible_name("More that fits").tip_above("What else fits.");
    }
}

fn draw(ui: &mut Ui, context: &PanelContext<'_>, plan: &Plan, part: &Part<'_>) {
    match part {
        Part::Title(title) => {
            ui.label(RichText::new(title).weak());
        }
        Part::Offer(advice, None) => advice_button(ui, context, advice, Needed::by(plan)),
        Part::Offer(advice, Some(text)) => fill_button(ui, context, plan, advice, text),
        Part::Way(offer) => way_button(ui, context, offer, plan),
    }
}

/// How wide a part is.
fn width(ui: &Ui, plan: &Plan, part: &Part<'_>) -> f32 {
    match part {
        Part::Title(title) => text_width(ui, title),
        Part::Offer(advice, None) => button_width(ui, &button_texts(advice, Needed::by(plan))),
        Part::Offer(_, Some(text)) => button_width(ui, std::slice::from_ref(text)),
        Part::Way(offer) => button_width(ui, &way_texts(offer, plan)),
    }
}

fn text_width(ui: &Ui, text: &str) -> f32 {
    let text = WidgetText::from(text);
    text.into_galley(ui, Some(TextWrapMode::Extend), f32::INFINITY, TextStyle::Button).size().x
}

fn button_width(ui: &Ui, texts: &[String]) -> f32 {
    let gaps = texts.len().saturating_sub(1) as f32 * ui.spacing().icon_spacing;
    texts.iter().map(|text| text_width(ui, text)).sum::<f32>() + gaps + 2.0 * ui.spacing().button_padding.x + 1.0
}

/// The words of a button: the changes, their saving and their cost.
fn button_texts(offer: &Advice, needed: Needed) -> [String; 3] {
    [advice::words(offer), needed.changed(offer).0, format::time_ratio(offer.time_ratio)]
}

/// The words of a button for another way to feed the model: the changes, and what they save.
fn way_texts(offer: &HostOffer, plan: &Plan) -> [String; 2] {
    let saved = offer.host.total().difference(plan.host.total());
    [way_words(offer), format!("{saved} of host memory")]
}

/// Feeds the model in another way.
fn way_button(ui: &mut Ui, context: &PanelContext<'_>, offer: &HostOffer, plan: &Plan) {
    let palette = theme::palette(ui);
    let [name, saves] = way_texts(offer, plan);
    let color = if offer.host.total() < plan.host.total() { palette.good } else { palette.weak() };
    let button = Button::new((name.clone(), RichText::new(saves).color(color)));
    let disk = if offer.host.disk > Bytes::ZERO { format!(", {} of disk", offer.host.disk) } else { String::new() };
    let hover = format!("{} of host memory{disk}. Click to apply it; undo takes it back.", offer.host.total());
    if is_taken(&ui.add(button).accessible_name(name).tip_above(hover)) {
        context.send.send(Action::Adopt(Box::new(offer.experiment.clone())));
    }
}

/// Fills a budget that has room.
fn fill_button(ui: &mut Ui, context: &PanelContext<'_>, plan: &Plan, fill: &Advice, text: &str) {
    let peak = if fill.peak == plan.load() {
        "the peak stays, because the pool holds the whole budget".to_owned()
    } else {
        format!("peak {}", fill.peak)
    };
    let hover = format!(
        "The largest micro-batch that fits: {}, {peak}, {} a sample. The effective batch changes with it, so an epoch has \
         fewer updates, which may need a higher learning rate. Click to apply it; undo takes it back.",
        advice::words(fill),
        format::time_ratio(fill.time_ratio)
    );
    if is_taken(&ui.add(Button::new(text)).accessible_name("Fill the budget").tip_above(hover)) {
        context.send.send(Action::Adopt(Box::new(fill.experiment.clone())));
    }
}

/// A button that adopts a configuration, with its saving and its cost.
pub(crate) fn advice_button(ui: &mut Ui, context: &PanelContext<'_>, offer: &Advice, needed: Needed) {
    let palette = theme::palette(ui);
    let [name, saves, costs] = button_texts(offer, needed);
    let color = if needed.changed(offer).1 { palette.good } else { palette.weak() };
    let button =
        Button::new((name.clone(), RichText::new(saves).color(color), text::estimate(costs).color(palette.weak())));
    let kept =
        if offer.changes.iter().any(|change| matches!(change, Change::Batch(_))) { "" } else { " The batch stays." };
    let host = match needed {
        Needed::Peak(_) => String::new(),
        Needed::Host(_) => format!(", {} of host memory", offer.host),
    };
    let hover = format!(
        "Peak {}{host}, {} a step as an estimate.{kept} Click to apply it; undo takes it back.",
        offer.peak,
        format::secs(offer.step_secs)
    );
    if is_taken(&ui.add(button).accessible_name(name).tip_above(hover)) {
        context.send.send(Action::Adopt(Box::new(offer.experiment.clone())));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, experiment::DataKind, hardware::Machine, plan};

    use super::*;

    #[test]
    fn a_title_is_true_of_all_that_stands_under_it() {
        let experiment = Experiment { budget: Bytes::mib(1), ..Experiment::default() };
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        let offer = |time_ratio| Advice {
            changes: Vec::new(),
            experiment: experiment.clone(),
            peak: Bytes::mib(1),
            host: Bytes::ZERO,
            step_secs: 1.0,
            time_ratio,
        };
        let options = Options { best: vec![offer(0.9), offer(1.06), offer(1.29)], ..Options::default() };
        let titles: Vec<String> = parts(&plan, &options)
            .into_iter()
            .filter_map(|part| match part {
                Part::Title(title) => Some(title),
                Part::Offer(..) | Part::Way(_) => None,
            })
            .collect();
        assert_eq!(titles, ["Within 1 MiB, the fastest first:"]);
    }

    #[test]
    fn offers_for_data_that_have_no_room_say_what_they_save_of_host_memory() {
        let mut experiment = Experiment { budget: Bytes::gib(1), ..Experiment::default() };
        experiment.batch.micro = 256;
        (experiment.data.kind, experiment.data.host_budget) = (DataKind::Shapes, Bytes::mib(12));
        let planned = |experiment: &Experiment| Plan::of(experiment, &Machine::nominal()).expect("a plan");
        let plan = planned(&experiment);
        let offers = plan::advise(&plan, OFFERED, plan::Limit::NONE).expect("a search");
        assert!(!offers.is_empty());
        for offer in &offers {
            let [_, saving, _] = button_texts(offer, Needed::by(&plan));
            let saved = plan.host.total() - planned(&offer.experiment).host.total();
            assert_eq!(saving, format!("-{saved} of host memory"));
        }
        let options = Options::default();
        let parts = parts(&plan, &options);
        let ways: Vec<&HostOffer> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Way(offer) => Some(*offer),
                _ => None,
            })
            .collect();
        assert!(!ways.is_empty());
        for way in ways {
            let told = way_texts(way, &plan);
            assert!(planned(&way.experiment).verdict().fits() && told[1].starts_with('-'), "{told:?}");
        }
        experiment.data.host_budget = Bytes::ZERO;
        assert!(matches!(Needed::by(&planned(&experiment)), Needed::Peak(_)), "nothing is in the way");
    }
}
