//! The findings about the model that is tried, as the pane shows them.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use eframe::egui::{ColorImage, Context, TextureHandle, TextureOptions};
use plimsoll_engine::{
    data::{Alphabet, Picture},
    train::{Evaluation, Reply, Took},
};

use super::{Found, Of, What};
use crate::{format, session::RunKey, theme, view::TryOut};

/// Samples that are held as pictures or rows.
const HELD: usize = 512;
/// Models whose findings are kept after another one is tried.
const KEPT: usize = 12;

/// A picture on the graphics card.
#[derive(Clone)]
pub(crate) struct Drawn(pub(crate) TextureHandle);

impl fmt::Debug for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Drawn").field(&self.0.size()).finish()
    }
}

impl Drawn {
    /// A picture, with the classes of its pixels over it where they were answered.
    fn of(ctx: &Context, picture: &Picture, mask: &[u32]) -> Self {
        let mut pixels: Vec<_> = picture.colours();
        for (pixel, class) in pixels.iter_mut().zip(mask) {
            if let Some(colour) = theme::mask(*class) {
                *pixel = std::array::from_fn(|i| (u16::from(pixel[i]) / 2 + u16::from(colour[i]) / 2) as u8);
            }
        }
        let bytes: Vec<u8> = pixels.into_iter().flatten().collect();
        let image = ColorImage::from_rgb([picture.width, picture.height], &bytes);
        Self(ctx.load_texture("picture", image, TextureOptions::NEAREST))
    }
}

/// The findings about the model that is tried.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// Whose model it is.
    pub(crate) of: Option<Of>,
    /// The alphabet of its prompts; `None` for a model that takes no prompt.
    pub(crate) alphabet: Option<Alphabet>,
    /// The run that was shown last.
    pub(crate) shown: Option<RunKey>,
    /// The weights of the present experiment are tried, although a run is shown.
    pub(crate) prefers_weights: bool,
    /// Tells it from those before.
    pub(crate) number: u64,
    /// Evaluated, if that was asked for and is not there yet.
    pub(crate) is_testing: bool,
    /// Samples that the test under way has answered, and all of them; `None` before that is known.
    pub(crate) tested: Option<(usize, usize)>,
    /// Text is being written.
    pub(crate) is_writing: bool,
    /// Why the last thing was not done.
    pub(crate) trouble: Option<String>,
    /// The test set, evaluated.
    pub(crate) evaluation: Option<Box<Evaluation>>,
    /// Samples of it by number.
    pub(crate) samples: HashMap<usize, Drawn>,
    /// Rows of it by number, with their answers.
    pub(crate) rows: HashMap<usize, Box<Reply>>,
    /// The samples that were asked for.
    pub(crate) asked: HashSet<usize>,
    /// The answer to a picture, and the picture.
    pub(crate) reply: Option<(Box<Reply>, Drawn)>,
    /// The prompt, and its continuation.
    pub(crate) written: String,
    /// How many bytes of that are the prompt.
    pub(crate) prompt_bytes: usize,
    /// The memory of the writing.
    pub(crate) wrote: Option<Took>,
    /// A warning about the written text.
    pub(crate) wrote_with: Option<String>,
    /// The findings about models that were tried before, each with its view; the newest last.
    others: Vec<(Trial, TryOut)>,
}

impl Trial {
    /// Turns to another model. The findings about the one before are kept, with its view `looked`; earlier findings about
    /// the other one return.
    pub(crate) fn turn_to(&mut self, of: Option<Of>, alphabet: Option<Alphabet>, looked: &mut TryOut) {
        let Self { shown, prefers_weights, .. } = *self;
        let mut others = std::mem::take(&mut self.others);
        let next = others.iter().map(|(trial, _)| trial.number).max().unwrap_or_default().max(self.number) + 1;
        let known = others.iter().position(|(trial, _)| of.is_some() && trial.of == of).map(|at| others.remove(at));
        let fresh = TryOut { sampling: looked.sampling, ..TryOut::default() };
        let (trial, look) = known.unwrap_or_else(|| (Self { of, alphabet, number: next, ..Self::default() }, fresh));
        let mut left = std::mem::replace(self, trial);
        let left_look = std::mem::replace(looked, look);
        if left.of.is_some() && left.is_of_use() {
            left.forget_samples();
            // What went wrong was of a moment; the figures that it hid are there again on the way back.
            left.trouble = None;
            others.push((left, left_look));
            others.drain(..others.len().saturating_sub(KEPT));
        }
        (self.shown, self.prefers_weights, self.others) = (shown, prefers_weights, others);
    }

    /// Whether anything was found, or is being looked for.
    fn is_of_use(&self) -> bool {
        self.is_testing || self.evaluation.is_some() || self.reply.is_some() || !self.written.is_empty()
    }

    /// A warning if the data, or the tokens, are no longer those that the model learned from.
    pub(crate) fn caution(&self) -> Option<&str> {
        let of_test = self.evaluation.as_ref().and_then(|evaluation| evaluation.caution.as_deref());
        let of_reply = || self.reply.as_ref().and_then(|(reply, _)| reply.caution.as_deref());
        of_test.or_else(of_reply).or(self.wrote_with.as_deref())
    }

    /// The words for a test under way: how far it is, as soon as that is known.
    pub(crate) fn under_way(&self) -> Option<String> {
        let words = |(done, of): (usize, usize)| {
            let of = format::counted(of as u64, "sample");
            format!("Testing: {} of {of} answered", format::count(done as u64))
        };
        self.is_testing.then(|| self.tested.map_or_else(|| "Reading the model and its data".to_owned(), words))
    }

    fn forget_samples(&mut self) {
        self.samples.clear();
        self.rows.clear();
        self.asked.clear();
    }

    fn make_room(&mut self) {
        if self.samples.len().max(self.rows.len()) >= HELD {
            self.forget_samples();
        }
    }

    /// Takes in findings, about the present model or an earlier one.
    pub(crate) fn take(&mut self, ctx: &Context, found: Found) {
        if found.number != self.number {
            let other = self.others.iter_mut().find(|(trial, _)| trial.number == found.number);
            // Samples are asked for again where they are looked at.
            if let Some((trial, _)) = other.filter(|_| !matches!(found.what, What::Sample(..) | What::Row(..))) {
                trial.take(ctx, found);
            }
            return;
        }
        match found.what {
            What::Testing(done, of) => self.tested = Some((done, of)),
            What::Evaluated(evaluation) => {
                (self.is_testing, self.tested, self.trouble) = (false, None, None);
                // The masks of another checkpoint are others.
                self.forget_samples();
                self.evaluation = Some(evaluation);
            }
            What::Sample(index, picture, mask) => {
                self.make_room();
                self.samples.insert(index, Drawn::of(ctx, &picture, &mask));
            }
            What::Row(index, reply) => {
                self.make_room();
                self.rows.insert(index, reply);
            }
            What::Replied(reply) => {
                self.trouble = None;
                self.reply = reply
                    .picture
                    .as_ref()
                    .map(|picture| Drawn::of(ctx, picture, &reply.mask))
                    .map(|drawn| (reply, drawn));
            }
            What::Text(text) => self.written.push_str(&text),
            What::Wrote(took, caution) => {
                (self.is_writing, self.trouble) = (false, None);
                (self.wrote, self.wrote_with) = (Some(took), caution);
            }
            What::Failed(why) => {
                (self.is_testing, self.tested, self.is_writing) = (false, None, false);
                self.trouble = Some(why);
            }
        }
    }
}
