//! Files of compressed models: as many bytes as the run said, and the numbers that it computed with.

mod damaged;

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use candle_core::{Device, Tensor, safetensors};
use plimsoll_engine::{
    Bytes, Experiment,
    data::{Dataset, Loader},
    experiment::{
        CodedWeights, DataKind, LowRank, ModelKind, Normalise, Precision, Prune, PruneKind, Quantise, QuantiseKind,
    },
    interop::{self, Compressed},
    tensor::HostSlice,
    train::{Checkpoint, Evaluation, Tester, Tried},
};
use serde_json::Value;

use super::{Run, info, tiny, trained};

/// A tensor of a file: its type, its extents and its bytes.
type Read = (String, Vec<usize>, Vec<u8>);

/// A file as it lies: its tensors, and its `quantization_config`.
fn read(path: &Path) -> (HashMap<String, Read>, Value) {
    let bytes = fs::read(path).expect("written");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
    let (head, elements) = (&bytes[8..8 + length], &bytes[8 + length..]);
    let head: Value = serde_json::from_slice(head).expect("a header");
    let config = head["__metadata__"]["quantization_config"].as_str();
    let config = config.map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"));
    let tensor = |(name, entry): (&String, &Value)| {
        let numbers = |value: &Value| -> Vec<usize> { serde_json::from_value(value.clone()).expect("numbers") };
        let at = numbers(&entry["data_offsets"]);
        let dtype = entry["dtype"].as_str().expect("a type").to_owned();
        (name.clone(), (dtype, numbers(&entry["shape"]), elements[at[0]..at[1]].to_vec()))
    };
    let tensors = head.as_object().expect("tensors").iter().filter(|(name, _)| *name != "__metadata__");
    (tensors.map(tensor).collect(), config)
}

fn floats(read: &Read) -> Vec<f32> {
    assert_eq!(read.0, "F32");
    read.2.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four"))).collect()
}

/// The weights of a run as it computes with them.
fn weights(folder: &Path, precision: Precision) -> HashMap<String, (Vec<usize>, Vec<f32>)> {
    let file = safetensors::load(folder.join("last.safetensors"), &Device::Cpu).expect("a checkpoint");
    let of = |(name, tensor): (String, Tensor)| {
        let narrow = if precision == Precision::F32 { candle_core::DType::F32 } else { candle_core::DType::BF16 };
        let narrow = tensor.to_dtype(narrow).and_then(|tensor| tensor.to_dtype(candle_core::DType::F32));
        let numbers = narrow.and_then(|tensor| tensor.flatten_all()?.to_vec1()).expect("numbers");
        (name, (tensor.dims().to_vec(), numbers))
    };
    file.into_iter().filter(|(name, _)| !name.starts_with("optimizer.")).map(of).collect()
}

/// Writes the compressed model of the run in `folder`, next to it.
fn written(experiment: &Experiment, folder: &Path) -> plimsoll_engine::Result<Compressed> {
    let checkpoint = Checkpoint::open(Checkpoint::at(folder).expect("saved"))?;
    let (from, ranges) = ((checkpoint.path(), checkpoint.step()), folder.join(Checkpoint::RANGES));
    interop::compressed(from, &ranges, &folder.join("compressed.safetensors"), experiment, &info(experiment))
}

/// The test of a model that begins with the weights at `path` and computes with numbers.
fn begun(experiment: &Experiment, path: &Path) -> plimsoll_engine::Result<Evaluation> {
    let mut begun = experiment.clone();
    (begun.quantise, begun.prune) = (Quantise::default(), Prune::default());
    begun.weights.path = Some(path.to_owned());
    // A file without texts does not say how the run scaled its pixels.
    begun.data.normalise = Normalise::Dataset;
    Tester::new().evaluate(&Tried::begun(begun))
}

/// The tensors of a file that are no part of a weight that it has codes or a mask of.
fn plain(tensors: &HashMap<String, Read>) -> HashMap<String, Tensor> {
    let is_part = |name: &str| {
        let (layer, _) = name.rsplit_once('.').expect("a layer");
        let parts = ["weight_scale", "weight_packed", "compressed"].map(|part| format!("{layer}.{part}"));
        !name.ends_with(".bias") && parts.iter().any(|part| tensors.contains_key(part))
    };
    let own = tensors.iter().filter(|(name, _)| !is_part(name));
    let tensor = |(name, (dtype, shape, bytes)): (&String, &Read)| {
        let dtype = if dtype == "BF16" { candle_core::DType::BF16 } else { candle_core::DType::F32 };
        (name.clone(), Tensor::from_raw_buffer(bytes, dtype, shape, &Device::Cpu).expect("a tensor"))
    };
    own.map(tensor).collect()
}

