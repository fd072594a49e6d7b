//! Files of text by hand: their tokens, one by one, and the messages for broken files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use proptest::prelude::*;
use tempfile::TempDir;
use tokenizers::models::{
    TrainerWrapper,
    bpe::{BPE, BpeTrainer},
};

use super::*;
use crate::{
    backend::IGNORE_INDEX,
    data::{Dataset, Feed, Inputs, Loader, Position, Split},
    experiment::Run,
};

const END: u32 = 256;
const NONE: u32 = IGNORE_INDEX;

fn file(name: &str, text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("writes");
    (folder, path)
}

fn chosen(path: &Path, length: usize) -> Data {
    let (kind, path, placement) = (DataKind::Jsonl, Some(path.to_owned()), Placement::Streamed);
    Data { kind, path, length, placement, test_fraction: 0.5, ..Data::default() }
}

fn facts(data: &Data) -> TextFacts {
    Inspection::of(data, None).expect("readable").text_facts().expect("text").clone()
}

fn said(data: &Data) -> String {
    Inspection::of(data, None).expect_err("refused").to_string()
}

/// Inputs and labels of all samples of both parts, in no order.
fn all(data: &Data) -> Vec<(Vec<u32>, Vec<u32>)> {
    let set = Arc::new(Dataset::open(data, &Run::default()).expect("readable"));
    let mut loaders = [
        (Loader::train(Arc::clone(&set), 1, 1, 1).expect("samples"), set.count(Split::Train)),
        (Loader::test(Arc::clone(&set), 1).expect("samples"), set.count(Split::Test)),
    ];
    let mut found = Vec::new();
    for (loader, count) in &mut loaders {
        for _ in 0..*count {
            let batch = loader.recv().expect("no fault").expect("no end");
            let Inputs::Tokens(tokens) = &batch.inputs else { panic!("no tokens") };
            found.push((tokens.clone(), batch.labels.clone()));
        }
    }
    found.sort();
    found
}

/// A folder with a small tokenizer over bytes, which ends texts with `<|end|>`.
pub(super) fn tokenizer() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
    let special = tokenizers::AddedToken::from("<|end|>", true);
    let trainer = BpeTrainer::builder().vocab_size(300).initial_alphabet(alphabet.into_iter().collect());
    let mut trainer = TrainerWrapper::from(trainer.special_tokens(vec![special]).build());
    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    let bytes = tokenizers::pre_tokenizers::byte_level::ByteLevel::new(false, true, true);
    tokenizer.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
    let words = ["the ship sails on the line", "load the ship to the line", "the line is the budget"];
    tokenizer.train(&mut trainer, words.into_iter()).expect("trained");
    tokenizer.save(folder.path().join("tokenizer.json"), false).expect("writes");
    let template = "{% for m in messages %}{{ '[' + m.role + ']' + m.content + eos_token }}{% endfor %}\
                    {% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}";
    let settings = serde_json::json!({"eos_token": {"content": "<|end|>"}, "chat_template": template});
    fs::write(folder.path().join("tokenizer_config.json"), settings.to_string()).expect("writes");
    folder
}

#[test]
fn only_completions_are_scored_and_the_rest_is_padding() {
    let lines = "{\"prompt\":\"ab\",\"completion\":\"cd\"}\n\n{\"text\":\"xyz\"}\n{\"text\":\"0123456789\"}\r\n";
    let (_folder, path) = file("a.jsonl", lines);
    let data = chosen(&path, 6);
    let [a, b, c, d] = *b"abcd".map(u32::from).as_slice() else { panic!("four") };
    let found = all(&data);
    assert_eq!(found[0].0, b"012345".map(u32::from));
    assert_eq!(found[0].1, b"123456".map(u32::from));
    assert_eq!(found[1], (vec![a, b, c, d, END, END], vec![NONE, c, d, END, NONE, NONE]));
    assert_eq!(found[2].1, [121, 122, END, NONE, NONE, NONE]);
    let everything = all(&Data { completion_only: false, ..data.clone() });
    assert_eq!(everything[1].1, [b, c, d, END, NONE, NONE]);
    let facts = facts(&data);
    // Tokens in place of padding: 6 of 6, 5, 4.
    assert_eq!((facts.samples, facts.looked_at, facts.truncated, facts.unscored), (3, 3, 1, 0));
    assert!((facts.padding_share - 3.0 / 18.0).abs() < 1e-12 && (facts.mean_tokens - 20.0 / 3.0).abs() < 1e-12);
    assert!((facts.scored_share - 12.0 / 18.0).abs() < 1e-12, "{}", facts.scored_share);
    assert_eq!((facts.longest_tokens, facts.vocabulary), (11, 257));
    assert!(facts.longest.ends_with("a.jsonl, line 4"), "{}", facts.longest);
}

