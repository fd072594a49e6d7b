//! Plans: shape of the answer, and what it must not contain.

use std::time::Duration;

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{Batch, Checkpointing, ModelKind, OptimizerKind, Placement, Precision, UpdateTime},
    hardware::Machine,
    memory::{Category, Phase},
    plan::{Change, Limit, Plan, Resolved, advise, advise_or_tell, fit, further, largest_batch},
};

fn cnn() -> Experiment {
    let mut experiment = Experiment::default();
    experiment.model.kind = ModelKind::Cnn;
    experiment.model.width = 16;
    experiment.data.kind = plimsoll_engine::experiment::DataKind::Shapes;
    experiment
}

fn plan(experiment: &Experiment) -> Plan {
    Plan::of(experiment, &Machine::nominal()).expect("a plan")
}

#[test]
fn categories_and_what_is_alive_add_up_to_the_peak() {
    for precision in Precision::ALL {
        let plan = plan(&Experiment { precision, ..cnn() });
        let slack = plan.categories_at_peak.get(Category::Slack);
        assert_eq!(plan.categories_at_peak.total() - slack, plan.peak.live);
        assert_eq!(plan.peak.live + slack, plan.peak.reserved);
        assert_eq!(plan.alive_at_peak.iter().map(|a| a.bytes).sum::<u64>(), plan.peak.live.0);
        assert!(plan.alive_at_peak.windows(2).all(|w| w[0].bytes >= w[1].bytes));
        assert_eq!(plan.timeline(plan.peak_pass).peak(), plan.peak.live);
        for point in plan.first.points.iter().chain(&plan.steady.points).chain(&plan.evaluate.points) {
            assert_eq!(point.categories.total(), point.live);
        }
        let held = plan.layers.iter().map(|row| row.peak_bytes).sum::<u64>();
        let outside = plan.alive_at_peak.iter().filter(|a| a.layer == "run").map(|a| a.bytes).sum::<u64>();
        assert_eq!(held + outside, plan.peak.live.0);
    }
}

#[test]
fn parameters_and_their_companions_have_the_sizes_their_types_say() {
    // 3 x 3 x 3 x 16 + 16, 3 x 3 x 16 x 32 + 32, 2048 x 64 + 64, 64 x 10 + 10.
    let parameters = 448 + 4640 + 131_136 + 650;
    let bytes = |precision, category| plan(&Experiment { precision, ..cnn() }).categories_at_peak.get(category).0;
    assert_eq!(plan(&cnn()).parameters, parameters);
    assert_eq!(bytes(Precision::F32, Category::Parameters), 4 * parameters);
    assert_eq!(bytes(Precision::Bf16Mixed, Category::Parameters), 2 * parameters);
    assert_eq!(bytes(Precision::Bf16Mixed, Category::MasterWeights), 4 * parameters);
    let rows = plan(&cnn()).layers;
    assert_eq!(rows.iter().map(|r| r.parameters).sum::<u64>(), parameters);
    assert_eq!(rows.iter().map(|r| r.weight_bytes).sum::<u64>(), 4 * parameters);
    assert_eq!(rows.iter().map(|r| r.gradient_bytes).sum::<u64>(), 4 * parameters);
    assert_eq!(rows.iter().map(|r| r.optimizer_bytes).sum::<u64>(), 8 * parameters);
}

#[test]
fn optimizer_state_is_born_in_the_first_step_and_stays() {
    let plan = plan(&cnn());
    let state = |point: &plimsoll_engine::memory::Point| point.categories.get(Category::OptimizerState).0;
    assert_eq!(plan.first.points.first().map(state), Some(0));
    assert_eq!(plan.first.points.last().map(state), plan.steady.points.first().map(state));
    assert!(plan.steady.points.iter().all(|p| state(p) == 8 * plan.parameters));
}

