//! A plan in words and tables.

use std::time::Duration;

use plimsoll_engine::{
    Bytes, Experiment,
    data::HostMemory,
    experiment::Execution,
    memory::Category,
    plan::{Limit, Pass, Plan, Verdict},
};

use crate::{
    cli::{offers, table::Table},
    format, samples,
};

/// How long changes that fit are looked for at most.
const SEARCH_TIME: Duration = Duration::from_secs(10);

fn parameters(plan: &Plan) -> String {
    match plan.trained == plan.parameters {
        true => format::counted(plan.parameters, "parameter"),
        false => {
            let parameters = format::counted(plan.parameters, "parameter");
            format!("{parameters}, {} of them trained", format::count(plan.trained))
        }
    }
}

/// The tensors that stay wider than the activations, by reason; empty if all are of one width.
fn wide(plan: &Plan) -> String {
    let mut table = Table::new(["stays wider", "tensors", "memory", "why"]).words(4);
    let mut rows: Vec<(&str, &str, usize, u64)> = Vec::new();
    for tensor in &plan.high_precision {
        match rows.iter_mut().find(|(_, reason, ..)| *reason == tensor.reason) {
            Some((_, _, count, bytes)) => (*count, *bytes) = (*count + 1, *bytes + tensor.bytes),
            None => rows.push((tensor.dtype.name(), tensor.reason, 1, tensor.bytes)),
        }
    }
    for (dtype, reason, count, bytes) in &rows {
        let bytes = Bytes(*bytes).to_string();
        table.row([(*dtype).to_owned(), count.to_string(), bytes, (*reason).to_owned()]);
    }
    if rows.is_empty() { String::new() } else { format!("\n{table}") }
}

/// The time of a step, and of one after channels are taken out.
fn pace(plan: &Plan) -> String {
    let step = format::secs(plan.step_secs);
    match plan.pruned_step_secs {
        0.0 => step,
        smaller => format!("{step} ({} once channels are taken out)", format::secs(smaller)),
    }
}

/// The plan in words and tables.
pub(super) fn describe(plan: &Plan) -> anyhow::Result<String> {
    let peak = plan.peak;
    let title = plan.experiment.title.trim();
    let mut text = if title.is_empty() { String::new() } else { format!("{title}\n") };
    text.push_str(&answer(plan));
    text.push_str(&card(plan));
    text.push_str(&format!(
        "Live {}, reserved {}, process {}{}. {}, {} of about {} and {} of about {}: about {} in all.\n\
         {}",
        peak.live,
        peak.reserved,
        peak.process,
        if plan.target.is_gpu() { "" } else { " (an estimate)" },
        parameters(plan),
        format::counted(plan.total_steps, "step"),
        pace(plan),
        format::counted(plan.tests(), "test"),
        format::secs(plan.test_secs),
        format::secs(plan.run_secs()),
        host(plan)
    ));
    text.push_str(&teacher(plan));
    for note in plan.resolved.notes() {
        text.push_str(&format!("Data: {note}.\n"));
    }
    if let Some(words) = plan.resolved.ranks_in_words() {
        text.push_str(&format!("Low rank: {words}.\n"));
    }
    if let Some(words) = format::of_zeros(plan) {
        text.push_str(&format!("{words}.\n"));
    }
    if let Some(smaller) = plan.smaller {
        let channels = format::of_channels(&plan.experiment.prune).map_or(String::new(), |why| format!(" {why}."));
        text.push_str(&format!("The trained model: {smaller}.{channels}\n"));
    }
    for line in plan.resolved.data().table_facts().into_iter().flat_map(samples::table_lines) {
        text.push_str(&format!("Table: {line}.\n"));
    }
    for line in plan.resolved.data().text_facts().into_iter().flat_map(samples::lines) {
        text.push_str(&format!("Text: {line}.\n"));
    }
    text.push_str(&execution(plan)?);
    text.push('\n');
    if let Some(without) = plan.peak_without_updates().filter(|without| *without < peak.live) {
        text.push_str(&format!(
            "While f16 overflows, updates are skipped and the optimizer's state is not allocated: the peak is {without} until \
             the first update.\n\n"
        ));
    }
    text.push_str(&phases(plan));
    text.push_str(&at_peak(plan));
    text.push_str(&wide(plan));
    if matches!(plan.verdict(), Verdict::OverBudget { .. } | Verdict::OverMachine { .. }) {
        text.push_str(&offers::of(plan, Limit::for_plan(plan, SEARCH_TIME))?);
    }
    Ok(text)
}

