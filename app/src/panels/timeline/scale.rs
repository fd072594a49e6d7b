//! The vertical scale of a timeline: the budget is always in the picture. A budget far above what the step takes is drawn at
//! the top, past a break of the axis.

/// A budget up to this many times as high as what is drawn keeps the axis whole.
const BUDGET_IN_VIEW: f64 = 1.6;
/// Room above the highest value, in points: the budget, the names of the phases, the words at the peak.
const HEAD: f32 = 62.0;
/// The head of a low picture, where the words at the peak stand in one line.
const LOW_HEAD: f32 = 40.0;
/// Where a budget past the break is drawn, in points from the top.
const LINE: f32 = 17.0;
/// The break, in points from the top.
const BREAK: f32 = 23.0;
/// Heights of the picture go up in this many steps to the double: a small change does not rescale it.
const STEPS: f64 = 4.0;

/// A vertical scale, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// The value at the top of the picture.
    pub(crate) top: f64,
    /// Where the budget's line is drawn.
    pub(crate) budget: f64,
    /// Where the axis is broken; no value above it is to scale.
    pub(crate) broken_at: Option<f64>,
}

/// Whether a budget is near enough to the `highest` value of a picture to be drawn to scale with it.
pub(crate) fn is_in_view(highest: f64, budget: f64) -> bool {
    budget <= highest * BUDGET_IN_VIEW
}

/// The scale of a picture `height` points high whose highest value is `highest`.
pub(crate) fn scale(highest: f64, budget: f64, height: f32) -> Scale {
    let head = if height < super::LOW { LOW_HEAD } else { HEAD };
    let height = f64::from(height.max(LOW_HEAD * 1.5));
    let with_head = |value: f64| value * height / (height - f64::from(head));
    if is_in_view(highest, budget) {
        return Scale { top: with_head(highest.max(budget)), budget, broken_at: None };
    }
    let stepped = if highest > 0.0 { ((highest.log2() * STEPS).ceil() / STEPS).exp2() } else { 1.0 };
    let top = with_head(stepped);
    let at = |points: f32| top * (1.0 - f64::from(points) / height);
    Scale { top, budget: at(LINE), broken_at: Some(at(BREAK)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_budget_is_to_scale_and_a_far_one_is_past_a_break() {
        let near = scale(10.0, 12.0, 300.0);
        assert_eq!((near.budget, near.broken_at), (12.0, None));
        assert!(near.top > 12.0);
        let far = scale(10.0, 4000.0, 300.0);
        let broken = far.broken_at.expect("far");
        assert!(10.0 < broken && broken < far.budget && far.budget < far.top, "{far:?}");
        assert!(scale(0.0, 64.0, 100.0).top > 0.0);
    }

    #[test]
    fn a_small_change_keeps_the_scale() {
        assert_eq!(scale(9.7, 4000.0, 300.0), scale(9.9, 4000.0, 300.0));
        assert_eq!(scale(9.0, 12.0, 300.0), scale(11.0, 12.0, 300.0));
        assert_ne!(scale(9.0, 4000.0, 300.0).top, scale(18.0, 4000.0, 300.0).top);
    }
}
