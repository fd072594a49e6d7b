//! Writing on with a key-value cache: it says what whole passes say, and its bytes are known beforehand.

use std::ops::ControlFlow;

use half::bf16;
use plimsoll_engine::{
    Bytes, Experiment,
    backend::{Cpu, DType, Executor, HostSlice},
    experiment::{AttentionKind, BaseWeights, DataKind, Frozen, ModelKind, Precision},
    hardware::Machine,
    memory::Ledger,
    plan::{Passes, Resolved},
    step::{MicroBatch, Session},
    train::{Cached, Sampling, Tester, Tried, Written},
};

/// Places of the models here.
const LENGTH: usize = 11;

/// A small decoder of texts.
fn small(kind: ModelKind, change: impl FnOnce(&mut Experiment)) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    (e.model.kind, e.model.width, e.model.depth) = (kind, 32, 2);
    (e.model.heads, e.model.kv_heads, e.model.hidden) = (4, 4, 64);
    (e.data.kind, e.data.samples, e.data.length, e.data.vocabulary) = (DataKind::Tokens, 40, LENGTH, 30);
    e.batch.micro = 4;
    change(&mut e);
    e
}

/// Sequences of tokens that say nothing.
struct Noise(Vec<u32>, Vec<u32>);

impl Noise {
    fn new(samples: usize) -> Self {
        let token = |i: usize| (i * 7919 % 31 * 13 % 30) as u32;
        Self((0..samples * LENGTH).map(token).collect(), (0..samples * LENGTH).map(|i| token(i + 5)).collect())
    }

    /// One sequence that begins with `tokens`.
    fn after(tokens: &[u32]) -> Self {
        let mut inputs = tokens.to_vec();
        inputs.resize(LENGTH, 0);
        Self(inputs, vec![0; LENGTH])
    }
}

impl MicroBatch for &Noise {
    fn samples(&self) -> usize {
        self.0.len() / LENGTH
    }

    fn inputs(&self) -> HostSlice<'_> {
        HostSlice::U32(&self.0)
    }

    fn labels(&self) -> &[u32] {
        &self.1
    }
}

fn numbers(dtype: DType, bytes: &[u8], to: &mut Vec<f32>) {
    match dtype {
        DType::F32 => to.extend(bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().expect("four")))),
        DType::Bf16 => to.extend(bytes.chunks(2).map(|b| bf16::from_ne_bytes(b.try_into().expect("two")).to_f32())),
        other => panic!("logits of {other:?}"),
    }
}

/// A model that has learned a little, so that no part of it is zero.
fn session(experiment: &Experiment) -> Session<Cpu> {
    let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
    let resolved = Resolved::new(experiment, &Machine::nominal()).expect("it can be");
    let mut session = Session::new(executor, resolved.experiment(), resolved.info()).expect("no budget");
    let batch = Noise::new(experiment.batch.micro);
    for _ in 0..3 {
        session.step(0.02, || Ok(&batch)).expect("a step");
    }
    session
}

/// The logits at the last of `tokens`, from a pass over all places.
fn whole(session: &Session<Cpu>, tokens: &[u32]) -> Vec<f32> {
    let seen = &tokens[tokens.len().saturating_sub(LENGTH)..];
    let batch = Noise::after(seen);
    let (mut batch, mut all) = (Some(&batch), Vec::new());
    let mut see = |dtype, bytes: &[u8]| {
        numbers(dtype, bytes, &mut all);
        Ok(())
    };
    session.answer(|| Ok(batch.take()), Some(&mut see)).expect("answered");
    let classes = all.len() / LENGTH;
    all[(seen.len() - 1) * classes..][..classes].to_vec()
}

#[test]
fn with_a_cache_a_model_says_what_it_says_without() {
    let llama = ModelKind::Llama;
    let cases: [(&str, Experiment); 9] = [
        ("gpt2", small(ModelKind::Gpt2, |_| {})),
        ("plain attention", small(ModelKind::Gpt2, |e| e.model.attention = AttentionKind::Plain)),
        ("grouped", small(llama, |e| e.model.kv_heads = 2)),
        ("window", small(llama, |e| (e.model.window, e.model.kv_heads) = (3, 1))),
        ("window of gpt2", small(ModelKind::Gpt2, |e| e.model.window = 4)),
        ("norm and bias", small(llama, |e| (e.model.qk_norm, e.model.qkv_bias, e.model.head_dim) = (true, true, 6))),
        ("adapters", small(llama, |e| (e.lora.rank, e.frozen) = (2, Frozen::All))),
        ("codes", small(llama, |e| (e.lora.rank, e.frozen, e.quantise.base) = (2, Frozen::All, BaseWeights::Nf4))),
        ("bf16", small(llama, |e| (e.precision, e.model.kv_heads) = (Precision::Bf16Mixed, 2))),
    ];
    let text = Noise::new(2).0;
    for (name, experiment) in cases {
        let session = session(&experiment);
        whole(&session, &text);
        let live = session.executor().ledger().live();
        // A token, some, all but one, all, and more than there are places for.
        for prompt in [1, 4, LENGTH - 1, LENGTH, LENGTH + 2] {
            let end = LENGTH + 4;
            let mut writing = session.writing(prompt, end - prompt).expect("a decoder");
            for length in prompt..end {
                let mut found = Vec::new();
                let mut see = |dtype, bytes: &[u8]| {
                    numbers(dtype, bytes, &mut found);
                    Ok(())
                };
                writing.next(&text[..length], &mut see).expect("a pass");
                let wanted = whole(&session, &text[..length]);
                assert_eq!(found.len(), wanted.len(), "{name}");
                let largest = wanted.iter().fold(0.0_f32, |top, x| top.max(x.abs()));
                let tolerance = if experiment.precision == Precision::F32 { 1e-5 } else { 0.03 } * largest.max(1.0);
                let off = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(largest > 0.05 && off <= tolerance, "{name}, {prompt}, {length}: {off} of {largest}");
            }
            let cached = writing.cached();
            assert_eq!(cached, if prompt < LENGTH { expected(&experiment) } else { Cached::default() }, "{name}");
        }
        assert_eq!(session.executor().ledger().live(), live, "{name}: nothing stays");
    }
}

