//! Tables good and bad: the facts that are recognised, the refusals with their places, and the inputs that a model gets from
//! a row.

mod lists;
mod read_as;

use std::{fs, path::PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{
    data::{Dataset, HostBatch, Inputs, Loader, Split, facts},
    experiment::{DataKind, Run},
};

/// A file with `text`, and the choice of it.
fn table(text: impl AsRef<[u8]>) -> (TempDir, Data) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.csv");
    fs::write(&path, text).expect("writable");
    let data = Data { kind: DataKind::Table, path: Some(path), ..Data::default() };
    (folder, data)
}

fn look(data: &Data) -> Result<TableFacts> {
    Inspection::of(data, None).map(|found| found.table_facts().expect("a table").clone())
}

/// The message for a file that is refused.
fn refused(text: impl AsRef<[u8]>, change: impl FnOnce(&mut Data)) -> String {
    let (_folder, mut data) = table(text);
    change(&mut data);
    look(&data).expect_err("refused").to_string()
}

#[test]
fn a_table_that_is_not_utf_8_is_told_of_by_its_line() {
    let text: Vec<u8> = plain().bytes().map(|byte| if byte == b'g' { 0xfc } else { byte }).collect();
    let (_folder, data) = table(text);
    let notes = Inspection::of(&data, None).expect("readable").notes().concat();
    assert!(notes.contains("line 3 is not UTF-8") && notes.contains("save the file as UTF-8"), "{notes}");
    let (_folder, data) = table(plain());
    assert_eq!(Inspection::of(&data, None).expect("readable").notes(), [""; 0]);
}

/// Twenty rows of a number, a category and a class.
fn plain() -> String {
    let row = |i: usize| format!("{},{},{}\n", i as f64 / 2.0, ["red", "green"][i % 2], ["no", "yes"][i / 10]);
    format!("size,colour,answer\n{}", (0..20).map(row).collect::<String>())
}

fn samples(data: &Data, split: Split) -> HostBatch {
    let set = Arc::new(Dataset::open(data, &Run::default()).expect("good"));
    let count = set.count(split);
    let mut loader = match split {
        Split::Train => Loader::train(Arc::clone(&set), 1, count, 1),
        Split::Test => Loader::test(Arc::clone(&set), count),
    }
    .expect("fits");
    loader.recv().expect("no fault").expect("a batch").clone()
}

#[test]
fn separators_ends_of_lines_and_marks_are_recognised() {
    let plain = plain();
    let expected = look(&table(&plain).1).expect("good");
    assert_eq!((expected.rows, expected.features, &*expected.label), (20, 3, "answer"));
    assert_eq!(
        (expected.task, &expected.classes[..]),
        (TableTask::Classification, &["no".to_owned(), "yes".to_owned()][..])
    );
    let (folder, data) = table(&plain);
    let batch = samples(&data, Split::Train);
    for (text, separator) in [
        (plain.replace('\n', "\r\n"), "commas"),
        (format!("\u{feff}{plain}"), "commas"),
        (plain.replace(',', ";"), "semicolons"),
        (plain.replace(',', ";").replace('.', ","), "semicolons"),
        (plain.replace(',', "\t"), "tabs"),
        (plain.replace("red", "\"red\"").replace("no\n", "\"no\"\n\n"), "commas"),
        (plain.trim_end().to_owned(), "commas"),
    ] {
        fs::write(folder.path().join("table.csv"), &text).expect("writable");
        let found = look(&data).expect("good");
        assert_eq!(found.separator, separator, "{text}");
        assert_eq!((found.rows, &found.columns, &found.classes), (20, &expected.columns, &expected.classes), "{text}");
        assert_eq!(samples(&data, Split::Train), batch, "{text}");
    }
}