/// The peak of each phase.
fn phases(plan: &Plan) -> String {
    let mut table = Table::new(["phase", "memory", ""]).words(3);
    for pass in plan.passes() {
        let mark = if pass == plan.peak_pass { "the peak" } else { "" };
        let when = match (pass, plan.thinned_after) {
            (Pass::Pruned, Some(after)) => format!("from step {} on", after + 1),
            (Pass::Prune, Some(after)) => format!("after step {after}"),
            _ => String::new(),
        };
        let words: Vec<&str> = [mark, &when].into_iter().filter(|words| !words.is_empty()).collect();
        table.row([pass.name().to_owned(), plan.timeline(pass).peak().to_string(), words.join(", ")]);
    }
    format!("{table}\n")
}

/// The content of the peak: by category, and the largest tensors.
fn at_peak(plan: &Plan) -> String {
    let load = plan.load();
    let mut categories = Table::new(["at the peak", "memory", "share"]);
    for (category, bytes) in plan.categories_at_peak.iter().filter(|(_, bytes)| bytes.0 > 0) {
        let share = match category {
            // On the processor it does not count.
            Category::Slack if !plan.target.is_gpu() => String::new(),
            _ => format!("{:.0}%", bytes.0 as f64 / load.0.max(1) as f64 * 100.0),
        };
        categories.row([category.name().to_owned(), bytes.to_string(), share]);
    }
    let mut alive = Table::new(["largest at the peak", "layer", "category", "memory"]).words(3);
    for block in plan.alive_at_peak.iter().take(8) {
        let bytes = Bytes(block.bytes).to_string();
        alive.row([block.name.to_owned(), block.layer.clone(), block.category.name().to_owned(), bytes]);
    }
    format!("{categories}\n{alive}")
}

