//! Places that are found before a run: what they save compared with a pool that grows, for every preset and for drawn
//! experiments.

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{PoolPolicy, shipped},
    hardware::Machine,
    plan::Plan,
    selftest::{draw::fresh_seed, experiments::Experiments},
};

const CARD: &str = "h100-80g";

/// The plans of an experiment for a card, by a pool that grows and by one whose places are planned.
fn plans(experiment: &Experiment) -> [Plan; 2] {
    [PoolPolicy::Grow, PoolPolicy::Planned].map(|pool| {
        let mut experiment = Experiment { device: CARD.to_owned(), budget: Bytes::gib(80), ..experiment.clone() };
        experiment.gpu.pool = pool;
        Plan::of(&experiment, &Machine::nominal()).unwrap_or_else(|error| panic!("{error}: {experiment:?}"))
    })
}

fn percent(part: Bytes, whole: Bytes) -> f64 {
    (part.0 as f64 / whole.0 as f64 - 1.0) * 100.0
}

#[test]
fn every_preset_takes_little_more_than_what_is_alive() {
    println!("{:26} {:>10} {:>17} {:>17} {:>9}", "preset", "live", "grow", "planned", "extent");
    for (name, _) in shipped::shipped() {
        let experiment = shipped::find(name).expect("ships").expect("a preset");
        if experiment.data.kind.is_on_disk() {
            // A folder of the user's.
            continue;
        }
        let [grow, planned] = plans(&experiment);
        let live = grow.peak.live;
        let places = planned.places.as_ref().unwrap_or_else(|| panic!("{name}: growing takes less"));
        let [grown, taken] = [&grow, &planned].map(|plan| plan.peak.reserved);
        println!(
            "{name:26} {:>10} {:>10} {:+5.1}% {:>10} {:+5.1}% {:+8.2}%",
            live.to_string(),
            grown.to_string(),
            percent(grown, live),
            taken.to_string(),
            percent(taken, live),
            percent(places.extent(), live),
        );
        assert_eq!((planned.peak.live, taken), (live, places.segment()), "{name}");
        assert!(taken <= grown && places.extent() >= live, "{name}: {taken} planned, {grown} grown");
        assert!(percent(places.extent(), live) <= 2.0, "{name}: {} for {live}", places.extent());
        assert_eq!(plans(&experiment)[1].places, planned.places, "{name}");
    }
}

#[test]
fn no_drawn_experiment_takes_more_than_by_growing() {
    let seed = fresh_seed();
    let (mut above, mut unplanned) = (Vec::new(), 0);
    for drawn in Experiments::new(seed, CARD, None).take(300) {
        let [grow, planned] = plans(&drawn.experiment);
        assert_eq!(planned.peak.live, grow.peak.live, "{}, seed {seed}", drawn.family);
        let [grown, taken] = [&grow, &planned].map(|plan| plan.peak.reserved);
        assert!(taken <= grown, "{}, seed {seed}: {taken} planned, {grown} grown", drawn.family);
        match &planned.places {
            Some(places) => above.push((percent(places.extent(), grow.peak.live), drawn.family)),
            None => unplanned += 1,
        }
    }
    above.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("{unplanned} of 300 better by growing; extents above what is alive: {:.2?}", &above[..8]);
    assert!(unplanned <= 20, "{unplanned} of 300 are better by growing, seed {seed}");
    assert!(above[above.len() / 2].0 <= 1.0, "half are above by {:?}, seed {seed}", above[above.len() / 2]);
}