#[test]
fn features_are_scaled_by_the_training_rows_and_what_is_missing_is_their_mean() {
    let row = |i: usize| match i % 10 {
        3 => format!(",{},{i}.5\n", ["a", "b", "NA"][i % 3]),
        _ => format!("{},{},{i}.5\n", 1.7e9 + i as f64, ["a", "b", "NA"][i % 3]),
    };
    let (_folder, data) = table(format!("time,kind,value\n{}", (0..200).map(row).collect::<String>()));
    let found = look(&data).expect("good");
    assert_eq!((found.task, found.features), (TableTask::Regression, 4));
    let missing: Vec<usize> = found.columns.iter().map(|column| column.missing).collect();
    assert_eq!(missing, [20, 66, 0]);
    let (train, test) = (samples(&data, Split::Train), samples(&data, Split::Test));
    let Inputs::Images(features) = &train.inputs else { panic!("numbers") };
    let times: Vec<f64> = features.chunks(4).map(|row| f64::from(row[0])).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    assert!(mean.abs() < 1e-5, "{mean}");
    let known = times.iter().filter(|time| **time != 0.0).map(|time| time * time).sum::<f64>();
    let count = times.iter().filter(|time| **time != 0.0).count() as f64;
    assert!((known / count - 1.0).abs() < 1e-4, "{}", known / count);
    assert!(features.chunks(4).all(|row| row[1..].iter().sum::<f32>() == 1.0), "one category a row");
    let values: Vec<f64> = train.labels.iter().map(|bits| f64::from(f32::from_bits(*bits))).collect();
    assert!((values.iter().sum::<f64>() / values.len() as f64).abs() < 1e-6);
    assert!((values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64 - 1.0).abs() < 1e-5);
    let set = Dataset::open(&data, &Run::default()).expect("good");
    let row = set.test_row(0).expect("there").expect("a row");
    let scaled = f64::from(f32::from_bits(test.labels[0]));
    let value = set.value_scale().expect("values").value(scaled);
    assert!((value - row.value.expect("a value")).abs() < 1e-4 && row.label.0 == "value", "{row:?}");
    assert!(set.test_row(set.count(Split::Test)).is_err());
}

#[test]
fn the_task_follows_from_the_label_and_can_be_chosen() {
    let text = |label: fn(usize) -> String| {
        format!("x,y\n{}", (0..100).map(|i| format!("{i}.25,{}\n", label(i))).collect::<String>())
    };
    let task = |text: String, task: TableTask| {
        let (_folder, data) = table(text);
        look(&Data { task, ..data }).map(|found| (found.task, found.classes.len()))
    };
    use TableTask::{Auto, Classification, Regression};
    let few = || text(|i| (i % 3).to_string());
    assert_eq!(task(few(), Auto), Ok((Classification, 3)));
    assert_eq!(task(few(), Regression), Ok((Regression, 0)));
    let many = || text(|i| (i * 2).to_string());
    assert_eq!(task(many(), Auto), Ok((Regression, 0)));
    assert_eq!(task(many(), Classification), Ok((Classification, 100)));
    assert_eq!(task(text(|i| format!("{}", i as f64 / 3.0)), Auto), Ok((Regression, 0)));
    assert_eq!(task(text(|i| format!("c{}", i % 7)), Auto), Ok((Classification, 7)));
    let error = task(text(|i| format!("c{}", i % 7)), Regression).expect_err("texts").to_string();
    assert!(error.contains("(column `y`): holds texts, and a regression needs numbers"), "{error}");
    let error = task(text(|_| "same".to_owned()), Auto).expect_err("one class").to_string();
    assert!(error.contains("the same value in every row (same)"), "{error}");
    let error = task(text(|_| "5.5".to_owned()), Regression).expect_err("one value").to_string();
    assert!(error.contains("the same value in every row (5.5)"), "{error}");
    let error = task(text(|i| format!("{i}e-200")), Regression).expect_err("tiny").to_string();
    assert!(error.contains("from 0e0 (line 2) to 9.9e-199 (line 101), too near to each other"), "{error}");
    let far = text(|i| if i == 40 { "-1e200".to_owned() } else { format!("{i}.5") });
    let error = task(far, Regression).expect_err("far").to_string();
    assert!(error.contains("(column `y`): has values from -1e200 (line 42) to 9.95e1 (line 101), too far"), "{error}");
}