#[test]
fn each_technique_moves_the_memory_it_is_said_to_move() {
    let base = plan(&cnn());
    let at_peak = |plan: &Plan, category| plan.categories_at_peak.get(category).0;
    let checkpointed = plan(&Experiment { checkpointing: Checkpointing::Blocks, ..cnn() });
    assert!(at_peak(&checkpointed, Category::Activations) < at_peak(&base, Category::Activations));
    assert!(checkpointed.step_secs > base.step_secs);
    assert!(checkpointed.steady.points.iter().any(|p| p.phase == Phase::Recompute));
    assert!(base.steady.points.iter().all(|p| p.phase != Phase::Recompute));
    let split = plan(&Experiment { batch: Batch { micro: 16, accumulation: 4, ..Batch::default() }, ..cnn() });
    assert!(at_peak(&split, Category::Activations) < at_peak(&base, Category::Activations) / 3);
    assert!(split.step_secs > base.step_secs);
    let half = plan(&Experiment { precision: Precision::Bf16Mixed, ..cnn() });
    let activations = |plan: &Plan| plan.layers.iter().map(|r| r.saved_bytes).sum::<u64>() as f64;
    assert!(activations(&half) < 0.55 * activations(&base));
    let mut sgd = cnn();
    sgd.optimizer.kind = OptimizerKind::Sgd;
    assert_eq!(at_peak(&plan(&sgd), Category::OptimizerState), 0);
}

#[test]
fn factored_and_coded_state_has_the_bytes_of_its_papers() {
    let state = |kind| {
        let mut experiment = cnn();
        experiment.optimizer.kind = kind;
        plan(&experiment).steady.points.last().map(|p| p.categories.get(Category::OptimizerState).0)
    };
    // By row and by column of 16 x 27, 32 x 144, 64 x 2048 and 10 x 64; the biases whole.
    let factored = (16 + 27) + (32 + 144) + (64 + 2048) + (10 + 64) + (16 + 32 + 64 + 10);
    assert_eq!(state(OptimizerKind::Adafactor), Some(4 * factored));
    // From 4096 elements on two bytes each, and two scales a block of 256; below, two numbers of four bytes.
    let coded = |elements: u64| 2 * elements + 8 * elements.div_ceil(256);
    let small = 27 * 16 + 640 + (16 + 32 + 64 + 10);
    assert_eq!(state(OptimizerKind::Adamw8bit), Some(coded(4608) + coded(131_072) + 8 * small));
    // One byte each, a scale a block of 128, and one a row and a column of 32 x 144 and 64 x 2048.
    let scales = (4608 / 128 + 32 + 144) + (131_072 / 128 + 64 + 2048);
    assert_eq!(state(OptimizerKind::Adamw4bit), Some(4608 + 131_072 + 4 * scales + 8 * small));
    // One number of each hidden matrix, two of the classes (10 x 64) and the biases.
    let hidden = 16 * 27 + 4608 + 131_072;
    let others = 640 + (16 + 32 + 64 + 10);
    assert_eq!(state(OptimizerKind::Muon), Some(4 * hidden + 8 * others));
    // Two numbers of the longer side, and a norm.
    assert_eq!(state(OptimizerKind::ApolloMini), Some(4 * (2 * (27 + 144 + 2048) + 3) + 8 * others));
    assert_eq!(state(OptimizerKind::Lion).map(|b| 2 * b), state(OptimizerKind::Adamw));
}

#[test]
fn flash_adamw_takes_seven_bytes_a_parameter_with_a_gradient_of_16_bits() {
    let plan = |precision, kind, update| {
        let mut experiment = Experiment { precision, ..cnn() };
        (experiment.optimizer.kind, experiment.optimizer.update) = (kind, update);
        plan(&experiment)
    };
    let tensors = [16 * 27, 4608, 131_072, 640, 16, 32, 64, 10];
    // Two codes each, and two scales of 16 bits a group of 32.
    let coded: u64 = tensors.iter().map(|n: &u64| 2 * n + 4 * n.div_ceil(32)).sum();
    let n: u64 = tensors.iter().sum();
    for (precision, weights, corrections) in [
        (Precision::F32, 4, 0),
        (Precision::F64, 8, 0),
        (Precision::Bf16Mixed, 2, 1),
        (Precision::F16Mixed, 2, 1),
        (Precision::Bf16, 2, 1),
    ] {
        let plan = plan(precision, OptimizerKind::FlashAdamw, UpdateTime::AfterBackward);
        let held = |category| plan.steady.points.last().map(|point| point.categories.get(category).0);
        assert_eq!(plan.parameters, n);
        assert_eq!(held(Category::Parameters), Some(weights * n), "{precision:?}");
        assert_eq!(held(Category::MasterWeights), Some(corrections * n), "{precision:?}");
        assert_eq!(held(Category::OptimizerState), Some(coded), "{precision:?}");
        let gradients = plan.steady.points.iter().map(|point| point.categories.get(Category::Gradients).0).max();
        assert_eq!(gradients, Some(n * precision.master().size() as u64), "{precision:?}");
        assert_eq!(plan.held().0, (weights + corrections) * n + coded);
    }
    let gradients = |update| {
        let plan = plan(Precision::Bf16, OptimizerKind::FlashAdamw, update);
        plan.steady.points.iter().map(|point| point.categories.get(Category::Gradients).0).max()
    };
    assert!(gradients(UpdateTime::InBackward) < gradients(UpdateTime::AfterBackward));
}

