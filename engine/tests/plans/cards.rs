//! Plans for GPUs: every card that ships, what counts against the line there, and what stays as it was elsewhere.

use std::time::Instant;

use plimsoll_engine::{
    Bytes, Experiment,
    device::{Profile, Target, profile},
    experiment::{
        DataKind, Execution, Gpu, ModelKind, Optimizer, Placement, PoolPolicy, Precision, UpdateTime, shipped,
    },
    hardware::Machine,
    memory::{Category, Phase},
    plan::{Change, Limit, Plan, Resolved, advise, fit, predict},
};

const CARD: &str = "rtx4060-8g";

fn plan(experiment: &Experiment) -> Plan {
    Plan::of(experiment, &Machine::nominal()).unwrap_or_else(|error| panic!("{error}: {experiment:?}"))
}

fn card() -> std::sync::Arc<Profile> {
    profile::named(CARD).expect("ships")
}

/// A CNN on a card with room enough.
fn cnn() -> Experiment {
    let mut experiment = Experiment { device: CARD.to_owned(), budget: Bytes::gib(4), ..Experiment::default() };
    experiment.model.kind = ModelKind::Cnn;
    experiment.model.width = 16;
    experiment.data.kind = DataKind::Shapes;
    experiment
}

fn rounded(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(512)
}

#[test]
fn every_preset_is_planned_for_every_card() {
    let mut slowest = (0.0, String::new());
    for (name, _) in shipped::shipped() {
        let preset = shipped::find(name).expect("ships").expect("a preset");
        if preset.data.kind.is_on_disk() {
            // Its data are a folder of the user's.
            continue;
        }
        for profile in profile::shipped() {
            let start = Instant::now();
            let plan = plan(&Experiment { device: profile.slug.clone(), ..preset.clone() });
            let secs = start.elapsed().as_secs_f64();
            if secs > slowest.0 {
                slowest = (secs, format!("{name} on {}", profile.slug));
            }
            let place = || format!("{name} on {}", profile.slug);
            assert!(plan.peak.live > Bytes::ZERO && plan.peak.live <= plan.peak.reserved, "{}", place());
            assert_eq!(plan.peak.process, profile.context + plan.graphs + plan.peak.reserved, "{}", place());
            assert_eq!(plan.load(), plan.peak.process);
            assert_eq!(plan.fits(), plan.peak.process <= preset.budget.min(profile.usable_memory()), "{}", place());
            assert!(plan.step_secs > 0.0 && plan.step_secs.is_finite(), "{}", place());
        }
    }
    println!("slowest plan: {:.1} ms, {}", slowest.0 * 1e3, slowest.1);
}

#[test]
fn what_is_alive_the_context_and_the_slack_add_up_to_the_process() {
    for pool in PoolPolicy::ALL {
        let plan = plan(&Experiment { gpu: Gpu { pool, ..Gpu::default() }, ..cnn() });
        let [context, slack] = [Category::Context, Category::Slack].map(|c| plan.categories_at_peak.get(c));
        assert_eq!(context, card().context);
        assert_eq!(plan.peak.live + slack, plan.peak.reserved);
        assert_eq!(plan.categories_at_peak.total(), plan.peak.process);
        // The engine's own bookkeeping is memory of the host.
        assert!(plan.alive_at_peak.iter().all(|block| block.category != Category::Context));
        assert!(plan.alive_at_peak.iter().all(|block| block.bytes % 512 == 0));
        assert_eq!(plan.alive_at_peak.iter().map(|a| a.bytes).sum::<u64>(), plan.peak.live.0);
    }
}

