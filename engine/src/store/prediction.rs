//! The prediction that a run began with, as it is kept: its peaks by phase and category, its layers, its timelines.
//!
//! A plan belongs to the machine and the program that made it, so its figures are kept and not the plan.

use std::io::Read;

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use serde::{Deserialize, Serialize};

use crate::{
    memory::{Categories, Category, Phase, Timeline},
    plan::{LayerRow, Pass, Peak, Plan},
};

/// The largest prediction that is read.
const MOST_BYTES: u64 = 256 << 20;

/// The prediction of a kept run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The budget.
    pub budget_bytes: u64,
    /// The bytes that count against it.
    pub load_bytes: u64,
    /// The highest memory of the whole run.
    pub peak: Peak,
    /// The pass that reaches it.
    pub peak_pass: Pass,
    /// Bytes by category at the peak.
    pub categories_at_peak: Categories,
    /// The highest moment of each pass.
    pub passes: Vec<PassPeak>,
    /// The blocks alive at the peak, largest first.
    pub alive_at_peak: Vec<Block>,
    /// Layers in forward order.
    pub layers: Vec<LayerRow>,
    /// Parameters of the model.
    pub parameters: u64,
    /// How many of them are trained.
    pub trained: u64,
    /// Host memory of the data set and of its loaders, outside the budget; of the data set alone in older runs.
    pub host_data_bytes: u64,
    /// Optimizer steps of the whole run.
    pub total_steps: u64,
    /// Optimizer steps of one epoch.
    pub steps_per_epoch: u64,
    /// Predicted seconds of one optimizer step.
    pub step_secs: f64,
    /// The timelines of a step after the first, and of the pass that reaches the peak.
    pub timelines: Vec<StoredTimeline>,
}

/// The highest moment of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassPeak {
    /// The pass.
    pub pass: Pass,
    /// Bytes alive.
    pub live_bytes: u64,
    /// The operation.
    pub op: String,
    /// The layer it runs for.
    pub layer: String,
    /// Bytes by category.
    pub categories: Categories,
}

/// A block that is alive at the peak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its name, such as `weight` or `output`.
    pub name: String,
    /// Path of the layer that owns it.
    pub layer: String,
    /// Its purpose.
    pub category: Category,
    /// The tensor's size.
    pub bytes: u64,
}

/// A timeline as it is kept: a column for each part of its points, all of one length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredTimeline {
    /// The pass.
    pub pass: Pass,
    /// Names of the operations.
    pub ops: Vec<String>,
    /// Paths of the layers.
    pub layers: Vec<String>,
    /// The operation of each point, by its place in `ops`.
    pub op: Vec<u32>,
    /// The layer of each point, by its place in `layers`.
    pub layer: Vec<u32>,
    /// The part of the step of each point.
    pub phase: Vec<Phase>,
    /// Highest bytes alive at each point.
    pub live_bytes: Vec<u64>,
    /// The same bytes by category, in the order of [`Category::ALL`]; an empty category has no column.
    pub categories: Vec<(Category, Vec<u64>)>,
}

impl Prediction {
    /// The prediction of a plan.
    pub fn of(plan: &Plan) -> Self {
        let timelines = Pass::kept(plan.peak_pass).map(|pass| StoredTimeline::of(pass, plan.timeline(pass))).collect();
        let block = |alive: &crate::memory::Alive| Block {
            name: alive.name.to_owned(),
            layer: alive.layer.clone(),
            category: alive.category,
            bytes: alive.bytes,
        };
        Self {
            budget_bytes: plan.budget.0,
            load_bytes: plan.load().0,
            peak: plan.peak,
            peak_pass: plan.peak_pass,
            categories_at_peak: plan.categories_at_peak,
            passes: plan.passes().filter_map(|pass| PassPeak::of(pass, plan.timeline(pass))).collect(),
            alive_at_peak: plan.alive_at_peak.iter().map(block).collect(),
            layers: plan.layers.clone(),
            parameters: plan.parameters,
            trained: plan.trained,
            host_data_bytes: plan.host.total().0,
            total_steps: plan.total_steps,
            steps_per_epoch: plan.steps_per_epoch,
            step_secs: plan.step_secs,
            timelines,
        }
    }

    /// The prediction of a run that goes on, after a sitting that was predicted `earlier`. It is that of the sitting with the
    /// higher peak, because measurements are the highest of all sittings, and what is left of a run may take less than what
    /// was done.
    pub(super) fn after(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier.filter(|earlier| earlier.kept_step_secs().is_some()) else { return self };
        let peak = self.peak.max(earlier.peak);
        let Self { budget_bytes, total_steps, steps_per_epoch, .. } = self;
        let higher = if earlier.load_bytes >= self.load_bytes { earlier } else { self };
        Self { budget_bytes, peak, total_steps, steps_per_epoch, ..higher }
    }

