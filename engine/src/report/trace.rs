//! A run's passes as a trace that Perfetto and Chrome open: a slice for each op, and memory by category under them.
//!
//! Owns the JSON of the trace-event format (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>).
//! Always holds: the passes follow each other on one axis of predicted time; slices of one track nest or lie apart; at every
//! op the counters of the categories add up to what is alive then. Times are estimates, bytes are not. An op of a kept run has the
//! way in which it ran, where that was measured.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    memory::{Category, Point, Timeline},
    plan::{Pass, Plan},
};

/// The one process of the trace.
const PROCESS: u32 = 1;
/// The track of the phases; the tracks of the layers follow.
const PHASES: u32 = 1;
/// Slices are at least this many microseconds long: one of no length is not seen.
const SHORTEST: f64 = 1e-3;
const MICROS: f64 = 1e6;

/// One event of the format.
#[derive(Debug, Serialize)]
struct Event<'a> {
    name: &'a str,
    /// The kind of event: `X` a slice, `C` a counter, `M` a name.
    ph: &'static str,
    pid: u32,
    tid: u32,
    /// Microseconds since the start.
    ts: f64,
    /// Microseconds that it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'static str,
    args: Value,
}

/// The trace of some passes as JSON, each with the predicted seconds of its ops, one for each point of its timeline. `ways` are
/// those of the ops of one of them in a run, empty for an op that has only one.
pub fn json(plan: &Plan, passes: &[(Pass, Vec<f64>)], ways: Option<(Pass, &[String])>) -> String {
    let mut writer = Writer::new(plan);
    for (pass, secs) in passes {
        let ways = ways.filter(|(of, _)| of == pass).map_or(&[][..], |(_, ways)| ways);
        writer.pass(*pass, secs, ways);
    }
    writer.finish()
}

struct Writer<'a> {
    plan: &'a Plan,
    events: Vec<Event<'a>>,
    /// The track of each block of layers, by the first part of its path.
    tracks: BTreeMap<&'a str, u32>,
    /// The categories that hold something in some pass.
    categories: Vec<Category>,
    /// Microseconds so far.
    now: f64,
}

impl<'a> Writer<'a> {
    fn new(plan: &'a Plan) -> Self {
        let points = || plan.passes().flat_map(|pass| &plan.timeline(pass).points);
        let holds = |category: &Category| points().any(|point| point.categories.get(*category).0 > 0);
        let categories = Category::ALL.into_iter().filter(holds).collect();
        let mut writer = Self { plan, events: Vec::new(), tracks: BTreeMap::new(), categories, now: 0.0 };
        let title = format!("{} on {} (predicted)", plan.experiment.title, plan.experiment.device);
        writer.named("process_name", PHASES, &title);
        writer.track("phases", PHASES);
        writer
    }

    fn named(&mut self, what: &'static str, track: u32, name: &str) {
        let args = json!({ "name": name });
        self.events.push(Event { name: what, ph: "M", pid: PROCESS, tid: track, ts: 0.0, dur: None, cat: "", args });
    }

    fn track(&mut self, name: &str, track: u32) {
        self.named("thread_name", track, name);
        let args = json!({ "sort_index": track });
        let name = "thread_sort_index";
        self.events.push(Event { name, ph: "M", pid: PROCESS, tid: track, ts: 0.0, dur: None, cat: "", args });
    }

    /// The track of a layer: the track of the block it belongs to.
    fn track_of(&mut self, layer: &'a str) -> u32 {
        let block = layer.split('/').next().filter(|block| !block.is_empty()).unwrap_or("step");
        if let Some(track) = self.tracks.get(block) {
            return *track;
        }
        let track = PHASES + 1 + self.tracks.len() as u32;
        self.tracks.insert(block, track);
        self.track(block, track);
        track
    }

    fn slice(&mut self, name: &'a str, tid: u32, cat: &'static str, (from, to): (f64, f64), args: Value) {
        self.events.push(Event { name, ph: "X", pid: PROCESS, tid, ts: from, dur: Some(to - from), cat, args });
    }

