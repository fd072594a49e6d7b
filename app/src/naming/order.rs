//! The order in which settings are named: that of the experiment's pane, from above downwards.
//!
//! Always holds: the same settings have the same order in every name. A setting that the pane does not draw comes last: device
//! and budget, which the bars above it have.

use std::{collections::HashMap, sync::LazyLock};

use super::Differing;
use crate::panels;

static PLACES: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
    let mut places = HashMap::new();
    for (place, key) in panels::settings_in_order().into_iter().enumerate() {
        // A setting that two groups draw stands where it is drawn first.
        places.entry(key).or_insert(place);
    }
    places
});

/// Where a setting stands in the pane.
fn place(key: &str) -> usize {
    PLACES.get(key).copied().unwrap_or(usize::MAX)
}

/// Sorts settings as the pane has them.
pub(super) fn sort(differing: &mut [Differing]) {
    differing.sort_by(|a, b| place(&a.key).cmp(&place(&b.key)).then_with(|| a.key.cmp(&b.key)));
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, experiment::preset};

    use super::*;
    use crate::presets;

    #[test]
    fn every_setting_of_a_shipped_preset_has_a_place() {
        const ELSEWHERE: [&str; 5] = ["budget", "device", "title", "description", "low_rank.ranks"];
        let mut seen = 0;
        for preset in presets::shipped() {
            for change in preset::changes(&Experiment::default(), &preset.experiment) {
                let key = change.split('=').next().unwrap_or_default();
                assert_eq!(place(key) == usize::MAX, ELSEWHERE.contains(&key), "{key} of {}", preset.name);
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
    }
}