/// Holds a model that begins with the compressed file in `folder` against one that begins with these tensors.
fn reads_as(experiment: &Experiment, folder: &Path, tensors: &HashMap<String, Tensor>) -> Evaluation {
    let decoded = folder.join("decoded.safetensors");
    safetensors::save(tensors, &decoded).expect("written");
    let [file, numbers] =
        [folder.join("compressed.safetensors"), decoded].map(|path| begun(experiment, &path).expect("weights"));
    assert_eq!((file.loss, file.accuracy), (numbers.loss, numbers.accuracy));
    file
}

/// Trains in `folder`; the run, what was written and the file.
fn exported(experiment: &Experiment, folder: &Path) -> (Run, Compressed, HashMap<String, Read>, Value) {
    let run = trained(experiment, folder);
    let compressed = written(experiment, folder).unwrap_or_else(|error| panic!("{error}"));
    let (tensors, config) = read(&folder.join("compressed.safetensors"));
    let all: usize = tensors.values().map(|(.., bytes)| bytes.len()).sum();
    assert_eq!(compressed.tensors, Bytes(all as u64));
    let size = fs::metadata(folder.join("compressed.safetensors")).expect("written").len();
    assert_eq!(compressed.bytes, Bytes(size));
    (run, compressed, tensors, config)
}

/// A small MLP on digits.
fn digits(kind: QuantiseKind) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    (e.model.kind, e.model.width, e.model.depth, e.data.kind) = (ModelKind::Mlp, 24, 1, DataKind::Digits);
    (e.batch.micro, e.run.epochs) = (32, Some(4));
    e.quantise = Quantise { kind, calibration: 4, ..Quantise::default() };
    e
}

fn signed(bytes: &[u8]) -> Vec<i32> {
    bytes.iter().map(|byte| i32::from(*byte as i8)).collect()
}

/// The outputs of a dense layer of the file for rows of inputs, by sums of integers.
fn dense(tensors: &HashMap<String, Read>, layer: &str, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let get = |what: &str| &tensors[&format!("{layer}.{what}")];
    let (codes, shape) = (signed(&get("weight").2), &get("weight").1);
    let (scales, bias) = (floats(get("weight_scale")), floats(get("bias")));
    let (scale, zero) = (floats(get("input_scale"))[0], signed(&get("input_zero_point").2)[0]);
    let row = |x: &Vec<f32>| {
        let code = |x: &f32| ((x / scale).round_ties_even() as i32 + zero).clamp(-128, 127) - zero;
        let x: Vec<i32> = x.iter().map(code).collect();
        let sum = |w: &[i32]| w.iter().zip(&x).map(|(w, x)| w * x).sum::<i32>();
        let rows = codes.chunks(shape[1]).zip(scales.iter().zip(&bias));
        rows.map(|(w, (own, bias))| sum(w) as f32 * (own * scale) + bias).collect()
    };
    inputs.iter().map(row).collect()
}

/// Loss and accuracy on the test set of the two dense layers of the file.
fn tested(experiment: &Experiment, tensors: &HashMap<String, Read>) -> (f64, f64) {
    let dataset = Arc::new(Dataset::open(&experiment.data, &experiment.run).expect("digits"));
    let mut test = Loader::test(Arc::clone(&dataset), 32).expect("a test set");
    let layer = |width: usize| {
        let mut layers = tensors.iter().filter(|(name, read)| name.ends_with(".weight") && read.1[1] == width);
        layers.next().expect("a layer").0.trim_end_matches(".weight").to_owned()
    };
    let (first, second) = (layer(64), layer(24));
    let (mut loss, mut right, mut all) = (0.0, 0, 0);
    while let Some(batch) = test.recv().expect("a batch") {
        let HostSlice::F32(inputs) = plimsoll_engine::step::MicroBatch::inputs(&batch) else { panic!("pixels") };
        let rows: Vec<Vec<f32>> = inputs.chunks(64).map(<[f32]>::to_vec).collect();
        let mut hidden = dense(tensors, &first, &rows);
        hidden.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
        for (logits, label) in dense(tensors, &second, &hidden).iter().zip(&batch.labels) {
            let label = *label as usize;
            let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
            loss += sum.ln() - f64::from(logits[label]);
            right += usize::from(logits.iter().all(|x| *x <= logits[label]));
            all += 1;
        }
    }
    (loss / f64::from(all), right as f64 / f64::from(all))
}