#[test]
fn lighter_optimizers_are_offered_from_the_nearest_and_each_saves_more() {
    let mut asked = cnn();
    (asked.model.kind, asked.model.width, asked.model.depth) = (ModelKind::Mlp, 512, 4);
    // Where the parameters rule, nothing else is as light.
    asked.batch.micro = 1;
    let peak = plan(&asked).peak.live.0;
    asked.budget = Bytes(peak - 4);
    let offers = advise(&plan(&asked), 20, Limit::NONE).expect("advice");
    let kinds: Vec<OptimizerKind> = offers.iter().map(|o| o.experiment.optimizer.kind).collect();
    let changed: Vec<OptimizerKind> = kinds.into_iter().filter(|kind| *kind != OptimizerKind::Adamw).collect();
    assert_eq!(
        changed,
        [
            OptimizerKind::FlashAdamw,
            OptimizerKind::Adamw8bit,
            OptimizerKind::Adamw4bit,
            OptimizerKind::ApolloMini,
            OptimizerKind::Adafactor,
            OptimizerKind::Sgd,
        ],
        "{offers:?}"
    );
}

#[test]
fn long_accumulation_takes_the_memory_of_a_short_one_and_its_time() {
    let with =
        |accumulation| plan(&Experiment { batch: Batch { micro: 4, accumulation, ..Batch::default() }, ..cnn() });
    let (two, many) = (with(2), with(200));
    assert_eq!(two.peak.live, many.peak.live);
    let ratio = many.step_secs / two.step_secs;
    assert!((50.0..100.0).contains(&ratio), "{ratio}");
}

#[test]
fn what_fit_offers_fits_keeps_the_effective_batch_and_comes_fastest_first() {
    let asked = plan(&cnn());
    let budget = Bytes(asked.peak.live.0 * 2 / 3);
    let offers = fit(&asked, budget, Limit::NONE).expect("offers").offers;
    assert!(offers.len() >= 3, "{offers:?}");
    assert!(offers.windows(2).all(|w| w[0].step_secs <= w[1].step_secs));
    for offer in &offers {
        assert_eq!(offer.experiment.batch.effective(), 64);
        let peak = plan(&offer.experiment).peak.live;
        assert_eq!(peak, offer.peak);
        assert!(peak <= budget);
    }
}

#[test]
fn advice_changes_one_thing_where_that_is_enough() {
    let mut asked = cnn();
    asked.budget = Bytes(plan(&asked).peak.live.0 - 1);
    let advice = advise(&plan(&asked), 3, Limit::NONE).expect("advice");
    assert_eq!(advice.len(), 3);
    assert!(advice.iter().all(|a| a.changes.len() == 1), "{advice:?}");
    asked.budget = Bytes(1000);
    assert!(advise(&plan(&asked), 3, Limit::NONE).expect("no advice").is_empty(), "nothing fits in a thousand bytes");
}