    fn counters(&mut self, point: &Point) {
        let bytes = |category: &Category| (category.name().to_owned(), point.categories.get(*category).0.into());
        let args: Map<String, Value> = self.categories.iter().map(bytes).collect();
        self.counter("memory in bytes", args.into());
    }

    fn counter(&mut self, name: &'a str, args: Value) {
        self.events.push(Event { name, ph: "C", pid: PROCESS, tid: 0, ts: self.now, dur: None, cat: "", args });
    }

    fn pass(&mut self, pass: Pass, secs: &[f64], ways: &[String]) {
        let (timeline, start) = (self.plan.timeline(pass), self.now);
        self.counter("budget in bytes", json!({ "budget": self.plan.budget.0 }));
        // Where each op begins, and the end.
        let mut edges = vec![start];
        for (i, point) in timeline.points.iter().enumerate() {
            self.counters(point);
            let secs = secs.get(i).copied().filter(|secs| secs.is_finite()).unwrap_or_default();
            self.now += (secs * MICROS).max(SHORTEST);
            edges.push(self.now);
        }
        if let Some(last) = timeline.points.last() {
            self.counters(last);
            let peak = json!({ "peak_bytes": timeline.peak().0 });
            self.slice(pass.name(), PHASES, "pass", (start, self.now), peak);
        }
        self.phases(timeline, &edges);
        self.layers(timeline, &edges, ways);
    }

    /// Adds a slice for each row of ops of one phase, inside the slice of the pass.
    fn phases(&mut self, timeline: &'a Timeline, edges: &[f64]) {
        for (from, to) in runs(&timeline.points, |a, b| a.phase == b.phase) {
            let args = json!({ "ops": to - from });
            self.slice(timeline.points[from].phase.name(), PHASES, "phase", (edges[from], edges[to]), args);
        }
    }

    /// Adds a slice for each row of ops of one layer, on the track of its block, and in it the slices of the ops.
    fn layers(&mut self, timeline: &'a Timeline, edges: &[f64], ways: &[String]) {
        let same = |a: &Point, b: &Point| (a.layer, a.phase) == (b.layer, b.phase);
        for (from, to) in runs(&timeline.points, same) {
            let layer = timeline.layer(timeline.points[from].layer);
            let track = self.track_of(layer);
            let name = if layer.is_empty() { "step" } else { layer };
            self.slice(name, track, "layer", (edges[from], edges[to]), json!({ "ops": to - from }));
            for (i, point) in timeline.points[from..to].iter().enumerate() {
                let at = from + i;
                let mut args = json!({ "layer": layer, "op": at + 1, "live_bytes": point.live.0 });
                if let Some(way) = ways.get(at).filter(|way| !way.is_empty()) {
                    args["way"] = way.as_str().into();
                }
                self.slice(point.op, track, point.phase.name(), (edges[at], edges[at + 1]), args);
            }
        }
    }

    fn finish(self) -> String {
        let plan = self.plan;
        let about = json!({
            "program": concat!("plimsoll ", env!("CARGO_PKG_VERSION")),
            "title": plan.experiment.title,
            "device": plan.experiment.device,
            "budget_bytes": plan.budget.0,
            "peak_bytes": plan.load().0,
            "times": "predicted by rates of the device: estimates",
        });
        let whole = json!({ "displayTimeUnit": "ns", "otherData": about, "traceEvents": self.events });
        whole.to_string()
    }
}