#[test]
fn rare_categories_share_one_input_and_codes_are_categories_where_that_is_said() {
    let rows: String =
        (0..2000).map(|i| format!("{},n{},{}\n", 100 + i % 5, if i % 2 == 0 { i % 40 } else { i }, i % 2)).collect();
    let (_folder, data) = table(format!("code,name,y\n{rows}"));
    let found = look(&data).expect("good");
    let ColumnUse::Categories { count, shared } = found.columns[1].used else { panic!("{found:?}") };
    assert_eq!((found.features, count - shared), (1 + TableFacts::MOST_CATEGORIES, TableFacts::MOST_CATEGORIES - 1));
    let coded = look(&Data { categorical: " code ".to_owned(), ..data.clone() }).expect("good");
    assert_eq!(coded.columns[0].used, ColumnUse::Categories { count: 5, shared: 0 });
    let without =
        look(&Data { leave_out: "name,code".to_owned(), ..data.clone() }).expect_err("nothing is left").to_string();
    assert!(without.contains("its only column"), "{without}");
    let less = look(&Data { leave_out: "name".to_owned(), ..data }).expect("good");
    assert_eq!((less.features, &less.columns[1].used), (1, &ColumnUse::LeftOut));
}

#[test]
fn every_bad_table_is_refused_with_its_place_and_a_mend() {
    let none = |_: &mut Data| ();
    let says = |text: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}\nlacks one of {parts:?}");
    };
    let ragged = plain().replacen("1,red", "1,red,more", 1);
    says(
        refused(&ragged, none),
        &["(line 4): 4 fields, and the first line names 3 columns", "data.skip_broken = true"],
    );
    // A text over two lines is one row, and lines are counted as an editor counts them.
    let quoted = plain().replacen("0,red", "0,\"red\nor so\"", 1).replacen("2,red", "2", 1);
    says(refused(&quoted, none), &["(line 7): 2 fields"]);
    says(
        refused(plain(), |d| d.label = "anwser".to_owned()),
        &["no column `anwser`", "did you mean \"answer\"?", "size, colour, answer"],
    );
    says(
        refused(plain(), |d| d.leave_out = "Size".to_owned()),
        &["data.leave_out", "no column `Size`", "did you mean \"size\"?"],
    );
    says(refused(plain(), |d| d.leave_out = "answer".to_owned()), &["is the label, which cannot be left out"]);
    let text_in_numbers: String = (0..10_100)
        .map(|i| if i == 10_000 { "lots,a\n".to_owned() } else { format!("{i},{}\n", ["a", "b"][i % 2]) })
        .collect();
    says(
        refused(format!("x,y\n{text_in_numbers}"), none),
        &[
            "line 10002, column `x`): \"lots\" is not a number, and the 10000 rows before it have numbers",
            "data.categorical = \"x\"",
        ],
    );
    for endless in ["inf", "-Infinity", "1e999"] {
        let text = plain().replacen("1,red", &format!("{endless},red"), 1);
        says(refused(text, none), &["line 4, column `size`", endless, "is not finite"]);
    }
    says(refused(plain().replacen("red,no", "red,", 1), none), &["(line 2, column `answer`): the row has no label"]);
    says(refused("a,b\n", none), &["no row below it"]);
    says(refused("a,b", none), &["no row below it"]);
    says(refused("", none), &["it is empty"]);
    says(refused("\u{feff}", none), &["it is empty"]);
    says(refused("1,2,3\n4,5,6\n7,8,9\n", none), &["line 1", "numbers in the place of names"]);
    says(refused("a,b,a\n1,2,x\n3,4,y\n", none), &["columns 1 and 3 are both called `a`"]);
    says(refused("y\nred\ngreen\n", none), &["its only column"]);
    let empty: String = (0..20).map(|i| format!("{i},,{}\n", i % 2)).collect();
    says(
        refused(format!("a,b,y\n{empty}"), none),
        &["(column `b`): is empty in all 20 rows", "data.leave_out = \"b\""],
    );
    says(refused([0xff, 0xfe, b'a', 0, b'\n', 0], none), &["UTF-16"]);
    says(refused(b"PK\x03\x04 and so on", none), &["spreadsheet"]);
    says(refused("a,y\n1,2\n", none), &["it has one row"]);
    let endless = format!("a,y\n1,x\n2,\"{}", "never closed\n".repeat(2_000_000));
    says(refused(endless, none), &["line 3", "a quotation mark is probably not closed"]);
    let many: String = (0..100_002).map(|i| format!("t{i},{}\n", i % 2)).collect();
    says(refused(format!("a,y\n{many}"), none), &["line 100002, column `a`", "more than 100000 different texts"]);
    says(refused(plain(), |d| d.path = None), &["no file is chosen"]);
    says(
        refused(plain(), |d| d.path = Some("shipped:boats.csv".into())),
        &["no table `boats.csv` ships", "shipped:ships.csv"],
    );
    says(refused(plain(), |d| d.path = Some(std::env::temp_dir())), &["not a regular file"]);
    says(refused(plain(), |d| d.placement = Placement::Device), &["data.placement"]);
}

