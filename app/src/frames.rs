//! How long a frame takes the processor, from input to the finished picture: a figure on screen, from real frames.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use eframe::egui;

/// Frames looked at.
const WINDOW: usize = 300;

/// Times of the last frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    millis: VecDeque<f32>,
}

impl Frames {
    /// Notes a frame.
    pub(crate) fn record(&mut self, secs: f32) {
        self.millis.push_back(secs * 1e3);
        if self.millis.len() > WINDOW {
            self.millis.pop_front();
        }
    }

    /// Median and 95th percentile, in milliseconds.
    pub(crate) fn percentiles(&self) -> Option<(f32, f32)> {
        let mut sorted: Vec<f32> = self.millis.iter().copied().collect();
        sorted.sort_by(f32::total_cmp);
        let at = |share: f32| sorted.get((sorted.len().checked_sub(1)? as f32 * share).round() as usize).copied();
        Some((at(0.5)?, at(0.95)?))
    }

    /// Draws the figure in the corner.
    pub(crate) fn ui(&self, ui: &egui::Ui) {
        let Some((median, p95)) = self.percentiles() else { return };
        let text = format!("frame {median:.2} ms median, {p95:.2} ms p95 (last {})", self.millis.len());
        egui::Area::new(egui::Id::unique("frame times"))
            .anchor(egui::Align2::RIGHT_BOTTOM, [-12.0, -52.0])
            .interactable(false)
            .show(ui.ctx(), |ui| {
                egui::Frame::popup(ui.style())
                    .show(ui, |ui| ui.add(egui::Label::new(egui::RichText::new(text).monospace()).extend()))
            });
    }
}

/// News of the trainer are drawn this much later at least. Not zero: that would draw two frames for each.
const SOONEST: Duration = Duration::from_millis(16);
/// News of the trainer are drawn this much later at most.
const LATEST: Duration = Duration::from_millis(500);
/// The least time between frames that the processor draws, because it takes all of its cores for them.
const SOONEST_BY_SOFTWARE: Duration = Duration::from_millis(250);
/// A frame that takes longer is drawn by the processor, or nearly so.
const SLOW: Duration = Duration::from_millis(25);
/// How many times as long as a slow frame the trainer has the cores for itself.
const SHARE: u32 = 6;
/// Frames drawn at once to measure the time of one.
const PROBED: u32 = 4;

/// Parts of the names of renderers that draw on the processor: Mesa's, ANGLE's, and those of Windows and macOS.
const SOFTWARE: [&str; 7] =
    ["llvmpipe", "softpipe", "swrast", "swiftshader", "software", "microsoft basic render", "gdi generic"];

/// How soon news from the trainer is drawn: at once where frames are quick, and where the processor draws them (a window
/// without a graphics driver) seldom enough to leave the trainer its cores. A processor that draws quickly takes all of its
/// cores for it, so the name of the renderer counts as well as the time.
///
/// Owns the time of a whole frame with its painting, which only the next frame can tell: at the start of a run a few are
/// drawn one after the other.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    delay_micros: Arc<AtomicU64>,
    left: u32,
    least: Option<Duration>,
    begun: Option<Instant>,
    is_software: bool,
}

impl Pace {
    /// A function that gives a worker the time to wait.
    pub(crate) fn delay(&self) -> impl Fn() -> Duration + Send + use<> {
        let micros = Arc::clone(&self.delay_micros);
        move || Duration::from_micros(micros.load(Ordering::Relaxed)).max(SOONEST)
    }

    /// Notes the name of the renderer, as OpenGL gives it.
    pub(crate) fn drawn_by(&mut self, renderer: &str) {
        let renderer = renderer.to_lowercase();
        self.is_software = SOFTWARE.iter().any(|name| renderer.contains(name));
    }

    /// A run begins: measure the time of a frame again.
    pub(crate) fn probe(&mut self) {
        (self.left, self.least) = (PROBED, None);
    }

    /// A frame begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        let Some(begun) = self.begun.replace(now).filter(|_| self.left > 0) else { return };
        let took = now.saturating_duration_since(begun);
        let least = self.least.map_or(took, |least| least.min(took));
        (self.least, self.left) = (Some(least), self.left - 1);
        let delay = match (self.is_software, least < SLOW) {
            (true, _) => (least * SHARE).clamp(SOONEST_BY_SOFTWARE, LATEST),
            (false, true) => SOONEST,
            (false, false) => (least * SHARE).min(LATEST),
        };
        self.delay_micros.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// Whether the next frame is to follow at once.
    pub(crate) fn is_probing(&self) -> bool {
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_frames_are_drawn_seldom_and_quick_ones_at_once() {
        let delay_after = |millis: &[u64]| {
            let mut pace = Pace::default();
            let (delay, mut now) = (pace.delay(), Instant::now());
            pace.begin(now);
            pace.probe();
            for step in millis {
                now += Duration::from_millis(*step);
                pace.begin(now);
            }
            assert_eq!(pace.is_probing(), millis.len() < PROBED as usize);
            delay()
        };
        assert_eq!(delay_after(&[]), SOONEST);
        assert_eq!(delay_after(&[300, 17, 16, 17]), SOONEST);
        assert_eq!(delay_after(&[90, 50, 60]), Duration::from_millis(300));
        assert_eq!(delay_after(&[900, 800, 700, 600]), LATEST);
        assert_eq!(delay_after(&[900, 800, 700, 600, 1]), LATEST, "only the frames of the probe count");
    }

    #[test]
    fn a_renderer_on_the_processor_is_known_by_its_name() {
        for (renderer, soon) in [
            ("llvmpipe (LLVM 19.1.7, 256 bits)", 250),
            ("ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero) (0x0000C0DE)))", 250),
            ("Apple Software Renderer", 250),
            ("NVIDIA GeForce RTX 4060/PCIe/SSE2", 16),
            ("Mesa Intel(R) UHD Graphics 630 (CFL GT2)", 16),
            ("", 16),
        ] {
            let mut pace = Pace::default();
            let (delay, mut now) = (pace.delay(), Instant::now());
            pace.drawn_by(renderer);
            pace.begin(now);
            pace.probe();
            for _ in 0..PROBED {
                now += Duration::from_millis(20);
                pace.begin(now);
            }
            assert_eq!(delay(), Duration::from_millis(soon), "{renderer}");
        }
    }

    #[test]
    fn percentiles_are_of_the_last_frames_only() {
        let mut frames = Frames::default();
        assert_eq!(frames.percentiles(), None);
        for millis in (0..WINDOW).map(|_| 900).chain(1..=WINDOW) {
            frames.record(millis as f32 / 1e3);
        }
        let (median, p95) = frames.percentiles().expect("frames were drawn");
        assert!((median - 150.0).abs() < 2.0 && (p95 - 285.0).abs() < 2.0, "{median} {p95}");
    }
}