#[test]
fn a_file_of_integers_answers_as_the_run_was_tested_and_is_as_large_as_it_said() {
    for kind in [QuantiseKind::After, QuantiseKind::Aware] {
        let folder = tempfile::tempdir().expect("a folder");
        let experiment = digits(kind);
        let (run, compressed, tensors, config) = exported(&experiment, folder.path());
        let own = run.summary.compressed.expect("integers");
        assert_eq!((compressed.tensors, compressed.statistics), (own.bytes, Bytes::ZERO), "{kind:?}");
        let planned = run.plan.smaller.map(|smaller| (smaller.bytes, smaller.file_bytes, smaller.is_estimate));
        assert_eq!(planned, Some((own.bytes, own.bytes, false)));
        let (loss, accuracy) = tested(&experiment, &tensors);
        assert_eq!(accuracy, own.test_accuracy, "{kind:?}");
        assert!(accuracy > 0.8 && (loss - own.test_loss).abs() < 1e-5, "{kind:?}: {loss} and {}", own.test_loss);
        let mut numbers = plain(&tensors);
        for (name, (_, shape, codes)) in tensors.iter().filter(|(_, read)| read.0 == "I8" && read.1.len() == 2) {
            let scales = floats(&tensors[&format!("{name}_scale")]);
            let codes = signed(codes).into_iter().enumerate();
            let decoded = codes.map(|(at, code)| code as f32 * scales[at / shape[1]]);
            let decoded = Tensor::from_vec(decoded.collect(), shape.clone(), &Device::Cpu).expect("a tensor");
            numbers.insert(name.clone(), decoded);
        }
        let read = reads_as(&experiment, folder.path(), &numbers);
        assert!((read.loss - own.trained_loss).abs() < 0.05, "{kind:?}: {} and {}", read.loss, own.trained_loss);
        assert_eq!(config["format"], "int-quantized");
        let group = &config["config_groups"]["group_0"];
        assert_eq!(
            (&group["weights"]["strategy"], &group["input_activations"]["symmetric"]),
            (&"channel".into(), &false.into())
        );
        assert_eq!(group["targets"].as_array().map(Vec::len), Some(2));
    }
}

/// Holds codes and scales of a row against the weights that they were made of.
fn are_codes(codes: &[i32], scales: &[f32], weights: &[f32], name: &str) {
    let columns = weights.len() / scales.len();
    for ((codes, scale), w) in codes.chunks(columns).zip(scales).zip(weights.chunks(columns)) {
        assert_eq!(*scale, w.iter().fold(0.0_f32, |most, w| most.max(w.abs())) / 127.0, "{name}");
        let wanted = w.iter().map(|w| (w / scale.max(f32::MIN_POSITIVE)).round_ties_even() as i32);
        assert!(codes.iter().copied().eq(wanted), "{name}");
    }
}