#[test]
fn broken_rows_are_left_out_and_counted_where_that_is_asked_for() {
    let text = plain().replacen("1,red", "one,red", 1).replacen("2,red", "2,red,blue", 1);
    let (_folder, data) = table(&text);
    // One text among few numbers is a slip.
    assert!(look(&data).expect_err("a text").to_string().contains("(line 4, column `size`): \"one\" is not a number"));
    let found = look(&Data { skip_broken: true, ..data.clone() }).expect("the others are good");
    assert_eq!((found.rows, found.left_out_count), (18, 2));
    assert!(found.first_left_out.as_ref().is_some_and(|first| first.contains("line 4")), "{found:?}");
    let batch = samples(&Data { skip_broken: true, ..data }, Split::Train);
    let Inputs::Images(features) = &batch.inputs else { panic!("numbers") };
    assert_eq!(features.len(), batch.len * 3);
}

#[test]
fn what_only_the_test_has_is_said() {
    let rows: String = (0..40)
        .map(|i| format!("{i},{},{}\n", if i < 39 { "known".to_owned() } else { format!("new{i}") }, i % 2))
        .collect();
    let (_folder, data) = table(format!("a,kind,y\n{rows}"));
    let said: Vec<String> = (0..60)
        .flat_map(|seed| {
            let run = Run { seed, ..Run::default() };
            Dataset::open(&data, &run).expect("good").notes().to_vec()
        })
        .collect();
    assert!(
        !said.is_empty()
            && said.iter().all(|note| note.contains("column `kind`: 1 of 2 categories") && note.contains("new39")),
        "{said:?}"
    );
}

#[test]
fn a_table_is_read_once_until_its_file_changes() {
    let (folder, data) = table(plain());
    let first = Inspection::of(&data, None).expect("good");
    let is_same = |other: &Inspection| {
        Arc::ptr_eq(&first.table().expect("a table").table, &other.table().expect("a table").table)
    };
    let again = |data: &Data| Inspection::of(data, Some(&first)).expect("good");
    assert!(is_same(&again(&data)));
    let decided = Data { label: "answer".to_owned(), task: TableTask::Classification, ..data.clone() };
    assert!(is_same(&again(&decided)), "a choice that equals what the file decides changes nothing");
    assert!(!is_same(&again(&Data { label: "colour".to_owned(), ..data.clone() })));
    let set = Dataset::open(&data, &Run::default()).expect("good");
    fs::write(folder.path().join("table.csv"), plain() + "7,red,no\n").expect("writable");
    assert!(!is_same(&again(&data)) && !set.is_for(&data, &Run::default()));
    let other = Dataset::open(&data, &Run::default()).expect("good");
    assert_ne!(set.checksum(), other.checksum());
}

#[test]
fn the_ships_are_a_table_of_classes_and_of_values() {
    let data = Data { kind: DataKind::Table, path: Some(PathBuf::from("shipped:ships.csv")), ..Data::default() };
    let info = facts(&data).expect("it ships");
    assert_eq!((info.train, info.test, info.classes, info.label), (720, 180, 5, LabelKind::Class));
    let value = Data { label: "deadweight_t".to_owned(), leave_out: "ship".to_owned(), ..data };
    let info = facts(&value).expect("it ships");
    assert_eq!((info.classes, info.label, info.input.elements()), (1, LabelKind::Value, 5 + 8 + 4 + 5));
}

