//! The content of an exported file.

use anyhow::Context;
use clap::ValueEnum;
use plimsoll_engine::{
    Bytes,
    experiment::Experiment,
    plan::{self, Pass, Plan},
    report::{
        Comparison, Kept, Subject,
        curves::Curves,
        tables::{self, Table},
        tensorboard, trace,
    },
    store::{MeasuredStep, StoredRun},
};

use super::{Format, Phase, What};
use crate::{
    cli::{Misuse, out, provenance::Provenance, subject::Named},
    figure::{
        Figure,
        curves::{self, Look},
        layers,
        picture::Picture,
        timeline,
    },
    format, page,
    view::View,
};

/// Names with their descriptions.
type Rows = Vec<(String, String)>;

/// The choice of a file's content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contents {
    pub(super) format: Format,
    pub(super) what: Option<What>,
    pub(super) phase: Option<Phase>,
}

impl Contents {
    /// The bytes of the file.
    ///
    /// # Errors
    /// Fails for content that only a run has and a preset lacks, and for a plan that cannot be made.
    pub(super) fn of(self, mut named: Vec<Named>) -> anyhow::Result<Vec<u8>> {
        if named.len() > 1 {
            if self.format != Format::Html {
                return Err(Misuse("only html takes several: name one".to_owned()).into());
            }
            let machines: Vec<Rows> = named.iter().map(machine).collect();
            let subjects = named.into_iter().map(|named| named.subject).collect();
            return Ok(page::comparison(&Comparison::of(subjects)?, &machines).into_bytes());
        }
        let named = named.pop().context("nothing is named")?;
        let Named { subject, kept } = &named;
        Ok(match self.format {
            Format::Csv | Format::Jsonl => self.table(subject, kept.as_ref())?.into_bytes(),
            Format::Tensorboard => {
                let kept = kept.as_ref().with_context(|| only_a_run(subject, "an event file comes"))?;
                tensorboard::events(&kept.curves, &kept.about())
            }
            Format::Safetensors | Format::Huggingface => {
                return Err(Misuse("weights go to a file: name one with -o".to_owned()).into());
            }
            Format::Perfetto => {
                let plan = planned(subject)?;
                let passes = plan.passes().map(|pass| Ok((pass, secs(plan, pass)?)));
                let passes: Vec<_> = passes.collect::<anyhow::Result<_>>()?;
                let ways = kept.as_ref().and_then(|kept| ways(kept, plan));
                trace::json(plan, &passes, ways).into_bytes()
            }
            Format::Svg => self.figure(subject, kept.as_ref())?.svg().into_bytes(),
            Format::Png => Picture::of(&self.figure(subject, kept.as_ref())?)?.png()?,
            Format::Html => {
                let figures = kept.as_ref().map(figures).unwrap_or_default();
                let measured = kept.as_ref().and_then(Kept::measured);
                page::subject(subject, measured, &machine(&named), &figures).into_bytes()
            }
        })
    }

    /// The refusal of a phase where what is written has none.
    fn check_phase(self) -> anyhow::Result<()> {
        match (self.phase, self.what) {
            (Some(_), Some(What::Layers)) => Err(Misuse(
                "--phase: the table of layers is of the model as it begins; leave --phase out, or write --what step"
                    .to_owned(),
            )
            .into()),
            (Some(_), Some(What::Alive)) => {
                Err(Misuse("--phase: the live blocks are those of the peak; leave --phase out".to_owned()).into())
            }
            _ => Ok(()),
        }
    }

    /// The pass of the phase that was asked for.
    ///
    /// # Errors
    /// Fails if the run of the plan has no such phase.
    fn pass(self, plan: &Plan) -> anyhow::Result<Option<Pass>> {
        let Some(phase) = self.phase else { return Ok(None) };
        let is_there = |phase: Phase| !plan.timeline(phase.pass()).points.is_empty();
        if is_there(phase) {
            return Ok(Some(phase.pass()));
        }
        let name = |phase: &Phase| phase.to_possible_value().map(|value| value.get_name().to_owned());
        let others = Phase::value_variants().iter().filter(|phase| is_there(**phase));
        let others: Vec<String> = others.filter_map(name).collect();
        let name = name(&phase).unwrap_or_default();
        Err(Misuse(format!("--phase: this run has no phase `{name}`; it has {}", others.join(", "))).into())
    }

    fn table(self, subject: &Subject, kept: Option<&Kept>) -> anyhow::Result<String> {
        self.check_phase()?;
        let written = |table: Table| if self.format == Format::Csv { table.csv() } else { table.json_lines() };
        match (self.what, kept) {
            (Some(What::Curves | What::Gradients) | None, Some(kept)) => {
                let curves: &Curves = &kept.curves;
                Ok(if self.format == Format::Csv { curves.csv() } else { curves.json_lines() })
            }
            (Some(What::Curves | What::Gradients), None) => anyhow::bail!(only_a_run(subject, "curves come")),
            (Some(What::Step) | None, _) => {
                let plan = planned(subject)?;
                let measured = kept.and_then(|kept| measured(kept, plan));
                let measured = measured.as_ref().map(|(pass, bytes)| (*pass, &bytes[..]));
                let passes = self.pass(plan)?.map_or_else(|| plan.passes().collect(), |pass| vec![pass]);
                Ok(written(tables::ops(plan, &passes, measured)))
            }
            (Some(What::Layers), _) => Ok(written(tables::layers(planned(subject)?))),
            (Some(What::Alive), _) => Ok(written(tables::alive(planned(subject)?))),
        }
    }