#[test]
fn conversations_score_what_the_assistant_says() {
    let tokenizer = tokenizer();
    let line = serde_json::json!({"messages": [
        {"role": "user", "content": "the ship"}, {"role": "assistant", "content": "sails"},
        {"role": "user", "content": "on"}, {"role": "assistant", "content": "the line"},
    ]});
    let (_folder, path) = file("a.jsonl", format!("{line}\n{line}\n"));
    let data = Data { tokenizer: Some(tokenizer.path().to_owned()), ..chosen(&path, 64) };
    let model = tokenizers::Tokenizer::from_file(tokenizer.path().join("tokenizer.json")).expect("a tokenizer");
    let (tokens, labels) = all(&data).remove(0);
    let scored: Vec<u32> = labels.iter().copied().filter(|label| *label != NONE).collect();
    assert_eq!(model.decode(&scored, false).expect("text"), "sails<|end|>the line<|end|>");
    let text = "[user]the ship<|end|>[assistant]sails<|end|>[user]on<|end|>[assistant]the line<|end|>";
    let own = model.encode(text, false).expect("tokens");
    assert_eq!(tokens[..own.len()], *own.get_ids());
    // The label at the place before a token decides whether it is scored.
    for (at, label) in labels.iter().enumerate().filter(|(_, label)| **label != NONE) {
        assert_eq!(*label, tokens[at + 1]);
    }
    let bytes = said_of_a_run(&Data { tokenizer: None, ..data });
    assert!(bytes.contains("a.jsonl (line 1)") && bytes.contains("need a template"), "{bytes}");
}

fn said_of_a_run(data: &Data) -> String {
    Dataset::open(data, &Run::default()).expect_err("refused").to_string()
}

#[test]
fn a_tokenizer_decides_the_vocabulary_and_must_fit_the_model() {
    let tokenizer = tokenizer();
    let (_folder, path) = file("a.jsonl", "{\"text\": \"the ship\"}\n".repeat(20));
    let own = Data { tokenizer: Some(tokenizer.path().join("tokenizer.json")), ..chosen(&path, 4) };
    let info = *Inspection::of(&own, None).expect("readable").info();
    let count = facts(&own).vocabulary;
    assert!(count > 257 && count <= 300, "{count}");
    assert_eq!((info.classes, info.train, info.test), (count, 10, 10));
    let wider = Data { vocabulary: 1000, ..own.clone() };
    assert_eq!(Inspection::of(&wider, None).expect("room for more").info().classes, 1000);
    let narrow = said(&Data { vocabulary: 100, ..own.clone() });
    let expected = format!(
        "data.tokenizer: {} has tokens up to number {}, and the model's embedding has 100 rows (data.vocabulary); choose \
         the tokenizer that was published with the model, or write data.vocabulary = {count}",
        tokenizer.path().join("tokenizer.json").display(),
        count - 1
    );
    assert_eq!(narrow, expected);
    let (_other, broken) = file("tokenizer.json", "{\"model\": {\"type\": ");
    let message = said(&Data { tokenizer: Some(broken), ..own.clone() });
    assert!(message.contains("tokenizer.json (line 1, column 19): is not JSON"), "{message}");
    let (other, _) = file("tokenizer.json", "{\"version\": \"1.0\", \"model\": {\"type\": \"Bard\"}}");
    let message = said(&Data { tokenizer: Some(other.path().to_owned()), ..own.clone() });
    assert!(message.contains("is not a tokenizer that can be read"), "{message}");
    let message = said(&Data { tokenizer: path.parent().map(Path::to_owned), ..own });
    assert!(message.contains("has no tokenizer.json; choose the folder of a published model"), "{message}");
}

