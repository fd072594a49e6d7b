//! Settings that list columns by their names.

use super::*;

#[test]
fn a_name_with_a_comma_is_one_of_a_list() {
    let text = plain().replacen("size,colour", "\"size, in m\",colour", 1);
    let (_folder, mut data) = table(&text);
    data.leave_out = "\"size, in m\"".to_owned();
    assert_eq!(look(&data).expect("good").columns[0].used, ColumnUse::LeftOut);
    for list in ["colour, \"size, in m\"", "size, in m,colour", ", size, in m , colour,"] {
        data.leave_out = list.to_owned();
        assert!(look(&data).expect_err("nothing is left").to_string().contains("its only column"), "{list}");
    }
    data.leave_out = "size".to_owned();
    let said = look(&data).expect_err("another name").to_string();
    assert!(said.contains("no column `size`") && said.contains("are \"size, in m\", colour, answer"), "{said}");
}

#[test]
fn a_name_with_quotation_marks_is_one_of_a_list() {
    let text = plain().replacen("size,colour", "\"the \"\"size\"\", in m\",\"\"\"colour\"\"\"", 1);
    let (_folder, mut data) = table(&text);
    data.leave_out = "\"the \"\"size\"\", in m\"".to_owned();
    let used =
        |data: &Data| look(data).expect("good").columns.iter().map(|column| column.used.clone()).collect::<Vec<_>>();
    assert_eq!(used(&data)[0], ColumnUse::LeftOut);
    for list in ["\"colour\"", "\"\"\"colour\"\"\"", " \"\"\"colour\"\"\" ,"] {
        data.leave_out = list.to_owned();
        assert_eq!(used(&data)[1], ColumnUse::LeftOut, "{list}");
    }
    data.leave_out = "\"the \"\"size\"\", in m\",\"\"\"colour\"\"\"".to_owned();
    assert!(look(&data).expect_err("nothing is left").to_string().contains("its only column"));
    data.leave_out = "\"the \"\"length\"\", in m\"".to_owned();
    let said = look(&data).expect_err("another name").to_string();
    assert!(said.contains("no column `the \"length\", in m`"), "{said}");
    // Names are listed as a list has them.
    let listed = said.split("the columns are ").nth(1).and_then(|names| names.strip_suffix(", answer")).expect("names");
    data.leave_out = listed.to_owned();
    assert!(look(&data).expect_err("nothing is left").to_string().contains("its only column"), "{listed}");
}

#[test]
fn a_column_is_not_in_both_lists() {
    let both =
        refused(plain(), |data| (data.leave_out, data.categorical) = ("size".to_owned(), "colour,size".to_owned()));
    assert!(both.starts_with("data.leave_out: `size` is left out, and"), "{both}");
}