/// The cost of eager and fused execution, compared with the same run in place; empty for a run in place.
fn execution(plan: &Plan) -> anyhow::Result<String> {
    let way = match plan.experiment.execution {
        Execution::InPlace => return Ok(String::new()),
        Execution::Eager => "Eager execution",
        Execution::Fused => "Fused execution",
    };
    let in_place = Experiment { execution: Execution::InPlace, ..(*plan.experiment).clone() };
    let in_place = Plan::of(&in_place, &plan.machine)?;
    let (theirs, own) = (in_place.load(), plan.load());
    let (by, more) =
        if own > theirs { (own.saturating_sub(theirs), true) } else { (theirs.saturating_sub(own), false) };
    let percent = by.0 as f64 / theirs.0.max(1) as f64 * 100.0;
    let memory = match by {
        Bytes::ZERO => format!("no more at the peak than execution in place, {theirs}"),
        by => {
            let than = if more { "more" } else { "less" };
            format!("{by} {than} at the peak than execution in place, {percent:.1}% of {theirs}")
        }
    };
    let time = (plan.step_secs / in_place.step_secs.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
    let than = if time > 0.0 { "more" } else { "less" };
    Ok(format!("{way} takes {memory}; a step takes about {:.1}% {than} time.\n", time.abs()))
}

/// The host memory outside the budget.
fn host(plan: &Plan) -> String {
    let HostMemory { data, cache, answers, batches, workers, disk, factors, normalising, .. } = plan.host;
    let budget = plan.experiment.data.host_line().map_or(String::new(), |line| format!(" (of {line})"));
    let kept = if cache > Bytes::ZERO { format!("kept samples {cache}, ") } else { String::new() };
    let said = if answers > Bytes::ZERO { format!("the teacher's answers {answers}, ") } else { String::new() };
    let total = plan.host.total();
    let disk = if disk > Bytes::ZERO { format!("The cache on disk takes {disk}.\n") } else { String::new() };
    let factored = match factors {
        Bytes::ZERO => String::new(),
        factors => format!("To factor the largest layer, before the first batch, takes {factors}.\n"),
    };
    let normalised = if normalising > plan.host.fed_later() {
        format!(
            "The most of it is there before the first batch, while the samples are normalised: {normalising} beside them.\n"
        )
    } else {
        String::new()
    };
    format!(
        "Host memory outside the budget: {total}{budget}, of which the data set takes {data}, {kept}{said}batches {batches}, and the \
         threads that make them {workers}.\n{disk}{factored}{normalised}"
    )
}

/// The memory of a teacher that is asked before the first step; empty for any other.
fn teacher(plan: &Plan) -> String {
    match plan.timeline(Pass::Teach) {
        asked if asked.points.is_empty() => String::new(),
        asked => format!(
            "The teacher is asked about {} before the first step, in about {}: {} at the most. Then it goes.\n",
            format::counted(plan.resolved.info().train as u64, "sample"),
            format::secs(plan.teach_secs),
            asked.peak()
        ),
    }
}

/// Whether the run fits, and otherwise the obstacle.
fn answer(plan: &Plan) -> String {
    let (load, budget) = (plan.load(), plan.budget);
    let machine = plan.machine_line().filter(|line| load > line.bytes);
    let free = plan.machine.free_memory().map(|free| format!(" ({} in all)", free.bytes)).unwrap_or_default();
    match plan.verdict() {
        Verdict::Fits { headroom } => {
            format!("It fits: {load} at the peak, {headroom} below the budget of {budget}.\n")
        }
        Verdict::OverBudget { by } => {
            let machine = machine.map(|line| {
                let [load, line] = line.beside(load);
                format!("A larger budget is not enough: {load} is past {line}{free} as well.\n")
            });
            let machine = machine.unwrap_or_default();
            format!("It does not fit: {load} at the peak, {by} over the budget of {budget}.\n{machine}")
        }
        Verdict::OverMachine { line } => {
            let [load, line] = line.beside(load);
            format!(
                "It does not fit this machine: {load} at the peak, of {line}{free}. It is inside the budget of {budget}, which \
                 is more than that.\n"
            )
        }
        Verdict::OverHostBudget { .. } | Verdict::NoRoomForData { .. } | Verdict::NoRoomOnDisk { .. } => {
            let words = plan.host_problem().map(|problem| problem.to_string());
            format!("It does not fit: {}.\n", words.unwrap_or_default())
        }
    }
}

/// The note about a card that was planned for; empty for the processor.
fn card(plan: &Plan) -> String {
    let Some(card) = plan.target.profile() else { return String::new() };
    let mut text = format!(
        "On a GPU the whole process counts: the context and the pool. Planned for {}: {} of memory, {} for a process.\n",
        card.title,
        card.capacity,
        card.usable_memory()
    );
    if card.is_estimate() {
        text.push_str(&format!(
            "Its context of {} and the growth of its pool are estimates until they are measured; times are at its peak rates.\n",
            card.context
        ));
    }
    if let Some(launches) = plan.launches_in_words() {
        text.push_str(&format!("{launches}\n"));
    }
    if let Some(room) = plan.card_below_budget() {
        let budget = plan.experiment.budget;
        text.push_str(&format!("The budget of {budget} is more than that, so the limit is the card's: {room}.\n"));
    }
    text
}