#[test]
fn graphs_of_fused_steps_are_a_part_of_the_context_where_there_is_room_for_them() {
    let of =
        |execution, pool, budget| plan(&Experiment { execution, gpu: Gpu { pool, ..Gpu::default() }, budget, ..cnn() });
    let roomy = of(Execution::Fused, PoolPolicy::Grow, Bytes::gib(4));
    assert!(roomy.graphs > Bytes::mib(2) && roomy.graphs < Bytes::mib(64), "{}", roomy.graphs);
    assert_eq!(roomy.categories_at_peak.get(Category::Context), card().context + roomy.graphs);
    assert_eq!(roomy.categories_at_peak.total(), roomy.peak.process);
    assert!(roomy.launches_in_words().is_some_and(|words| words.contains("as graphs")));
    // With less room there is one of each, and a budget that the run fits without them is kept without them.
    let once = of(Execution::Fused, PoolPolicy::Grow, roomy.peak.process - Bytes(1));
    assert!(once.fits() && once.graphs + once.graphs == roomy.graphs);
    let tight = of(Execution::Fused, PoolPolicy::Grow, once.peak.process - Bytes(1));
    assert!(tight.fits() && tight.graphs == Bytes::ZERO);
    assert_eq!(tight.peak.process + roomy.graphs, roomy.peak.process);
    for (execution, pool) in [(Execution::InPlace, PoolPolicy::Grow), (Execution::Fused, PoolPolicy::Release)] {
        let without = of(execution, pool, Bytes::gib(4));
        assert_eq!(without.graphs, Bytes::ZERO, "{execution:?}, {pool:?}");
        assert_eq!(without.categories_at_peak.get(Category::Context), card().context);
        let words = without.launches_in_words();
        assert_eq!(words.is_some_and(|words| words.contains("gives memory back")), execution == Execution::Fused);
    }
    // A launch in a graph costs less.
    let apart = of(Execution::Fused, PoolPolicy::Release, Bytes::gib(4));
    assert!(roomy.step_secs < apart.step_secs);
}

#[test]
fn a_vocabulary_has_rows_behind_it_where_ops_are_joined() {
    let gpt2 = shipped::find("gpt2-rtx4060-plan").expect("ships").expect("a preset");
    let of = |execution, vocabulary| {
        let mut experiment = Experiment { execution, device: CARD.to_owned(), ..gpt2.clone() };
        experiment.data.vocabulary = vocabulary;
        plan(&experiment)
    };
    // Columns of logits, by the largest tensor that is not for the whole run; and rows of the table.
    let found = |plan: &Plan| {
        let points = plan.steady.points.iter().map(|point| point.categories.get(Category::Activations).0);
        let tables = plan.alive_at_peak.iter().filter(|block| block.category == Category::Parameters);
        (points.max().expect("points"), tables.map(|block| block.bytes).max().expect("a table"))
    };
    let (width, half) = (768, 2);
    let [apart, joined] = [Execution::InPlace, Execution::Fused].map(|execution| of(execution, 50_257));
    assert_eq!(found(&apart).1, rounded(50_257 * width * half));
    assert_eq!(found(&joined).1, rounded(50_304 * width * half));
    assert_eq!(joined.parameters, apart.parameters);
    assert!(joined.alive_at_peak.iter().any(|block| block.name == "weight, with rows of zeros"));
    // Nothing else is larger than with as many tokens.
    let many = of(Execution::Fused, 50_304);
    let (master, state) = (4, 8);
    let fewer = 47 * width * (master + state);
    assert!(many.peak.live.0 - joined.peak.live.0 >= fewer as u64 - 4 * 512, "{} {}", many.peak.live, joined.peak.live);
    assert!(many.peak.live.0 - joined.peak.live.0 <= fewer as u64 + 4 * 512, "{} {}", many.peak.live, joined.peak.live);
    assert_eq!(found(&many).0, found(&joined).0);
}

#[test]
fn the_workspace_is_one_buffer_of_the_whole_run() {
    let with = |workspace| plan(&Experiment { gpu: Gpu { workspace, ..Gpu::default() }, ..cnn() });
    let (none, some) = (with(Bytes::ZERO), with(Bytes::mib(48)));
    assert_eq!(some.peak.live, none.peak.live + Bytes::mib(48));
    let named = |plan: &Plan| plan.alive_at_peak.iter().filter(|block| block.name == "workspace").count();
    assert_eq!((named(&none), named(&some)), (0, 1));
    for point in some.first.points.iter().chain(&some.steady.points).chain(&some.evaluate.points) {
        assert!(point.categories.get(Category::Scratch) >= Bytes::mib(48), "{}", point.op);
    }
}