#[test]
fn samples_of_which_nothing_counts_are_refused() {
    let line = "{\"prompt\": \"a long prompt\", \"completion\": \"yes\"}\n";
    let (_folder, path) = file("a.jsonl", line.repeat(20));
    let short = chosen(&path, 4);
    let message = said(&short);
    assert!(message.contains("no completion and no answer begins within 4 tokens; raise data.length"), "{message}");
    assert!(facts(&Data { completion_only: false, ..short.clone() }).scored_share > 0.9);
    assert!(facts(&Data { length: 16, ..short }).scored_share > 0.0);
}

#[test]
fn joined_samples_lose_no_token_and_go_on_anywhere() {
    let tokenizer = tokenizer();
    let texts: Vec<String> = (0..97).map(|i| "the line ".repeat(i % 7) + &format!("ship {i}")).collect();
    let lines: String = texts.iter().map(|text| format!("{}\n", serde_json::json!({"text": text}))).collect();
    let (_folder, path) = file("a.jsonl", lines);
    let length = 16;
    let data = Data { packing: true, tokenizer: Some(tokenizer.path().to_owned()), ..chosen(&path, length) };
    let set = Arc::new(Dataset::open(&data, &Run::default()).expect("readable"));
    assert!(set.is_stream() && facts(&data).padding_share == 0.0);
    let (micro, accumulation) = (3, 2);
    let batches = |from, count: usize| {
        let mut loader = Loader::train_from(
            from,
            Arc::clone(&set),
            5,
            [micro, accumulation],
            Feed { workers: 1, batches: 3, rounded: None },
        )
        .expect("samples");
        let next = |_| {
            let batch = loader.recv().expect("no fault").expect("no end");
            let Inputs::Tokens(tokens) = &batch.inputs else { panic!("no tokens") };
            (tokens.clone(), batch.labels.clone())
        };
        (0..count).map(next).collect::<Vec<_>>()
    };
    let per_epoch = set.count(Split::Train) / 6;
    let run = batches(Position::default(), 6 * per_epoch);
    // One stream: the last label of a sequence is the first token of the next.
    let tokens: Vec<u32> = run.iter().flat_map(|batch| batch.0.clone()).collect();
    let labels: Vec<u32> = run.iter().flat_map(|batch| batch.1.clone()).collect();
    assert_eq!(labels[..labels.len() - 1], tokens[1..]);
    // The texts of a pass, each once, each with its end.
    let model = tokenizers::Tokenizer::from_file(tokenizer.path().join("tokenizer.json")).expect("a tokenizer");
    let text = model.decode(&tokens, false).expect("text");
    let firsts: Vec<&str> = text.split("<|end|>").take(48).collect();
    let mut passed: Vec<&str> = firsts.iter().copied().filter(|text| texts.iter().any(|own| own == text)).collect();
    passed.sort_unstable();
    passed.dedup();
    assert_eq!(passed.len(), 48, "a pass has every training sample once");
    // From any step it goes on as it went, also in a later pass.
    for steps in [1, 2, per_epoch, per_epoch + 1, 2 * per_epoch + 1] {
        let from = Position::after(steps as u64, micro * accumulation, set.count(Split::Train));
        assert_eq!(batches(from, 3), run[2 * steps..2 * steps + 3], "after {steps} steps");
    }
    let far = Position { epoch: 1_000_000, place: 6 };
    assert_eq!(batches(far, 2), batches(far, 2));
    assert_ne!(batches(far, 2), run[..2]);
}

#[test]
fn a_broken_line_is_named_and_left_out_where_that_is_asked() {
    let good = "{\"text\": \"some words of text\"}\n";
    let lines = good.repeat(48_212) + "{\"text\": \"ünfinished\n" + &good.repeat(10) + "{\"txt\": 1}\n" + good;
    let (_folder, path) = file("data.jsonl", lines);
    let data = chosen(&path, 8);
    let message = said(&data);
    let place = format!("{} (line 48213, column 20): is not JSON: EOF while parsing a string", path.display());
    assert!(message.starts_with(&place), "{message}");
    assert!(message.ends_with("fix the line, or write data.skip_broken = true to leave such lines out"), "{message}");
    let skipping = Data { skip_broken: true, ..data };
    let facts = facts(&skipping);
    assert_eq!((facts.samples, facts.left_out_count), (48_223, 2));
    assert!(facts.first_left_out.expect("the first").contains("(line 48213, column 20)"));
    // The sample before a broken line ends where it ends.
    let index = Index::new(&path, true, true).expect("readable");
    assert_eq!(index.name(48_212).1, "line 48214");
}