    /// Predicted seconds of one optimizer step; `None` if nothing is kept.
    pub fn kept_step_secs(&self) -> Option<f64> {
        (self.step_secs > 0.0).then_some(self.step_secs)
    }

    /// The timeline of a pass, where it is kept.
    pub fn timeline(&self, pass: Pass) -> Option<&StoredTimeline> {
        self.timelines.iter().find(|timeline| timeline.pass == pass)
    }

    /// The prediction as compressed JSON.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        // A vector accepts every write, and all keys here are texts.
        let written = serde_json::to_writer(&mut encoder, self).is_ok();
        encoder.finish().ok().filter(|_| written).unwrap_or_default()
    }

    /// Reads [`Prediction::to_bytes`]; `None` for other bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut text = Vec::new();
        ZlibDecoder::new(bytes).take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl PassPeak {
    fn of(pass: Pass, timeline: &Timeline) -> Option<Self> {
        let point = &timeline.points[timeline.peak_index()?];
        Some(Self {
            pass,
            live_bytes: point.live.0,
            op: point.op.to_owned(),
            layer: timeline.layer(point.layer).to_owned(),
            categories: point.categories,
        })
    }
}

impl StoredTimeline {
    /// The kept form of a pass's timeline.
    pub fn of(pass: Pass, timeline: &Timeline) -> Self {
        let points = &timeline.points;
        let mut ops: Vec<String> = Vec::new();
        let mut place = |op: &str| {
            let known = ops.iter().position(|known| known == op);
            known.unwrap_or_else(|| {
                ops.push(op.to_owned());
                ops.len() - 1
            }) as u32
        };
        let op = points.iter().map(|point| place(point.op)).collect();
        let is_used = |category: &Category| points.iter().any(|point| point.categories.get(*category).0 > 0);
        let column = |category| (category, points.iter().map(|point| point.categories.get(category).0).collect());
        Self {
            pass,
            ops,
            layers: timeline.layers.to_vec(),
            op,
            layer: points.iter().map(|point| point.layer.0).collect(),
            phase: points.iter().map(|point| point.phase).collect(),
            live_bytes: points.iter().map(|point| point.live.0).collect(),
            categories: Category::ALL.into_iter().filter(is_used).map(column).collect(),
        }
    }

    /// How many points it has.
    pub fn len(&self) -> usize {
        self.live_bytes.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.live_bytes.is_empty()
    }

    /// The operation of a point.
    pub fn op_name(&self, point: usize) -> &str {
        name(&self.ops, &self.op, point)
    }

    /// The layer of a point.
    pub fn layer_path(&self, point: usize) -> &str {
        name(&self.layers, &self.layer, point)
    }
}

fn name<'a>(names: &'a [String], places: &[u32], point: usize) -> &'a str {
    let place = places.get(point).map_or(usize::MAX, |place| *place as usize);
    names.get(place).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiment::Experiment, hardware::Machine};

    #[test]
    fn a_run_of_one_step_has_no_later_one() {
        let mut experiment = Experiment::default();
        let passes = |experiment: &Experiment| {
            let kept = Prediction::of(&Plan::of(experiment, &Machine::nominal()).expect("a plan"));
            let highest = kept.passes.iter().map(|pass| pass.live_bytes).max();
            assert_eq!(highest, Some(kept.peak.live.0));
            kept.passes.into_iter().map(|pass| pass.pass).collect::<Vec<_>>()
        };
        experiment.run.steps = Some(2);
        assert_eq!(passes(&experiment), [Pass::First, Pass::Steady, Pass::Evaluate, Pass::Save]);
        experiment.run.steps = Some(1);
        assert_eq!(passes(&experiment), [Pass::First, Pass::Evaluate, Pass::Save]);
    }

    #[test]
    fn what_a_plan_says_is_read_as_it_was_written() {
        let plan = Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan");
        let kept = Prediction::of(&plan);
        let read = Prediction::from_bytes(&kept.to_bytes()).expect("read");
        // Text may round the last bit of a number.
        assert_eq!(Prediction { step_secs: kept.step_secs, ..read }, kept);
        let steady = kept.timeline(Pass::Steady).expect("kept");
        assert_eq!(steady.len(), plan.steady.points.len());
        for (at, point) in plan.steady.points.iter().enumerate() {
            let sum: u64 = steady.categories.iter().map(|(_, bytes)| bytes[at]).sum();
            let total = point.categories.total().0;
            assert_eq!((steady.op_name(at), steady.live_bytes[at], sum), (point.op, point.live.0, total));
            assert_eq!(steady.layer_path(at), plan.steady.layer(point.layer));
        }
        let highest = kept.passes.iter().map(|pass| pass.live_bytes).max();
        assert_eq!(highest, Some(plan.peak.live.0));
        assert_eq!(kept.alive_at_peak.iter().map(|block| block.bytes).sum::<u64>(), plan.peak.live.0);
        assert!(Prediction::from_bytes(&kept.to_bytes()[..100]).is_none() && Prediction::from_bytes(b"x").is_none());
    }
}
