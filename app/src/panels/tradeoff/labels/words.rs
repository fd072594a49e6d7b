//! What a name says in each of its forms.

use crate::naming;

/// Letters of a whole name, and of ever shorter ones. The form after them is the number alone.
const LETTERS: [usize; 3] = [64, 26, 14];
/// The forms of a name.
pub(super) const FORMS: usize = LETTERS.len() + 1;
/// More runs at one place are counted.
const LISTED: usize = 3;

/// The name of runs at one place: what each is called, once.
pub(super) fn one_name(names: impl Iterator<Item = String>) -> String {
    let mut once: Vec<String> = Vec::new();
    names.for_each(|name| {
        if !once.contains(&name) {
            once.push(name);
        }
    });
    once.join(" / ")
}

/// What the number of a run, or its day, is sorted by.
pub(super) fn in_order(number: String) -> (Option<u64>, String) {
    (number.parse().ok(), number)
}

/// The numbers of runs at one place: `1, 2`, `1, 2, 3 and 4 more`.
pub(super) fn listed(mut numbers: Vec<String>) -> String {
    numbers.sort_by_cached_key(|number| in_order(number.clone()));
    numbers.dedup();
    match numbers.len().checked_sub(LISTED) {
        None | Some(0) => numbers.join(", "),
        Some(more) => format!("{} and {more} more", numbers[..LISTED].join(", ")),
    }
}

/// Words for a place in each form, from the longest on: one of the names in sight, whole, then short with what tells it from the
/// others. Its number alone comes last, if no other place has it.
pub(super) fn texts(number: &str, (names, at): (&[String], usize), is_one: bool) -> [String; FORMS] {
    let others = || names[..at].iter().chain(&names[at + 1..]);
    let form = |letters| naming::fitting(&names[at], others(), |form| form.chars().count() <= letters);
    let [whole, short, shortest] = LETTERS.map(|letters| format!("{number}: {}", form(letters)));
    let last = if is_one { number.to_owned() } else { shortest.clone() };
    [whole, short, shortest, last]
}

/// The same, with the last form in place of one that says of two names the same where they are not: what they differ in has
/// no room in it.
pub(super) fn unlike(mut texts: Vec<[String; FORMS]>, numbers: &[String], names: &[String]) -> Vec<[String; FORMS]> {
    for form in 0..FORMS - 1 {
        let words: Vec<&str> =
            texts.iter().zip(numbers).map(|(text, number)| text[form].trim_start_matches(number.as_str())).collect();
        let says_another =
            |at: &usize| (0..names.len()).any(|other| names[other] != names[*at] && words[other] == words[*at]);
        let alike: Vec<usize> = (0..names.len()).filter(says_another).collect();
        for at in alike {
            texts[at][form] = texts[at][FORMS - 1].clone();
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_whole_where_it_can_be() {
        let names = ["Digits, batch 64, checkpoint every block", "Digits, batch 32"].map(str::to_owned);
        let whole = format!("3: {}", names[0]);
        let told = texts("3", (&names, 0), true);
        assert_eq!((&told[0], told[3].as_str()), (&whole, "3"));
        assert!(told.is_sorted_by_key(|text| std::cmp::Reverse(text.chars().count())), "{told:?}");
        assert!(told[1].chars().count() <= 29 && told[1].starts_with("3: … "), "{told:?}");
        assert_eq!(texts("4", (&names, 1), true)[2..], ["4: … batch 32", "4"]);
        let of_day = texts("22 Nov", (&names, 0), false);
        assert_eq!(of_day[3], of_day[2], "a day of several tells none of them");
    }

    #[test]
    fn two_short_names_of_different_runs_are_never_equal_but_for_their_numbers() {
        let names = ["micro-batch 256, width 64", "micro-batch 256, width 128", "seed 6"].map(str::to_owned);
        let numbers = ["4", "5", "6"].map(str::to_owned);
        let forms = |words: [&str; 3]| {
            let form = |(number, words): (&String, &str)| {
                let short = format!("{number}: {words}");
                [format!("{number}: whole {number}"), short.clone(), short, number.clone()]
            };
            numbers.iter().zip(words).map(form).collect::<Vec<_>>()
        };
        let cut = unlike(forms(["micro… 256 …", "micro… 256 …", "seed 6"]), &numbers, &names);
        assert_eq!([&cut[0], &cut[1]].map(|forms| forms[1].as_str()), ["4", "5"]);
        assert_eq!((cut[0][0].as_str(), cut[2][1].as_str()), ("4: whole 4", "6: seed 6"));
        // Runs of the same settings have the same name.
        let same = [names[0].clone(), names[0].clone(), names[2].clone()];
        let kept = forms(["micro… 256 …", "micro… 256 …", "seed 6"]);
        assert_eq!(unlike(kept.clone(), &numbers, &same), kept);
    }

    #[test]
    fn runs_at_one_place_share_a_name() {
        let list = |numbers: &[&str]| listed(numbers.iter().map(|number| (*number).to_owned()).collect());
        assert_eq!([list(&["10", "2"]), list(&["22 Nov", "22 Nov"])], ["2, 10", "22 Nov"]);
        let mut order = ["22 Nov", "10", "2"].map(|number| in_order(number.to_owned()));
        order.sort();
        assert_eq!(
            order.map(|(_, number)| number),
            ["22 Nov", "2", "10"],
            "names stand in the order of the numbers before them"
        );
        assert_eq!(list(&["1", "2", "3", "4", "7"]), "1, 2, 3 and 2 more");
        let name = |names: &[&str]| one_name(names.iter().map(|name| (*name).to_owned()));
        assert_eq!([name(&["CNN", "CNN"]), name(&["seed 1", "seed 2"])], ["CNN", "seed 1 / seed 2"]);
    }
}