#[test]
fn pruned_convolutions_leave_as_codes_without_zeros_and_statistics_with_them() {
    for (precision, kind) in [(Precision::F32, PruneKind::Magnitude), (Precision::Bf16Mixed, PruneKind::Groups)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut e = Experiment { precision, ..tiny(ModelKind::Resnet) };
        e.prune = Prune { kind, final_sparsity: 0.7, every: 1, end_step: 1, ..Prune::default() };
        e.quantise = Quantise { kind: QuantiseKind::After, calibration: 1, ..Quantise::default() };
        let (run, compressed, tensors, config) = exported(&e, folder.path());
        let weights = weights(folder.path(), precision);
        let (mut layout, mut numbers) = (0, plain(&tensors));
        for (name, (_, bits_of_rows, bits)) in tensors.iter().filter(|(name, _)| name.ends_with(".bitmask")) {
            let layer = name.trim_end_matches(".bitmask");
            let (shape, all) = &weights[&format!("{layer}.weight")];
            let (rows, inner) = (all.len() / shape[shape.len() - 1], shape[shape.len() - 1]);
            assert_eq!(bits_of_rows.iter().product::<usize>(), rows * inner.div_ceil(8));
            let mut values = signed(&tensors[&format!("{layer}.compressed")].2).into_iter();
            let stays = |at: usize| bits[at / inner * inner.div_ceil(8) + at % inner / 8] >> (at % inner % 8) & 1 == 1;
            let mut value = |at| if stays(at) { values.next().expect("one for each bit") } else { 0 };
            let codes: Vec<i32> = (0..all.len()).map(&mut value).collect();
            assert!(values.next().is_none());
            let scales = floats(&tensors[&format!("{layer}.weight_scale")]);
            are_codes(&codes, &scales, all, layer);
            let row = all.len() / scales.len();
            let decoded = codes.iter().enumerate().map(|(at, code)| *code as f32 * scales[at / row]).collect();
            let decoded = Tensor::from_vec(decoded, shape.clone(), &Device::Cpu).expect("a tensor");
            numbers.insert(format!("{layer}.weight"), decoded);
            layout += 8 * rows + 8 * shape.len() + bits.len() - all.len().div_ceil(8);
        }
        assert!(layout > 0);
        reads_as(&e, folder.path(), &numbers);
        // Means and variances of its norms.
        assert!(compressed.statistics > Bytes::ZERO);
        let own = run.summary.compressed.expect("integers");
        assert_eq!(compressed.tensors, own.bytes + compressed.statistics + Bytes(layout as u64), "{kind:?}");
        let planned = run.plan.smaller.expect("planned");
        let off = planned.bytes.0.abs_diff(own.bytes.0) as f64 / own.bytes.0 as f64;
        let of_file = planned.file_bytes.0.abs_diff(compressed.tensors.0) as f64 / own.bytes.0 as f64;
        assert!(of_file < 0.01 && (kind != PruneKind::Groups || of_file == 0.0), "{planned} planned, {compressed:?}");
        assert!(planned.is_estimate && off < 0.01, "{planned} planned, {}", own.bytes);
        assert!(kind != PruneKind::Groups || planned.bytes == own.bytes, "{planned} planned, {}", own.bytes);
        let structure = if kind == PruneKind::Groups { "2:4" } else { "unstructured" };
        assert_eq!(config["sparsity_config"]["sparsity_structure"], structure);
    }
}

/// A decoder whose weights alone become integers.
fn decoder(weights: CodedWeights, width: usize) -> Experiment {
    let mut e = tiny(ModelKind::Llama);
    (e.model.width, e.model.hidden, e.data.kind) = (width, width, DataKind::Sort);
    (e.run.steps, e.optimizer.learning_rate) = (Some(3), 0.1);
    e.quantise = Quantise { kind: QuantiseKind::After, weights, ..Quantise::default() };
    e
}

