//! How long a frame takes the processor, from input to the finished picture: a figure on screen, from real frames.

use std::collections::VecDeque;

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

#[cfg(test)]
mod tests {
    use super::*;

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
