use super::*;

/// A field that was read: its number, and its content.
#[derive(Debug, Clone, PartialEq)]
enum Held<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads one message: its fields in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Held<'_>)> {
    let varint = |bytes: &mut &[u8]| {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let (byte, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    };
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let taken = match key & 7 {
            0 => {
                found.push((key >> 3, Held::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            other => panic!("kind {other}"),
        };
        let (held, rest) = bytes.split_at(taken);
        found.push((key >> 3, Held::Bytes(held)));
        bytes = rest;
    }
    found
}

fn field(message: &[u8], path: &[u64]) -> Option<Vec<u8>> {
    let mut message = message.to_vec();
    for number in path {
        let found = fields(&message).into_iter().find(|(at, _)| at == number);
        message = match found?.1 {
            Held::Bytes(bytes) => bytes.to_vec(),
            Held::Number(number) => number.to_le_bytes().to_vec(),
        };
    }
    Some(message)
}

/// The records of a file; every sum is checked.
fn records(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let sum = |bytes: &[u8]| masked(crc32c(bytes)).to_le_bytes();
    while !file.is_empty() {
        let length: [u8; 8] = file[..8].try_into().expect("eight");
        assert_eq!(file[8..12], sum(&length));
        let end = 12 + u64::from_le_bytes(length) as usize;
        assert_eq!(file[end..end + 4], sum(&file[12..end]));
        found.push(file[12..end].to_vec());
        file = &file[end + 4..];
    }
    found
}

fn run() -> (Curves, About) {
    let curve = Curve { name: "train/loss".to_owned(), about: "The loss.".to_owned(), values: vec![2.5, 0.5] };
    let group = Group { steps: vec![1, 300], secs: vec![0.25, 4.0], curves: vec![curve] };
    let settings = [("batch.micro", "32"), ("retain_graph", "false"), ("precision", "\"f32\"")];
    let about = About {
        name: "a run".to_owned(),
        description: "What it **is**.".to_owned(),
        preset: "version = 2".to_owned(),
        settings: settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
    };
    (Curves { groups: vec![group], began_secs: Some(1.7e9) }, about)
}

#[test]
fn sums_are_those_of_the_standard() {
    // RFC 3720, B.4.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn scalars_read_back_with_step_time_and_value() {
    let (curves, about) = run();
    let records = records(&events(&curves, &about));
    assert_eq!(field(&records[0], &[3]).as_deref(), Some(&b"brain.Event:2"[..]));
    let of = |record: &Vec<u8>| {
        let value = field(record, &[5, 1, 2])?;
        let tag = String::from_utf8(field(record, &[5, 1, 1])?).ok()?;
        let secs = f64::from_le_bytes(field(record, &[1])?.try_into().ok()?);
        let step = u64::from_le_bytes(field(record, &[2])?.try_into().ok()?);
        Some((tag, step, secs, f32::from_le_bytes(value.try_into().ok()?)))
    };
    let scalars: Vec<_> = records.iter().filter_map(of).collect();
    let name = || "train/loss".to_owned();
    assert_eq!(scalars, [(name(), 1, 1.7e9 + 0.25, 2.5), (name(), 300, 1.7e9 + 4.0, 0.5)]);
}

#[test]
fn settings_and_description_are_in_it() {
    let (curves, about) = run();
    let records = records(&events(&curves, &about));
    let tags: Vec<String> = records
        .iter()
        .filter_map(|record| field(record, &[5, 1, 1]))
        .map(|tag| String::from_utf8(tag).expect("text"))
        .collect();
    assert_eq!(tags[..4], ["description", "preset", EXPERIMENT, SESSION]);
    assert_eq!(field(&records[1], &[5, 1, 8, 8]).as_deref(), Some(about.description.as_bytes()));
    let session = field(&records[4], &[5, 1, 9, 1, 2, 3]).expect("the plugin's data");
    let keys: Vec<Vec<u8>> = fields(&session)
        .into_iter()
        .filter(|(number, _)| *number == 1)
        .filter_map(|(_, held)| if let Held::Bytes(entry) = held { field(entry, &[1]) } else { None })
        .collect();
    assert_eq!(keys, [b"batch.micro".to_vec(), b"retain_graph".to_vec(), b"precision".to_vec()]);
}

#[test]
fn a_run_without_anything_is_a_file_with_a_version() {
    assert_eq!(records(&events(&Curves::default(), &About::default())).len(), 1);
}
