//! The threads that draw pictures and write files.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender};
use eframe::egui::{self, ColorImage};
use plimsoll_engine::{report::Kept, store::Store, whole_file};

use super::{Content, Take};
use crate::{
    figure::{Figure, picture::Picture},
    files,
    taken::OfRun,
};

/// The result of taking something out, in words.
pub(crate) type Done = Result<String, String>;

/// Draws and writes, each time on a thread of its own.
#[derive(Debug)]
pub(crate) struct Porter {
    ctx: egui::Context,
    sender: Sender<Done>,
    done: Receiver<Done>,
}

impl Porter {
    /// Threads that wake `ctx` when they are done.
    pub(crate) fn new(ctx: egui::Context) -> Self {
        let (sender, done) = crossbeam_channel::unbounded();
        Self { ctx, sender, done }
    }

    /// Writes content to a file, over an old one.
    pub(crate) fn save(&self, content: Content, take: Take, path: PathBuf) {
        self.work(move |_| match written(&content, take, &path) {
            Ok(()) => Ok(format!("Saved {}", path.display())),
            Err(error) => Err(format!("{} was not written: {error:#}", path.display())),
        });
    }

    /// Puts something on the clipboard.
    pub(crate) fn copy(&self, content: Content) {
        match content {
            Content::Text(text) => {
                self.ctx.copy_text(text);
                // The window takes it whenever it wants to.
                let _ = self.sender.send(Ok("Copied the data".to_owned()));
            }
            // It is a file alone.
            Content::Model(..) => {}
            Content::Figure(figure) => self.work(move |ctx| match image(&figure) {
                Ok(image) => {
                    ctx.copy_image(image);
                    Ok("Copied the chart".to_owned())
                }
                Err(error) => Err(format!("the chart was not drawn: {error:#}")),
            }),
        }
    }

    /// The results since the last call.
    pub(crate) fn done(&self) -> impl Iterator<Item = Done> + '_ {
        self.done.try_iter()
    }

    fn work(&self, work: impl FnOnce(&egui::Context) -> Done + Send + 'static) {
        let (ctx, sender) = (self.ctx.clone(), self.sender.clone());
        let thread = std::thread::Builder::new().name("pictures".to_owned()).spawn(move || {
            // The window may have closed meanwhile.
            let _ = sender.send(work(&ctx));
            ctx.request_repaint();
        });
        if let Err(error) = thread {
            let _ = self.sender.send(Err(format!("the system provides no thread for it: {error}")));
        }
    }
}

fn written(content: &Content, take: Take, path: &Path) -> anyhow::Result<()> {
    files::is_outside_stores(path)?;
    let bytes = match content {
        Content::Text(text) => text.clone().into_bytes(),
        Content::Model(store, key) => {
            let run = OfRun::new(Kept::read(&Store::open(store)?, key)?, false)?;
            return run.write_compressed(path).map(drop);
        }
        Content::Figure(figure) if take == Take::SavePng => Picture::of(figure)?.png()?,
        Content::Figure(figure) => figure.svg().into_bytes(),
    };
    Ok(whole_file::write_where_led(path, &bytes)?)
}

fn image(figure: &Figure) -> anyhow::Result<ColorImage> {
    let picture = Picture::of(figure)?;
    Ok(ColorImage::from_rgb([picture.width as usize, picture.height as usize], &picture.rgb))
}
