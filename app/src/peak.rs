//! The place of a plan's peak, in words; if the plan crosses the line, the layer that does.

use plimsoll_engine::{
    memory::Point,
    plan::{Pass, Plan},
};

/// The layer that is at work at the peak; none if nothing is.
pub(crate) fn layer(plan: &Plan) -> Option<&str> {
    point(plan).map(|point| plan.timeline(plan.peak_pass).layer(point.layer))
}

/// The pass, the phase, the layer and the op: `peak in every step: backward of block1/attention, softmax`.
pub(crate) fn place(plan: &Plan) -> String {
    let pass = match plan.peak_pass {
        Pass::Teach => "teaching",
        Pass::First => "first step",
        Pass::Steady => "every step",
        Pass::Prune => "pruning channels",
        Pass::Pruned => "every step, pruned",
        Pass::Evaluate => "evaluation",
        Pass::Save => "saving",
        Pass::Compress => "compressing",
    };
    match point(plan) {
        Some(point) => {
            let layer = plan.timeline(plan.peak_pass).layer(point.layer);
            format!("peak in {pass}: {} of {layer}, {}", point.phase.name(), point.op)
        }
        None => format!("peak in {pass}"),
    }
}

fn point(plan: &Plan) -> Option<&Point> {
    let timeline = plan.timeline(plan.peak_pass);
    timeline.points.get(timeline.peak_index()?)
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

    #[test]
    fn the_place_names_the_layer_and_the_op_of_the_highest_point() {
        let plan = Plan::of(&Experiment::default(), &Machine::nominal()).expect("the default experiment");
        let layer = layer(&plan).expect("something is at work");
        let point = point(&plan).expect("there is a highest point");
        assert_eq!(point.live, plan.timeline(plan.peak_pass).peak());
        assert!(place(&plan).contains(&format!("{layer}, {}", point.op)), "{}", place(&plan));
    }
}