#[test]
fn the_next_micro_batch_lies_beside_the_present_one() {
    for accumulation in [1, 3] {
        let mut experiment = cnn();
        experiment.batch.accumulation = accumulation;
        let batch = rounded(64 * 32 * 32 * 3 * 4) + rounded(64 * 4);
        let plan = plan(&experiment);
        for timeline in [&plan.first, &plan.steady] {
            let forward = timeline.points.iter().filter(|point| point.phase == Phase::Forward);
            assert!(forward.clone().count() > 0);
            forward.for_each(|point| assert_eq!(point.categories.get(Category::Batch).0, 2 * batch, "{}", point.op));
        }
        // It stays for the next step while the model is evaluated.
        let most = plan.evaluate.points.iter().map(|point| point.categories.get(Category::Batch).0).max();
        assert_eq!(most, Some(2 * batch));
    }
    let plan = plan(&cnn());
    let names: Vec<_> = plan.alive_at_peak.iter().filter(|b| b.category == Category::Batch).map(|b| b.name).collect();
    assert!(["images", "next inputs", "next labels"].iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn a_training_set_on_the_card_needs_no_look_ahead() {
    let mut experiment = cnn();
    experiment.data.placement = Placement::Device;
    let plan = plan(&experiment);
    assert!(plan.alive_at_peak.iter().all(|block| !block.name.starts_with("next")));
}

#[test]
fn the_pool_that_reserves_takes_the_budget_and_the_one_that_gives_back_no_more_than_the_one_that_grows() {
    let with = |pool| plan(&Experiment { gpu: Gpu { pool, ..Gpu::default() }, ..cnn() });
    let [grow, give_back, reserve, planned] = PoolPolicy::ALL.map(with);
    assert!([&give_back, &reserve, &planned].iter().all(|plan| plan.peak.live == grow.peak.live));
    assert!(give_back.peak.reserved <= grow.peak.reserved && grow.peak.reserved < reserve.peak.reserved);
    assert!(planned.peak.reserved <= grow.peak.reserved && planned.places.is_some() && grow.places.is_none());
    assert!(reserve.fits());
    let least = reserve.budget.saturating_sub(card().pool.segment);
    assert!(reserve.peak.process > least, "{} of {}", reserve.peak.process, reserve.budget);
}

#[test]
fn a_run_is_refused_exactly_where_its_plan_does_not_fit() {
    for (precision, pool) in [
        (Precision::F32, PoolPolicy::Grow),
        (Precision::Bf16Mixed, PoolPolicy::Grow),
        (Precision::F32, PoolPolicy::Planned),
    ] {
        let asked = Experiment { precision, gpu: Gpu { pool, ..Gpu::default() }, ..cnn() };
        let process = plan(&asked).peak.process;
        for (budget, fits) in [(process, true), (Bytes(process.0 - 1), false), (card().context, false)] {
            let experiment = Experiment { budget, ..asked.clone() };
            assert_eq!(plan(&experiment).fits(), fits);
            let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("possible");
            let refusal = predict::refusal(&resolved, &Machine::nominal()).expect("a dry run");
            assert_eq!(refusal.is_none(), fits);
            if let Some(error) = refusal {
                assert!(error.live + error.asked > budget && error.budget == budget, "{error}");
                // No more than what was predicted, which is a byte past the line here.
                assert!(error.live + error.asked <= process, "{error}");
            }
        }
    }
}

#[test]
fn advice_on_a_card_fits_and_ends_with_a_higher_budget() {
    let mut tight = Experiment { budget: Bytes::mib(416), ..cnn() };
    tight.batch.micro = 256;
    let tight = plan(&tight);
    assert!(!tight.fits());
    let offers = advise(&tight, 3, Limit::NONE).expect("advice");
    assert!(offers.len() > 1 && offers.iter().all(|offer| plan(&offer.experiment).fits()), "{offers:?}");
    let raised = offers.last().expect("an offer");
    assert!(
        raised.changes == [Change::Budget(raised.experiment.budget)] && raised.experiment.budget >= tight.peak.process,
        "{:?}",
        raised.changes
    );
    assert!(
        fit(&tight, tight.budget, Limit::NONE).expect("offers").offers.iter().all(|offer| offer.peak <= tight.budget)
    );

    let hopeless = plan(&Experiment { budget: Bytes::mib(4), ..cnn() });
    let offers = advise(&hopeless, 3, Limit::NONE).expect("advice");
    assert_eq!(offers.len(), 1, "the context alone is past the line, so nothing but the line can help");
}

#[test]
fn the_card_is_the_line_where_the_budget_is_more_than_it_has() {
    let plan = plan(&Experiment { budget: Bytes::gib(24), ..cnn() });
    assert_eq!((plan.budget, plan.card_below_budget()), (card().usable_memory(), Some(card().usable_memory())));
    assert_eq!(plan.headroom(), Some(card().usable_memory() - plan.peak.process));
}

#[test]
fn tf32_and_narrow_types_are_faster_where_the_card_is() {
    let secs = |device: &str, tf32, precision| {
        let mut experiment = cnn();
        (experiment.model.kind, experiment.model.width, experiment.model.depth) = (ModelKind::Mlp, 4096, 4);
        let gpu = Gpu { tf32, ..Gpu::default() };
        plan(&Experiment { device: device.to_owned(), gpu, precision, ..experiment }).step_secs
    };
    let exact = secs("a100-40g", false, Precision::F32);
    assert!(secs("a100-40g", true, Precision::F32) < exact);
    assert!(secs("a100-40g", false, Precision::Bf16Mixed) < exact);
    assert!(secs("h100-80g", false, Precision::F32) < exact);
}

#[test]
fn on_the_processor_none_of_it_changes_a_figure() {
    let plain = Experiment { device: "cpu".to_owned(), ..cnn() };
    let gpu = Gpu { pool: PoolPolicy::Reserve, workspace: Bytes::gib(1), tf32: true, deterministic: false };
    let (a, b) = (plan(&plain), plan(&Experiment { gpu, ..plain.clone() }));
    assert!(matches!(a.target, Target::Cpu(_)));
    assert_eq!((a.peak.live, a.peak.reserved, a.load()), (b.peak.live, b.peak.reserved, b.peak.live));
    assert_eq!((&a.first, &a.steady, &a.alive_at_peak), (&b.first, &b.steady, &b.alive_at_peak));
    assert!(a.alive_at_peak.iter().all(|block| !block.name.starts_with("next")));
}

/// Kernels of a step of the preset of GPT-2, all and those of the optimizer's phase.
fn kernels(execution: Execution, update: UpdateTime) -> [usize; 2] {
    let preset = shipped::find("gpt2-rtx4060-plan").expect("ships").expect("a preset");
    let clip_norm = if update == UpdateTime::InBackward { 0.0 } else { preset.optimizer.clip_norm };
    let optimizer = Optimizer { update, clip_norm, ..preset.optimizer };
    let plan = plan(&Experiment { execution, optimizer, ..preset });
    let all = plan.steady.points.iter().filter(|point| point.op != "upload");
    [all.clone().count(), all.filter(|point| point.phase == Phase::Optimizer).count()]
}

#[test]
fn the_page_of_gpus_tells_the_kernels_of_a_step_of_gpt2() {
    let page = include_str!("../../GPU.md");
    for execution in [Execution::InPlace, Execution::Fused] {
        let [all, update] = kernels(execution, UpdateTime::AfterBackward);
        // The squares by one launch, the factor, and 148 updates by three.
        assert_eq!(update, 5);
        let [layerwise, each] = kernels(execution, UpdateTime::InBackward);
        // All but the factor, for which the norm is known too late; one sets the sum of squares to zero, which others add to.
        assert_eq!((each, layerwise - each), (2 * 148, all - update + 1), "{execution:?}");
        let told = format!("| {} | {} | {all} |", execution.key(), layerwise + 1);
        assert!(page.contains(&told), "the page lacks {told}");
    }
}

#[test]
fn launches_that_are_saved_are_time_that_is_not_predicted() {
    let preset = shipped::find("gpt2-rtx4060-plan").expect("ships").expect("a preset");
    let with = |update| {
        let optimizer = Optimizer { update, clip_norm: 0.0, ..preset.optimizer };
        plan(&Experiment { optimizer, execution: Execution::InPlace, ..preset.clone() })
    };
    let [together, apart] = [UpdateTime::AfterBackward, UpdateTime::InBackward].map(with);
    let saved = (apart.steady.points.len() - together.steady.points.len()) as f64 * card().rates.launch_secs;
    // What they read and write is the same, but for the sum that each launch adds to.
    assert!((apart.step_secs - together.step_secs - saved).abs() < 1e-7, "{} {}", apart.step_secs, together.step_secs);
}