#[test]
fn data_on_the_device_are_offered_elsewhere_and_a_deep_model_the_square_root() {
    let mut asked = cnn();
    asked.data.placement = Placement::Device;
    let mut elsewhere = asked.clone();
    elsewhere.data.placement = Placement::Host;
    asked.budget = plan(&elsewhere).peak.live;
    let offers = advise(&plan(&asked), 3, Limit::NONE).expect("advice");
    let offer = offers.first().expect("an offer");
    assert!(offer.changes == [Change::Placement(Placement::Host)] && offer.peak <= asked.budget, "{offers:?}");

    let mut deep = Experiment::default();
    (deep.model.depth, deep.model.width, deep.batch.micro) = (60, 8, 512);
    deep.budget = plan(&Experiment { checkpointing: Checkpointing::Sqrt, ..deep.clone() }).peak.live;
    let offers = advise(&plan(&deep), 20, Limit::NONE).expect("advice");
    assert!(offers.iter().any(|offer| offer.changes == [Change::Checkpointing(Checkpointing::Sqrt)]), "{offers:?}");
    let none = advise_or_tell(&plan(&deep), 3, Limit::within(Duration::ZERO)).expect("no time");
    let why = none.why.expect("a reason");
    assert!(none.offers.is_empty() && !none.is_whole && why.tried == 0 && !why.is_whole);
}

#[test]
fn very_many_layers_have_a_brief_search_that_says_so() {
    let mut deep = Experiment::default();
    (deep.model.depth, deep.model.width) = (1100, 4);
    deep.optimizer.kind = OptimizerKind::Sgd;
    let light = plan(&deep).peak.live;
    deep.optimizer.kind = OptimizerKind::Adamw;
    let plan = plan(&Experiment { budget: light, ..deep });
    // Of so long a time that no machine comes to its end.
    let limit = Limit::for_plan(&plan, Duration::from_secs(8 * 600));
    let found = advise_or_tell(&plan, 20, limit).expect("advice");
    assert!(found.offers.iter().any(|offer| offer.changes == [Change::Optimizer(OptimizerKind::Sgd)]), "{found:?}");
    assert!(!found.is_whole && found.offers.iter().all(|offer| offer.peak <= light));
}

#[test]
fn what_weights_and_state_hold_is_said_before_anything_is_searched() {
    let asked = plan(&Experiment { budget: Bytes(1000), ..cnn() });
    // AdamW in f32: a weight and two moments of four bytes a parameter.
    assert_eq!(asked.held(), Bytes(12 * asked.parameters));
    let found = fit(&asked, asked.budget, Limit::NONE).expect("a search");
    assert_eq!((found.offers.len(), found.held, found.is_whole), (0, asked.held(), true));
    assert!(found.least >= found.held && found.least <= asked.load());
    // A search without time tries nothing and says so; the plan itself is known all the same.
    let roomy = plan(&cnn());
    let cut = fit(&roomy, Bytes(roomy.held().0 + 1), Limit::within(std::time::Duration::ZERO)).expect("a search");
    assert_eq!((cut.offers.len(), cut.least, cut.is_whole), (0, roomy.load(), false));
}

#[test]
fn where_nothing_fits_changes_of_the_training_are_offered_and_fit() {
    let mut asked = cnn();
    (asked.model.kind, asked.model.width, asked.model.depth) = (ModelKind::Mlp, 256, 6);
    let held = plan(&asked).held();
    // Room for the weights, but not for the two moments in addition.
    asked.budget = Bytes(held.0 * 4 / 5);
    let tight = plan(&asked);
    assert!(fit(&tight, tight.budget, Limit::NONE).expect("a search").offers.is_empty());
    let offers = further(&tight, 3, Limit::NONE).expect("offers");
    assert_eq!(offers.len(), 3, "{offers:?}");
    for offer in &offers {
        assert_eq!(offer.experiment.batch.effective(), asked.batch.effective());
        let planned = plan(&offer.experiment);
        assert!(planned.fits() && planned.load() == offer.peak, "{:?}", offer.changes);
    }
    let named = |is: fn(&Change) -> bool| offers.iter().any(|offer| offer.changes.iter().any(is));
    assert!(named(|c| matches!(c, Change::Optimizer(_))) && named(|c| matches!(c, Change::LoraRank(8))));
    assert!(named(|c| matches!(c, Change::Frozen(_))));

    let card = plan(&Experiment { device: "rtx4060-8g".to_owned(), budget: Bytes::gib(1), ..cnn() });
    assert!(card.held() > card.target.profile().expect("a card").context, "the context and the weights are held");
}

