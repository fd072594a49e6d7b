//! The reading of columns: texts that look like numbers get a note, and numbers that 32 bits cannot hold are refused.

use super::*;

/// Forty rows of a price, a colour and a class.
fn priced(price: impl Fn(usize) -> String) -> String {
    let row = |i: usize| format!("\"{}\",{},{}\n", price(i), ["red", "green"][i % 2], ["no", "yes"][i / 20]);
    format!("price,colour,answer\n{}", (0..40).map(row).collect::<String>())
}

#[test]
fn texts_that_look_like_numbers_are_told_of_with_an_example() {
    let like = |text: String, change: fn(&mut Data)| {
        let (_folder, mut data) = table(text);
        change(&mut data);
        let found = look(&data).expect("good");
        found.columns.into_iter().map(|column| column.number_like).collect::<Vec<_>>()
    };
    let price = || priced(|i| format!("{},{:03}.5", i + 1, i * 7));
    let said = Some(["1,000.5".to_owned(), "1000.5".to_owned()]);
    assert_eq!(like(price(), |_| ()), [said.clone(), None, None]);
    assert_eq!(like(price(), |data| data.label = "price".to_owned()), [said, None, None], "of the label too");
    let chosen = like(price(), |data| data.categorical = "price".to_owned());
    assert_eq!(chosen, [None, None, None], "who chose categories meant them");
    assert_eq!(like(price(), |data| data.leave_out = "price".to_owned()), [None, None, None]);
    let few = priced(|i| if i == 0 { "1,000.5".to_owned() } else { format!("size {i}") });
    assert_eq!(like(few, |_| ()), [None, None, None], "one among texts is one of them");
    assert_eq!(like(priced(|i| i.to_string()), |_| ()), [None, None, None], "numbers are numbers");
}

#[test]
fn a_number_that_32_bits_cannot_hold_is_refused_with_its_line_and_column() {
    let at = |row: usize, number: &str| priced(|i| if i == row { number.to_owned() } else { i.to_string() });
    for (row, number, shown) in [(7, "1e308", "1e308"), (0, "-1e39", "-1e39"), (39, "3.5e38", "3.5e38")] {
        let said = refused(at(row, number), |_| ());
        assert!(said.contains(&format!("(line {}, column `price`): {shown} is too far", row + 2)), "{said}");
        assert!(said.contains("write data.skip_broken = true"), "{said}");
    }
    let (_folder, mut data) = table(at(7, "1e308"));
    data.skip_broken = true;
    let found = look(&data).expect("the others are good");
    assert_eq!((found.rows, found.left_out_count), (39, 1));
    // Numbers that 32 bits can hold are scaled.
    let (_folder, data) = table(at(7, "3e38"));
    let Inputs::Images(features) = samples(&data, Split::Train).inputs else { panic!("numbers") };
    assert!(features.iter().all(|number| number.is_finite()));
}