    fn figure(self, subject: &Subject, kept: Option<&Kept>) -> anyhow::Result<Figure> {
        self.check_phase()?;
        match (self.what, kept) {
            (Some(What::Curves) | None, Some(kept)) => Ok(curves::live(&drawn(kept))),
            (Some(What::Gradients), Some(kept)) => Ok(curves::gradients(&drawn(kept))),
            (Some(What::Curves | What::Gradients), None) => anyhow::bail!(only_a_run(subject, "curves come")),
            (Some(What::Step) | None, _) => {
                let plan = planned(subject)?;
                let pass = self.pass(plan)?.unwrap_or(plan.peak_pass);
                let measured = kept.and_then(|kept| measured(kept, plan)).filter(|(of, _)| *of == pass);
                let mib: Vec<f64> = measured.iter().flat_map(|(_, bytes)| bytes).map(|b| b.as_mib()).collect();
                Ok(timeline::figure(timeline::Step { plan, pass, outline: None, measured: &mib }))
            }
            (Some(What::Layers), _) => Ok(layers::figure(planned(subject)?)),
            (Some(What::Alive), _) => {
                Err(Misuse("the live blocks are a table: write --format csv, or --what layers".to_owned()).into())
            }
        }
    }
}

fn only_a_run(subject: &Subject, what: &str) -> String {
    format!("{}: {what} of a run; `plimsoll train` keeps runs, and `last` names the newest", subject.name)
}

/// Estimated seconds of each op of a pass. In a kept timeline with other ops than this program plans, each gets an equal
/// share.
fn secs(plan: &Plan, pass: Pass) -> anyhow::Result<Vec<f64>> {
    let (secs, ops) = (plan::op_secs(plan, pass)?, plan.timeline(pass).points.len());
    if secs.len() == ops {
        return Ok(secs);
    }
    out::say("note", &format!("{}: this program plans other ops, so each is drawn as long as the others", pass.name()));
    Ok(vec![secs.iter().sum::<f64>() / ops.max(1) as f64; ops])
}

fn planned(subject: &Subject) -> anyhow::Result<&Plan> {
    subject.plan.as_deref().with_context(|| format!("{}: cannot be planned here any more", subject.name))
}

/// The measurement during each op of a step, if it is the planned step.
fn measured(kept: &Kept, plan: &Plan) -> Option<(Pass, Vec<Bytes>)> {
    let MeasuredStep { step, bytes, .. } = &kept.details.measured_step;
    let pass = plan.pass_of(*step);
    (bytes.len() == plan.timeline(pass).points.len()).then(|| (pass, bytes.clone()))
}

/// The pass of the measured step, and the way in which each of its ops ran, if it is the planned step.
fn ways<'a>(kept: &'a Kept, plan: &Plan) -> Option<(Pass, &'a [String])> {
    let MeasuredStep { step, ways, .. } = &kept.details.measured_step;
    let pass = plan.pass_of(*step);
    (ways.len() == plan.timeline(pass).points.len()).then_some((pass, ways))
}

/// A run as its charts are drawn: smoothed as the window does it by default.
fn drawn(kept: &Kept) -> curves::Run<'_> {
    let Kept { run, experiment, curves, .. } = kept;
    curves::Run {
        title: run.label().to_owned(),
        curves,
        predicted: Some(run.load(&run.predicted)),
        budget: run.budget,
        accuracy: format::accuracy(&experiment.data),
        clip_norm: experiment.optimizer.clip_norm,
        look: Look { smoothing: View::default().smoothing, ..Look::default() },
    }
}

fn figures(kept: &Kept) -> Vec<Figure> {
    if kept.curves.is_empty() { Vec::new() } else { vec![curves::live(&drawn(kept)), curves::gradients(&drawn(kept))] }
}

/// Where a plan was made, or where a run ran.
fn machine(named: &Named) -> Rows {
    match &named.kept {
        Some(kept) => of_run(&kept.run),
        None => of_plan(&named.subject.experiment, named.subject.plan.as_deref()),
    }
}

fn of_run(run: &StoredRun) -> Rows {
    let rows = [
        ("run", run.key.to_string()),
        ("state", run.state.key().to_owned()),
        ("device", run.device.clone()),
        ("name", run.device_name.clone()),
        ("seed", run.seed.to_string()),
        ("began", run.started.to_string()),
        ("program", format!("plimsoll {}", run.version)),
        ("note", run.note.clone()),
    ];
    rows.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn of_plan(experiment: &Experiment, plan: Option<&Plan>) -> Rows {
    let card = plan.and_then(|plan| plan.target.profile());
    let card = card.map(|card| ("planned for".to_owned(), format!("{}, {}", card.title, card.capacity)));
    card.into_iter().chain(Provenance::now(&experiment.device).rows()).collect()
}