#[test]
fn weights_of_decoders_leave_in_words_and_their_numbers_answer_as_the_run_was_tested() {
    for (weights, width) in [(CodedWeights::Int8, 256), (CodedWeights::Int4, 128), (CodedWeights::Int4, 24)] {
        let folder = tempfile::tempdir().expect("a folder");
        let e = decoder(weights, width);
        let (run, compressed, tensors, config) = exported(&e, folder.path());
        let (bits, block) = if weights == CodedWeights::Int8 { (8, 256) } else { (4, 128) };
        let (mut numbers, mut layout, mut packed) = (HashMap::new(), 0, 0);
        for (name, (dtype, shape, bytes)) in &tensors {
            let Some(layer) = name.strip_suffix("_packed") else {
                if !name.ends_with("weight_scale") && !name.ends_with("weight_shape") {
                    let tensor = Tensor::from_vec(floats(&tensors[name]), shape.clone(), &Device::Cpu);
                    numbers.insert(name.clone(), tensor.expect("a tensor"));
                }
                continue;
            };
            assert_eq!(dtype, "I32");
            let extents = tensors[&format!("{layer}_shape")].2.chunks(8);
            let extents: Vec<usize> = extents.map(|b| usize::from(b[0]) + 256 * usize::from(b[1])).collect();
            let (scales, inner) = (floats(&tensors[&format!("{layer}_scale")]), extents[1]);
            let (row, group) = (bytes.len() / extents[0], extents[0] * inner / scales.len());
            let code = |at: usize| {
                let (byte, bit) = (at % inner * bits / 8, at % inner * bits % 8);
                i32::from(bytes[at / inner * row + byte] >> bit & ((1_u16 << bits) - 1) as u8) - (1 << (bits - 1))
            };
            let decoded = (0..extents[0] * inner).map(|at| code(at) as f32 * scales[at / group]);
            let decoded = Tensor::from_vec(decoded.collect(), extents.clone(), &Device::Cpu).expect("a tensor");
            numbers.insert(layer.to_owned(), decoded);
            let all = extents[0] * inner;
            packed += 1;
            layout += 16 + bytes.len() - all * bits / 8 + 4 * (scales.len() - all.div_ceil(block));
        }
        let own = run.summary.compressed.expect("integers");
        assert_eq!(compressed.tensors, own.bytes + Bytes(layout as u64), "{weights:?} {width}");
        assert_eq!(run.plan.smaller.map(|smaller| smaller.file_bytes), Some(compressed.tensors), "{weights:?} {width}");
        // Extents alone, where a row has whole groups.
        assert_eq!(layout == 16 * packed, width >= 128, "{weights:?} {width}: {layout} for {packed}");
        assert_eq!(config["config_groups"]["group_0"]["weights"]["num_bits"], bits);
        let tested = reads_as(&e, folder.path(), &numbers);
        let off = (tested.loss - own.test_loss).abs() / own.test_loss;
        assert!(off < 1e-5, "{weights:?}: {} from the file, {}", tested.loss, own.test_loss);
        assert!((own.trained_loss - own.test_loss).abs() / own.test_loss > off, "codes lose something");
        assert_eq!(tested.accuracy, own.test_accuracy);
    }
}

#[test]
fn a_pruned_model_leaves_without_zeros_and_a_smaller_one_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut e = tiny(ModelKind::Mlp);
    (e.data.kind, e.run.steps, e.precision) = (DataKind::Digits, Some(6), Precision::Bf16Mixed);
    e.prune = Prune { kind: PruneKind::Magnitude, final_sparsity: 0.8, every: 1, ..Prune::default() };
    let (run, compressed, tensors, config) = exported(&e, &at("pruned"));
    let stripped = run.summary.stripped.expect("pruned");
    let offsets = |(name, read): (&String, &Read)| match name.rsplit('.').next() {
        Some("row_offsets" | "shape") => read.2.len(),
        _ => 0,
    };
    let layout: usize = tensors.iter().map(offsets).sum();
    // Rows of 64 and 16 have whole bytes.
    assert_eq!(compressed.tensors, stripped.bytes + Bytes(layout as u64));
    assert_eq!(config["sparsity_config"]["format"], "sparse-bitmask");
    let values = tensors.iter().filter(|(name, _)| name.ends_with(".compressed"));
    let kept: usize = values.map(|(_, (dtype, shape, _))| if dtype == "BF16" { shape[0] } else { 0 }).sum();
    assert_eq!(kept as u64, stripped.weights - stripped.gone);
    let read = begun(&e, &at("pruned").join("compressed.safetensors")).expect("weights");
    assert_eq!(Some(read.accuracy), run.summary.test_accuracy);
    e.prune = Prune { kind: PruneKind::Channels, ..Prune::default() };
    let (run, compressed, _, config) = exported(&e, &at("channels"));
    let bytes = run.summary.stripped.expect("thinned").bytes;
    assert_eq!((compressed.tensors, config), (bytes, Value::Null));
    let planned = run.plan.smaller.map(|smaller| (smaller.bytes, smaller.file_bytes, smaller.is_estimate));
    assert_eq!(planned, Some((bytes, bytes, false)));
    (e.prune, e.low_rank) = (Prune::default(), LowRank { rank: 2, ..LowRank::default() });
    let (run, compressed, ..) = exported(&e, &at("factored"));
    let bytes = run.summary.factored.expect("factored").bytes;
    assert_eq!(compressed.tensors, bytes);
    assert_eq!(run.plan.smaller.map(|smaller| smaller.bytes), Some(bytes));
    e.prune = Prune { kind: PruneKind::Magnitude, final_sparsity: 0.5, every: 1, ..Prune::default() };
    let (run, ..) = exported(&e, &at("both"));
    let read = begun(&e, &at("both").join("compressed.safetensors")).expect("factors without their zeros");
    assert_eq!(Some(read.accuracy), run.summary.test_accuracy);
}
