//! candle as the referee: what a run trained here computes the same in models of candle's layers.
//!
//! The weights go out as `model.safetensors`, candle maps them by their published names, and the logits of one batch are the
//! same within 1e-5 of the largest.

use std::path::Path;

use candle_core::{D, DType, Device, Module, Result, Tensor};
use candle_nn::{Linear, VarBuilder, embedding, layer_norm, linear_no_bias, ops, rms_norm, rotary_emb};
use plimsoll_engine::{
    Bytes, Experiment,
    autograd::Tape,
    backend::{Cpu, Executor, HostSlice},
    data::DatasetInfo,
    device::cpu_threads,
    experiment::{DataKind, Model, ModelKind},
    hardware::Machine,
    interop,
    memory::Ledger,
    plan::Resolved,
    step::Session,
    train::{Checkpoint, Command, Event, Keep, Outcome, Start, Trainer},
};

const LENGTH: usize = 9;
const VOCABULARY: usize = 24;
const SAMPLES: usize = 2;

fn small(kind: ModelKind) -> Experiment {
    let tied = kind == ModelKind::Gpt2;
    let model = Model { kind, width: 16, depth: 2, heads: 4, kv_heads: 2, hidden: 24, tied, ..Model::default() };
    let mut e = Experiment { model, ..Experiment::default() };
    (e.data.kind, e.data.length, e.data.vocabulary, e.data.samples) = (DataKind::Tokens, LENGTH, VOCABULARY, 40);
    (e.batch.micro, e.run.steps, e.budget) = (SAMPLES, Some(4), Bytes::gib(1));
    e.optimizer.learning_rate = 0.02;
    e
}

fn info(experiment: &Experiment) -> DatasetInfo {
    *Resolved::new(experiment, &Machine::nominal()).expect("it was trained").info()
}

/// Trains, and exports to `folder`.
fn exported(experiment: &Experiment, folder: &Path) {
    let trainer = Trainer::new(|| {});
    let keep = Keep::in_folder(folder.join("run"));
    trainer.send(Command::Start(Box::new(Start { keep, ..Start::new(experiment.clone()) })));
    let ended = trainer.events().iter().find_map(|event| match event {
        Event::Ended { outcome, .. } => Some(outcome),
        _ => None,
    });
    assert!(matches!(ended, Some(Outcome::Finished)), "{ended:?}");
    let checkpoint = Checkpoint::at(folder.join("run")).expect("saved");
    interop::export(&checkpoint, folder, experiment, &info(experiment), false)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// The logits here, with the weights at `path`.
fn logits(experiment: &Experiment, path: &Path, tokens: &[u32]) -> plimsoll_engine::Result<Vec<f64>> {
    let (mut experiment, info) = (experiment.clone(), info(experiment));
    experiment.weights.path = Some(path.to_owned());
    let executor = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false));
    let mut session = Session::new(executor.clone(), &experiment, &info)?;
    session.load(&mut interop::chosen(&experiment, &info)?.expect("weights are chosen"))?;
    let (shape, dtype) = (info.input.shape(SAMPLES), info.input.dtype(experiment.precision));
    let inputs = executor.upload(HostSlice::U32(tokens), shape, dtype, "tokens")?;
    let logits = session.model().forward(&mut Tape::no_grad(&executor), inputs)?;
    Ok(executor.read(&logits.tensor)?.unwrap_or_default())
}

/// `softmax(q k^T / sqrt(d)) v` with a causal mask, over `[batch, heads, length, head]`.
fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let (batch, heads, length, head) = q.dims4()?;
    let mask: Vec<f32> =
        (0..length * length).map(|i| if i % length > i / length { f32::NEG_INFINITY } else { 0.0 }).collect();
    let mask = Tensor::from_vec(mask, (length, length), &Device::Cpu)?;
    let scores = (q.contiguous()?.matmul(&k.t()?.contiguous()?)? / (head as f64).sqrt())?.broadcast_add(&mask)?;
    let y = ops::softmax(&scores, D::Minus1)?.matmul(&v.contiguous()?)?;
    y.transpose(1, 2)?.reshape((batch, length, heads * head))
}

fn heads(x: &Tensor, count: usize) -> Result<Tensor> {
    let (batch, length, width) = x.dims3()?;
    x.reshape((batch, length, count, width / count))?.transpose(1, 2)?.contiguous()
}

/// GPT-2's dense layers lie as `[in, out]`.
fn conv1d(vars: &VarBuilder<'_>, inner: usize, out: usize) -> Result<Linear> {
    Ok(Linear::new(vars.get((inner, out), "weight")?.t()?.contiguous()?, Some(vars.get(out, "bias")?)))
}

fn gpt2(model: &Model, vars: &VarBuilder<'_>, tokens: &Tensor) -> Result<Tensor> {
    let (vars, width) = (vars.pp("transformer"), model.width);
    let norm = |vars: VarBuilder<'_>| layer_norm(width, 1e-5, vars);
    let table = embedding(VOCABULARY, width, vars.pp("wte"))?;
    let positions = vars.pp("wpe").get((LENGTH, width), "weight")?;
    let mut x = table.forward(tokens)?.broadcast_add(&positions)?;
    for block in 0..model.depth {
        let vars = vars.pp("h").pp(block);
        let qkv = conv1d(&vars.pp("attn.c_attn"), width, 3 * width)?.forward(&norm(vars.pp("ln_1"))?.forward(&x)?)?;
        let parts = qkv.chunk(3, 2)?;
        let [q, k, v] = [0, 1, 2].map(|i| heads(&parts[i], model.heads));
        let y = attention(&q?, &k?, &v?)?;
        x = (x + conv1d(&vars.pp("attn.c_proj"), width, width)?.forward(&y)?)?;
        let y = conv1d(&vars.pp("mlp.c_fc"), width, model.hidden)?.forward(&norm(vars.pp("ln_2"))?.forward(&x)?)?;
        x = (x + conv1d(&vars.pp("mlp.c_proj"), model.hidden, width)?.forward(&y.gelu()?)?)?;
    }
    Linear::new(table.embeddings().clone(), None).forward(&norm(vars.pp("ln_f"))?.forward(&x)?)
}