#[test]
fn files_that_hold_no_samples_are_refused_in_plain_words() {
    let of = |bytes: &[u8]| {
        let (_folder, path) = file("a.jsonl", bytes);
        said(&chosen(&path, 4))
    };
    assert!(of(b"").contains("it is empty; choose a file"));
    assert!(of(b"\n \n").contains("it is empty"));
    assert!(of(b"\x1f\x8b\x08\x00").contains("it is packed"));
    assert!(of(b"\xff\xfe{\x00").contains("UTF-16"));
    assert!(of(b"{\"text\": \"a\"}").contains("it has one sample"));
    assert!(of(b"{\"text\": \"\xe9\"}\n").contains("(line 1, column 11): is not UTF-8"));
    let (folder, path) = file("a.bin", "");
    assert!(said(&chosen(folder.path(), 4)).contains("no .jsonl and no .txt file in it"));
    assert!(said(&chosen(&path.join("none"), 4)).contains("a.bin"));
    let (_folder, path) = file("a.jsonl", "{\"text\": \"a\"}\n".repeat(9));
    let on_device = Data { placement: Placement::Device, ..chosen(&path, 4) };
    assert!(said(&on_device).starts_with("data.placement: "));
    let packed = Data { packing: true, ..chosen(&path, 512) };
    assert!(said(&packed).contains("too few to train on in sequences of 512"), "{}", said(&packed));
}

#[test]
fn a_line_longer_than_a_sample_may_be_is_named_without_being_held() {
    let (_folder, path) = file("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"");
    let long = fs::OpenOptions::new().write(true).open(&path).expect("ours");
    long.set_len(80 << 20).expect("sparse files");
    let message = said(&chosen(&path, 4));
    assert!(message.contains("(line 2): is longer than the 16.0 MiB"), "{message}");
}

#[test]
fn folders_have_lines_and_plain_text_and_what_was_looked_at_is_not_looked_at_again() {
    let (folder, path) = file("b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    fs::write(folder.path().join("a.txt"), "plain text").expect("writes");
    fs::write(folder.path().join("other.csv"), "x").expect("writes");
    let data = chosen(folder.path(), 16);
    let found = Inspection::of(&data, None).expect("readable");
    let facts = found.text_facts().expect("text");
    assert_eq!((facts.files, facts.samples, facts.longest_tokens), (2, 3, 11));
    assert!(facts.longest.ends_with("a.txt, byte 0"), "{}", facts.longest);
    let again = Inspection::of(&Data { length: 4, packing: true, ..data.clone() }, Some(&found)).expect("readable");
    let survey = |inspection: &Inspection| Arc::as_ptr(&inspection.texts().expect("text").survey);
    assert_eq!(survey(&found), survey(&again));
    fs::write(&path, "{\"text\": \"three\"}\n{\"text\": \"four\"}\n{\"text\": \"five\"}\n").expect("writes");
    let anew = Inspection::of(&data, Some(&found)).expect("readable");
    assert_eq!(anew.text_facts().expect("text").samples, 4);
}

#[test]
fn plain_text_goes_through_a_tokenizer_piece_by_piece() {
    let tokenizer = tokenizer();
    let text: String = (0..4000).map(|i| format!("the ship {i}\non the line ä\n")).collect();
    let (_folder, path) = file("a.txt", &text);
    let data = Data {
        kind: DataKind::Text,
        tokenizer: Some(tokenizer.path().to_owned()),
        test_fraction: 0.1,
        ..chosen(&path, 32)
    };
    let held = Data { placement: Placement::Host, ..data.clone() };
    let found = all(&data);
    assert_eq!(found, all(&held));
    assert!(found.iter().all(|(tokens, labels)| tokens[1..] == labels[..31]));
    let index = Index::new(&path, false, false).expect("readable");
    assert!(index.len() > 50, "{}", index.len());
    let joined: u64 = (0..index.len()).map(|i| index.place(i).1).map(|range| range.end - range.start).sum();
    assert_eq!(joined, text.len() as u64);
    for piece in 1..index.len() {
        assert_eq!(text.as_bytes()[index.place(piece).1.start as usize - 1], b'\n');
    }
    let (_folder, path) = file("a.txt", b"\xe4\xe4 ".repeat(9000));
    let message = said(&Data { path: Some(path), ..data });
    assert!(message.contains("(byte 0): is not UTF-8"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'"'), Just(b'{'), any::<u8>()], 0..400),
        lines in 0usize..4,
        length in 1usize..40,
        packing: bool,
        skip_broken: bool,
        is_json: bool,
    ) {
        let mut all = "{\"text\": \"some words\"}\n".repeat(lines).into_bytes();
        all.extend(bytes);
        let (_folder, path) = file("a.jsonl", &all);
        let kind = if is_json { DataKind::Jsonl } else { DataKind::Text };
        let data = Data { kind, packing, skip_broken, ..chosen(&path, length) };
        let Ok(found) = Inspection::of(&data, None) else { return Ok(()) };
        let set = Dataset::open_inspected(&data, &Run::default(), &found).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut loader = Loader::train(Arc::new(set), 1, 1, 1).expect("a sample");
        let batch = loader.recv().expect("readable").expect("no end");
        prop_assert_eq!(batch.labels.len(), length);
    }

    #[test]
    fn padding_and_joining_keep_every_token(
        texts in prop::collection::vec("[a-c]{0,12}", 4..30),
        length in 1usize..9,
    ) {
        let lines: String = texts.iter().map(|text| format!("{}\n", serde_json::json!({"text": text}))).collect();
        let (_folder, path) = file("a.jsonl", lines);
        let mut expected: Vec<Vec<u32>> = texts
            .iter()
            .map(|text| text.bytes().map(u32::from).chain([END]).chain([END; 9]).take(length).collect())
            .collect();
        expected.sort();
        let mut found: Vec<Vec<u32>> = all(&chosen(&path, length)).into_iter().map(|(tokens, _)| tokens).collect();
        found.sort();
        prop_assert_eq!(found, expected);
        let packed = Data { packing: true, ..chosen(&path, length) };
        let Ok(found) = Inspection::of(&packed, None) else { return Ok(()) };
        let tokens: usize = texts.iter().map(|text| text.len() + 1).sum();
        let info = found.info();
        prop_assert!((info.train + info.test) * length < tokens);
        prop_assert!(all(&packed).iter().all(|(_, labels)| labels.iter().all(|label| *label != NONE)));
    }
}