/// What a cache of all places holds.
fn expected(e: &Experiment) -> Cached {
    let kv_heads = if e.model.kind == ModelKind::Llama { e.model.kv_heads } else { e.model.heads };
    let bytes = 2 * e.model.depth * kv_heads * e.model.head_width() * LENGTH * e.precision.compute().size();
    Cached { positions: LENGTH, bytes: Bytes(bytes as u64) }
}

fn written(tester: &mut Tester, experiment: &Experiment, prompt: usize, tokens: usize) -> Written {
    let prompt: Vec<String> = (0..prompt).map(|i| (i * 11 % 30).to_string()).collect();
    let sampling = Sampling { tokens: Some(tokens), ..Sampling::default() };
    let tried = Tried::begun(experiment.clone());
    let written = tester.write(&tried, &prompt.join(" "), sampling, &mut |_| ControlFlow::Continue(()));
    written.expect("it fits")
}

#[test]
fn what_a_cache_takes_is_predicted_and_measured() {
    let mut tester = Tester::new();
    let wide = |e: &mut Experiment| {
        (e.model.width, e.model.heads, e.model.hidden, e.data.length) = (64, 4, 128, 300);
        (e.model.kv_heads, e.model.qk_norm) = (2, e.model.kind == ModelKind::Llama);
    };
    for kind in [ModelKind::Gpt2, ModelKind::Llama] {
        let experiment = small(kind, wide);
        let row = 2 * 2 * 16 * 4 * if kind == ModelKind::Gpt2 { 4 } else { 2 };
        // A token alone; room for all that is written; up to the end; past it; and no cache at all.
        for (prompt, tokens, positions) in [(1, 1, 1), (5, 40, 44), (290, 11, 300), (280, 30, 300), (300, 3, 0)] {
            let Written { took, tokens: found, .. } = written(&mut tester, &experiment, prompt, tokens);
            let context = format!("{kind:?}, {prompt} and {tokens}: {took:?}");
            assert_eq!(found.len(), tokens, "{context}");
            assert!(took.measured <= took.predicted, "{context}");
            // The constant for what a dry run does not show, as of every model that is tried.
            assert!(took.predicted.0 <= took.measured.0 + took.measured.0 / 100 + Bytes::kib(384).0, "{context}");
            let cached = took.cached.map(|cached| (cached.positions, cached.bytes.0));
            assert_eq!(cached, (positions > 0).then_some((positions, row * positions as u64)), "{context}");
        }
    }
}

#[test]
fn more_positions_take_as_much_more_memory_as_their_keys_and_values() {
    let mut tester = Tester::new();
    let experiment = small(ModelKind::Llama, |e| {
        (e.model.width, e.model.depth, e.model.heads, e.model.hidden, e.data.length) = (64, 6, 4, 64, 4000);
    });
    let [few, many] = [20, 3000].map(|tokens| {
        let machine = Machine::nominal();
        let resolved = Resolved::new(&experiment, &machine).expect("it can be");
        let passes = Passes::Writing { prompt: 4, count: tokens };
        plimsoll_engine::plan::Forward::of(&resolved, &machine, passes, plimsoll_engine::plan::Begun::Drawn)
            .expect("a dry run")
    });
    let [more, cached] =
        [many.live - few.live, many.cached.expect("a cache").bytes - few.cached.expect("a cache").bytes];
    assert_eq!(cached.0, 2980 * 6 * 2 * 64 * 4);
    // The scratch of a query's logits grows too; the peak of the shorter text may lie in its first pass.
    let scratch = 4 * 2980 * 4;
    assert!(more.0.abs_diff(cached.0) <= scratch, "{more:?} more, {cached:?} of keys and values");
    // What is measured keeps pace: a cache that were not there would show.
    let [few, many] = [20, 320].map(|tokens| written(&mut tester, &experiment, 4, tokens).took);
    let cached = 300 * 6 * 2 * 64 * 4;
    let more = many.measured.0 - few.measured.0;
    assert!(many.measured <= many.predicted && more.abs_diff(cached) <= Bytes::kib(32).0, "{few:?}, {many:?}");
}