/// Sines and cosines of the positions' angles, `[length, head / 2]`.
fn angles(head: usize, base: f64) -> Result<(Tensor, Tensor)> {
    let angle = |i: usize| (i / (head / 2)) as f64 * base.powf(-2.0 * (i % (head / 2)) as f64 / head as f64);
    let all: Vec<f64> = (0..LENGTH * head / 2).map(angle).collect();
    let of = |function: fn(f64) -> f64| {
        Tensor::from_iter(all.iter().map(|a| function(*a) as f32), &Device::Cpu)?.reshape((LENGTH, head / 2))
    };
    Ok((of(f64::cos)?, of(f64::sin)?))
}

fn llama(model: &Model, vars: &VarBuilder<'_>, tokens: &Tensor) -> Result<Tensor> {
    let (inner, width) = (vars.pp("model"), model.width);
    let norm = |vars: VarBuilder<'_>| rms_norm(width, 1e-5, vars);
    let (head, groups) = (model.head_width(), model.heads / model.kv_heads);
    let (cos, sin) = angles(head, model.rotary_base)?;
    let mut x = embedding(VOCABULARY, width, inner.pp("embed_tokens"))?.forward(tokens)?;
    for block in 0..model.depth {
        let vars = inner.pp("layers").pp(block);
        let normed = norm(vars.pp("input_layernorm"))?.forward(&x)?;
        let project = |name: &str, count: usize| {
            let layer = linear_no_bias(width, count * head, vars.pp("self_attn").pp(name))?;
            heads(&layer.forward(&normed)?, count)
        };
        let q = rotary_emb::rope(&project("q_proj", model.heads)?, &cos, &sin)?;
        let k = rotary_emb::rope(&project("k_proj", model.kv_heads)?, &cos, &sin)?;
        // Each head of keys and values serves as many of queries.
        let shared = |x: Tensor| {
            let (batch, kv_heads, length, head) = x.dims4()?;
            let all = x.unsqueeze(2)?.expand((batch, kv_heads, groups, length, head))?;
            all.reshape((batch, kv_heads * groups, length, head))
        };
        let y = attention(&q, &shared(k)?, &shared(project("v_proj", model.kv_heads)?)?)?;
        x = (x + linear_no_bias(model.heads * head, width, vars.pp("self_attn.o_proj"))?.forward(&y)?)?;
        let normed = norm(vars.pp("post_attention_layernorm"))?.forward(&x)?;
        let up = |name: &str| linear_no_bias(width, model.hidden, vars.pp("mlp").pp(name))?.forward(&normed);
        let y = (up("gate_proj")?.silu()? * up("up_proj")?)?;
        x = (x + linear_no_bias(model.hidden, width, vars.pp("mlp.down_proj"))?.forward(&y)?)?;
    }
    linear_no_bias(width, VOCABULARY, vars.pp("lm_head"))?.forward(&norm(inner.pp("norm"))?.forward(&x)?)
}

type Peer = fn(&Model, &VarBuilder<'_>, &Tensor) -> Result<Tensor>;

#[test]
fn a_trained_decoder_computes_the_same_in_candles_layers() {
    for (kind, peer) in [(ModelKind::Gpt2, gpt2 as Peer), (ModelKind::Llama, llama)] {
        let folder = tempfile::tempdir().expect("a folder");
        let experiment = small(kind);
        exported(&experiment, folder.path());
        let tokens: Vec<u32> = (0..SAMPLES * LENGTH).map(|i| (i * i * 7 + 3 * i) as u32 % VOCABULARY as u32).collect();
        let inputs = Tensor::from_vec(tokens.clone(), (SAMPLES, LENGTH), &Device::Cpu).expect("tokens");
        let file = folder.path().join("model.safetensors");
        // SAFETY: nothing else writes to the folder.
        let vars = unsafe { VarBuilder::from_mmaped_safetensors(&[file], DType::F32, &Device::Cpu) }.expect("mapped");
        let theirs = peer(&experiment.model, &vars, &inputs).and_then(|y| y.flatten_all()?.to_vec1::<f32>());
        let theirs = theirs.unwrap_or_else(|error| panic!("{kind:?}: {error}"));

        let of = |path: &Path| logits(&experiment, path, &tokens).unwrap_or_else(|error| panic!("{error}"));
        let ours = of(folder.path());
        let largest = theirs.iter().fold(1.0, |most: f64, y| most.max(f64::from(y.abs())));
        assert_eq!(ours.len(), theirs.len());
        for (own, theirs) in ours.iter().zip(&theirs) {
            assert!((own - f64::from(*theirs)).abs() <= 1e-5 * largest, "{kind:?}: {own} here, {theirs} in candle");
        }
        // From the run's own file, the logits are the same to the last bit.
        assert_eq!(ours, of(&folder.path().join("run")), "{kind:?}");
    }
}