#[test]
fn the_bytes_that_are_held_are_those_predicted() {
    use crate::memory::probe::{Meter, meter_this_thread};
    let rows: String = (0..30_000).map(|i| format!("{i},{}.5,c{},{}\n", i * 3, i % 700, i % 4)).collect();
    let (_folder, data) = table(format!("a,b,c,y\n{rows}"));
    let found = Found::new(&data, None).expect("good");
    let predicted = found.held_bytes();
    let meter = Meter::new();
    meter_this_thread(Some(meter));
    let again = Found::new(&data, None).expect("good");
    let shared = again.shared_bytes();
    let _rows = TableRows::new(again, 6000, 1);
    let measured = (meter.now().live + shared).0 as usize;
    meter_this_thread(None);
    assert!(measured <= predicted && predicted < measured + measured / 20 + 4096, "{predicted} {measured}");

    let looked = Inspection::of(&data, None).expect("good");
    let set = Dataset::open_inspected(&data, &Run::default(), &looked).expect("good");
    let held = set.host_bytes().0 as usize;
    assert!(
        held <= predicted + 4096 && predicted < held + held / 20 + 4096,
        "what a look found counts: {predicted} {held}"
    );
}

proptest! {
    /// Whatever the bytes, there is a table or a sentence.
    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(prop_oneof![Just(b','), Just(b'\n'), Just(b'"'), Just(b'\r'), Just(b';'), any::<u8>()], 0..300), task in 0..3usize) {
        let (_folder, data) = table(&bytes);
        let data = Data { task: TableTask::ALL[task], ..data };
        if let Err(error) = look(&data) {
            prop_assert!(!error.to_string().is_empty());
        } else {
            Dataset::open(&data, &Run::default()).expect("what can be looked at can be opened");
        }
    }

    /// Numbers that are written as a table read back the same.
    #[test]
    fn numbers_read_back(rows in proptest::collection::vec((-1e6f64..1e6, 0..5usize), 10..60)) {
        let text: String = rows.iter().map(|(x, y)| format!("{x},\"k,\n{y}\",{x}\n")).collect();
        let (_folder, data) = table(format!("x,k,y\n{text}"));
        let data = Data { task: TableTask::Regression, ..data };
        let set = Dataset::open(&data, &Run::default()).expect("good");
        let mut seen: Vec<f64> = (0..set.count(Split::Test)).map(|i| set.test_row(i).expect("there").expect("a row").value.expect("a value")).collect();
        prop_assert!(seen.drain(..).all(|value| rows.iter().any(|(x, _)| *x == value)));
    }
}

#[test]
fn a_quotation_mark_that_is_not_closed_does_not_swallow_the_rest_in_silence() {
    for (good, open, line) in [("2.5,green", "2.5,\"green", 7), ("4,red,no", "4,red,\"no", 10)] {
        let text = plain().replacen(good, open, 1);
        assert_ne!(text, plain());
        for skip_broken in [false, true] {
            let said = refused(&text, |data| data.skip_broken = skip_broken);
            assert!(said.contains(&format!("(line {line}): a quotation mark is not closed")), "{said}");
        }
    }
    // Texts over several lines are texts, at the end too; a broken row in the middle is skipped all the same.
    let (_folder, data) = table(plain() + "9,\"red\ngreen\",\"y\nes\"\n");
    assert_eq!(look(&data).expect("good").rows, 21);
    let several = plain().replacen("2.5,green,", "2.5,\"gre\nen\",", 1);
    let (_folder, mut data) = table(several.replacen("no\n", "no,more\n", 1));
    data.skip_broken = true;
    assert_eq!(look(&data).expect("good").left_out_count, 1);
}

#[test]
fn numbers_in_the_place_of_names_are_told_of() {
    let notes = |text: String| Inspection::of(&table(text).1, None).expect("good").notes().to_vec();
    assert!(notes(plain()).is_empty());
    let said = notes(plain().replacen("size,colour", "5.1,3", 1));
    assert!(said.len() == 1 && said[0].contains("2 of 3 are numbers, `5.1` first"), "{said:?}");
}