/// Where rows of alike points begin and end.
fn runs(points: &[Point], alike: impl Fn(&Point, &Point) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (i, point) in points.iter().enumerate() {
        match runs.last_mut() {
            Some((_, to)) if alike(&points[*to - 1], point) => *to = i + 1,
            _ => runs.push((i, i + 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiment::Experiment, hardware::Machine, plan::op_secs};

    fn written(change: impl FnOnce(&mut Experiment)) -> (Plan, Vec<Value>) {
        let mut experiment = Experiment::default();
        change(&mut experiment);
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        let passes: Vec<_> = plan.passes().map(|pass| (pass, op_secs(&plan, pass).expect("another dry run"))).collect();
        for (pass, secs) in &passes {
            assert_eq!(secs.len(), plan.timeline(*pass).points.len(), "{pass:?}");
        }
        let events = events(&json(&plan, &passes, None));
        (plan, events)
    }

    fn events(text: &str) -> Vec<Value> {
        let whole: Value = serde_json::from_str(text).expect("JSON");
        whole["traceEvents"].as_array().expect("a list").clone()
    }

    fn number(event: &Value, key: &str) -> f64 {
        event[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {event}"))
    }

    /// Checks the fields that the format demands of every event.
    fn is_event(event: &Value) {
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        assert!(event["args"].is_object() && number(event, "ts") >= 0.0, "{event}");
        match event["ph"].as_str() {
            Some("X") => assert!(number(event, "dur") > 0.0 && event["cat"].is_string(), "{event}"),
            Some("C") => assert!(event["args"].as_object().expect("values").values().all(Value::is_u64), "{event}"),
            Some("M") => assert!(event["args"]["name"].is_string() || event["args"]["sort_index"].is_u64(), "{event}"),
            other => panic!("{other:?} is not a kind of event here: {event}"),
        }
    }

    fn nest(slices: &[(f64, f64)]) {
        let mut open: Vec<(f64, f64)> = Vec::new();
        for slice in slices {
            while open.last().is_some_and(|(_, end)| *end <= slice.0 + 1e-9) {
                open.pop();
            }
            if let Some((_, end)) = open.last() {
                assert!(slice.1 <= end + 1e-6, "{slice:?} leaves the one it began in, which ends at {end}");
            }
            open.push(*slice);
        }
    }

    #[test]
    fn every_event_is_of_the_format_and_slices_nest() {
        for device in ["cpu", "rtx4060-8g"] {
            let (_, events) = written(|e| device.clone_into(&mut e.device));
            events.iter().for_each(is_event);
            let mut tracks: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
            for event in events.iter().filter(|event| event["ph"] == "X") {
                let from = number(event, "ts");
                let of_track = tracks.entry(event["tid"].as_u64().expect("a track")).or_default();
                of_track.push((from, from + number(event, "dur")));
            }
            assert!(tracks.len() > 3, "phases, batch, layers: {tracks:?}");
            for slices in tracks.values_mut() {
                // At one start the longer one is outside.
                slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
                nest(slices);
            }
        }
    }

    #[test]
    fn an_op_has_the_way_that_it_ran_in_that_pass() {
        let plan = Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan");
        let passes: Vec<_> = plan.passes().map(|pass| (pass, Vec::new())).collect();
        let points = plan.steady.points.len();
        let mut ways = vec![String::new(); points];
        "cuDNN".clone_into(&mut ways[2]);
        "a kernel without workspace".clone_into(&mut ways[points - 1]);
        let told: Vec<_> = events(&json(&plan, &passes, Some((Pass::Steady, &ways))))
            .iter()
            .filter(|event| event["args"]["way"].is_string())
            .map(|event| {
                is_event(event);
                (event["name"].clone(), event["args"]["op"].clone(), event["args"]["way"].clone())
            })
            .collect();
        let of = |at: usize| (json!(plan.steady.points[at].op), json!(at + 1), json!(ways[at]));
        assert_eq!(told, [of(2), of(points - 1)]);
    }

    #[test]
    fn there_is_a_slice_for_each_op_and_the_counters_add_up_to_what_is_alive() {
        let (plan, events) = written(|_| {});
        let ops: usize = plan.passes().map(|pass| plan.timeline(pass).points.len()).sum();
        let slices: Vec<&Value> = events.iter().filter(|event| event["args"]["live_bytes"].is_u64()).collect();
        assert_eq!(slices.len(), ops);
        let sum =
            |event: &Value| event["args"].as_object().expect("values").values().filter_map(Value::as_u64).sum::<u64>();
        let counters = events.iter().filter(|event| event["name"] == "memory in bytes");
        assert_eq!(counters.clone().map(sum).max(), Some(plan.peak.live.0));
        for slice in slices {
            let live = slice["args"]["live_bytes"].as_u64();
            let at = counters.clone().rfind(|counter| counter["ts"] == slice["ts"]).map(sum);
            assert_eq!(at, live, "{slice}");
        }
    }
}