#[test]
fn a_share_of_the_activations_is_kept_and_no_more() {
    let mut deep = cnn();
    (deep.model.kind, deep.model.depth, deep.model.width) = (ModelKind::Mlp, 12, 64);
    let saved = |percent| {
        let checkpointing = Checkpointing::Percent(percent);
        let plan = plan(&Experiment { checkpointing, ..deep.clone() });
        let blocks = plan.layers.iter().filter(|row| row.path.starts_with("block"));
        (blocks.map(|row| row.saved_bytes).sum::<u64>() as f64, plan.step_secs)
    };
    let (all, fastest) = saved(100);
    assert_eq!((all, fastest), {
        let plan = plan(&deep);
        let blocks = plan.layers.iter().filter(|row| row.path.starts_with("block"));
        (blocks.map(|row| row.saved_bytes).sum::<u64>() as f64, plan.step_secs)
    });
    let mut before = (all, fastest);
    for percent in [80, 60, 40, 20] {
        let (kept, secs) = saved(percent);
        // The inputs of blocks stay for any share.
        assert!(kept <= before.0 && secs >= before.1, "{percent}%: {kept} bytes, {secs} s after {before:?}");
        before = (kept, secs);
    }
    assert!(before.1 > fastest, "less memory costs time");
}

#[test]
fn what_stays_wide_is_listed_tensor_by_tensor_with_its_bytes() {
    let mixed = |kind| {
        let mut experiment = Experiment { precision: Precision::Bf16Mixed, ..cnn() };
        experiment.model.kind = kind;
        plan(&experiment)
    };
    let plan_of_cnn = mixed(ModelKind::Cnn);
    let bytes =
        |plan: &Plan, name: &str| plan.high_precision.iter().filter(|w| w.name == name).map(|w| w.bytes).sum::<u64>();
    assert_eq!(bytes(&plan_of_cnn, "gradient"), 4 * plan_of_cnn.parameters);
    assert_eq!(bytes(&plan_of_cnn, "optimizer state"), 8 * plan_of_cnn.parameters);
    assert_eq!(bytes(&plan_of_cnn, "weight") + bytes(&plan_of_cnn, "bias"), 4 * plan_of_cnn.parameters);
    let resnet = mixed(ModelKind::Resnet);
    let buffers = resnet.categories_at_peak.get(Category::Buffers).0;
    assert_eq!(bytes(&resnet, "running statistics"), buffers);
    assert!(resnet.high_precision.iter().any(|w| w.layer == "block1/norm" && w.name == "weight"));
    assert_eq!(plan(&cnn()).high_precision, []);
}

#[test]
fn the_largest_batch_fits_and_one_sample_more_does_not() {
    for (kib, accumulation) in [(700, 1), (3000, 1), (10_000, 2), (47_000, 1)] {
        let mut experiment = Experiment { budget: Bytes::kib(kib), ..cnn() };
        experiment.batch.accumulation = accumulation;
        let Some(largest) = largest_batch(&experiment, &Machine::nominal(), Limit::NONE).expect("plans") else {
            experiment.batch.micro = 1;
            assert!(!plan(&experiment).fits(), "{kib}");
            continue;
        };
        assert!(largest.fits(), "{kib}");
        experiment.batch.micro = largest.experiment.batch.micro + 1;
        assert!(!plan(&experiment).fits(), "{kib}: {}", experiment.batch.micro);
    }
    let roomy = plan(&Experiment { budget: Bytes::mib(40), ..cnn() });
    let filled = plimsoll_engine::plan::fill(&roomy, Limit::NONE).expect("plans").expect("there is room");
    assert!(filled.peak <= roomy.budget && filled.experiment.batch.micro > roomy.experiment.batch.micro);
    assert!(
        plimsoll_engine::plan::fill(&plan(&filled.experiment), Limit::NONE).expect("plans").is_none(),
        "it is full"
    );
    // Where memory sets no limit, the data do.
    let everything =
        largest_batch(&Experiment { budget: Bytes::gib(1 << 10), ..cnn() }, &Machine::nominal(), Limit::NONE)
            .expect("plans");
    let everything = everything.expect("it fits").experiment.batch.micro;
    let resolved = Resolved::new(&cnn(), &Machine::nominal()).expect("possible");
    assert_eq!(everything, resolved.info().train);
}