#[test]
fn a_tokenizer_of_another_model_and_a_token_that_is_none_are_told_of() {
    let tokenizer = tokenizer();
    let (_folder, path) = file("a.jsonl", "{\"text\":\"the line\"}\n".repeat(4));
    let mut data = Data { tokenizer: Some(tokenizer.path().to_owned()), ..chosen(&path, 6) };
    let found = |data: &Data| Inspection::of(data, None).expect("readable");
    assert_eq!((found(&data).few_tokens(), found(&data).notes()), (None, &[][..]));
    data.vocabulary = 640;
    let few = found(&data).few_tokens().expect("few").to_owned();
    assert!(few.contains("the embedding of the weights has 640 rows"), "{few}");
    fs::write(tokenizer.path().join("tokenizer_config.json"), r#"{"eos_token": "<nope>"}"#).expect("writes");
    let notes = found(&data).notes().concat();
    assert!(notes.contains("eos_token \"<nope>\" in tokenizer_config.json is not a token"), "{notes}");
}

#[test]
fn the_words_of_few_lines_take_what_they_take_and_not_what_many_could() {
    let tokenizer = tokenizer();
    let of = |words: usize| {
        let lines: String = (0..words).map(|i| format!("{{\"text\":\"the line w{i}\"}}\n")).collect();
        let (_folder, path) = file("a.jsonl", lines);
        let data = Data { tokenizer: Some(tokenizer.path().to_owned()), ..chosen(&path, 6) };
        Inspection::of(&data, None).expect("readable").host_bytes().0
    };
    let (few, more, many) = (of(10), of(1000), of(40_000));
    assert!(few < 1 << 20 && few < more && more < 4 << 20 && many > 8 << 20, "{few}, {more}, {many}");
}
