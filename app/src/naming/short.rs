//! Names of settings where there is little room: what tells a name from the others stays, the rest gives way.
//!
//! Always holds: a form that leaves settings out stands for no other name that has them all, as long as the name itself does
//! and there is room for more than one setting; a value with a digit stays whole.

use std::collections::HashSet;

use super::{AND, BETWEEN, MORE, run::number_apart};
use crate::widgets::text;

/// Letters that the words of a name keep, step by step.
const LETTERS: [usize; 4] = [8, 6, 5, 4];
/// The least that they keep, where no setting can be left out any more.
const FEWEST: usize = 3;
/// What stands where something was left out.
const GAP: &str = "…";

/// A name in the room that it has, among `others` in the same place. One of settings keeps what tells it from them; any other
/// loses its middle. The number of a run, `Run 4: `, stays.
pub(crate) fn fitting(
    name: &str,
    others: impl Iterator<Item = impl AsRef<str>>,
    fits: impl Fn(&str) -> bool,
) -> String {
    if fits(name) {
        return name.to_owned();
    }
    let (number, own) = number_apart(name);
    let fits = |form: &str| fits(&format!("{number}{form}"));
    let (parts, has_more) = taken_apart(own);
    let others: Vec<Vec<String>> = others.map(|other| taken_apart(number_apart(other.as_ref()).1).0).collect();
    let others: Vec<&[String]> = others.iter().map(Vec::as_slice).collect();
    let form =
        if parts.len() < 2 { text::shortened(own, fits) } else { fitting_settings(&parts, has_more, &others, fits) };
    format!("{number}{form}")
}

/// The same of a name by the settings that it is made of, and those of the others.
pub(crate) fn fitting_settings(
    parts: &[String],
    has_more: bool,
    others: &[&[String]],
    fits: impl Fn(&str) -> bool,
) -> String {
    let mut forms = shorter(parts, has_more, others);
    match forms.iter().position(|form| fits(form)) {
        Some(first) => forms.swap_remove(first),
        None => text::shortened(forms.last().map_or("", String::as_str), fits),
    }
}

/// The settings that a name lists, and whether it counts more of them: `micro-batch 32, seed 2 and 3 more`.
fn taken_apart(name: &str) -> (Vec<String>, bool) {
    let counted = |ending: &str| ending.strip_suffix(MORE).is_some_and(|count| count.parse::<usize>().is_ok());
    let (listed, has_more) = match name.rsplit_once(AND) {
        Some((listed, ending)) if counted(ending) => (listed, true),
        _ => (name, false),
    };
    (listed.split(BETWEEN).map(str::to_owned).collect(), has_more)
}

/// Ever shorter forms of a name among others: the settings that it is made of, as many of them as it lists, and the same of
/// the others. `has_more` says that it leaves settings out already.
fn shorter(parts: &[String], has_more: bool, others: &[&[String]]) -> Vec<String> {
    let mut forms = vec![joined(parts, &vec![true; parts.len()], has_more, None)];
    let sets = sets(parts, others);
    for set in &sets {
        forms.push(joined(parts, set, has_more, None));
        forms.extend(LETTERS.iter().map(|letters| joined(parts, set, has_more, Some(*letters))));
    }
    forms.extend(sets.last().map(|set| joined(parts, set, has_more, Some(FEWEST))));
    // Where even that has no room, one setting whole says more than two without their words.
    let one = most_telling(parts, others);
    let one: Vec<bool> = (0..parts.len()).map(|i| Some(i) == one).collect();
    let letters = [None].into_iter().chain(LETTERS.map(Some)).chain([Some(FEWEST)]);
    forms.extend(letters.map(|letters| joined(parts, &one, has_more, letters)));
    forms.dedup();
    forms
}

/// Which settings the forms name, from most to fewest: what all names share goes first, and at once, then what most share. Of
/// settings that as many share, the one stays of which the others have most values: their forms name it as well.
fn sets(parts: &[String], others: &[&[String]]) -> Vec<Vec<bool>> {
    let shared: Vec<usize> = parts.iter().map(|part| sharing(part, others)).collect();
    let values: Vec<usize> = parts.iter().map(|part| values(part, others)).collect();
    // How many of the others have all the settings of a set.
    let alike = |set: &[bool]| {
        let named: Vec<&String> = parts.iter().zip(set).filter(|(_, is_in)| **is_in).map(|(part, _)| part).collect();
        others.iter().filter(|other| named.iter().all(|part| other.contains(part))).count()
    };
    let whole = vec![true; parts.len()];
    let as_told = alike(&whole);
    let mut set: Vec<bool> = shared.iter().map(|count| *count < others.len()).collect();
    if set.iter().all(|is_in| !is_in) {
        set = whole;
    }
    let mut sets = vec![set.clone()];
    loop {
        let without = |left: usize| set.iter().enumerate().map(|(i, is_in)| *is_in && i != left).collect::<Vec<bool>>();
        let may_go = |i: &usize| set[*i] && without(*i).contains(&true) && alike(&without(*i)) == as_told;
        let rank = |i: &usize| (shared[*i], std::cmp::Reverse(values[*i]), *i);
        let Some(next) = (0..parts.len()).filter(may_go).max_by_key(rank) else {
            return sets;
        };
        set = without(next);
        sets.push(set.clone());
    }
}

/// How many of the others have a setting.
fn sharing(part: &String, others: &[&[String]]) -> usize {
    others.iter().filter(|other| other.contains(part)).count()
}

/// The setting that the fewest others have; of several, the one of which they have most values.
fn most_telling(parts: &[String], others: &[&[String]]) -> Option<usize> {
    let rank = |i: &usize| (sharing(&parts[*i], others), std::cmp::Reverse(values(&parts[*i], others)));
    (0..parts.len()).min_by_key(rank)
}

/// How many values the others have of a setting: of `micro-batch 32` those of `micro-batch`.
fn values(of: &str, others: &[&[String]]) -> usize {
    let name = |part: &str| part.split(' ').take_while(|word| !word.contains(|c: char| c.is_ascii_digit())).count();
    let own: Vec<&str> = of.split(' ').take(name(of)).collect();
    let is_same = |part: &&String| part.split(' ').take(name(part)).eq(own.iter().copied());
    others.iter().flat_map(|other| other.iter()).filter(is_same).collect::<HashSet<_>>().len()
}

/// The settings of a set in a line, with a sign where others are left out; of their words at most so many letters.
fn joined(parts: &[String], set: &[bool], has_more: bool, letters: Option<usize>) -> String {
    let mut words = String::new();
    let mut is_left_out = false;
    for (part, is_in) in parts.iter().zip(set) {
        if *is_in {
            words.push_str(match (words.is_empty(), is_left_out) {
                (true, false) => "",
                (true, true) => "… ",
                (false, false) => BETWEEN,
                (false, true) => " … ",
            });
            words.push_str(&letters.map_or_else(|| part.clone(), |letters| with_letters(part, letters)));
        }
        is_left_out = !is_in;
    }
    // A word that is cut at the end says it already.
    if (is_left_out || has_more) && !words.ends_with(GAP) {
        words.push(' ');
        words.push_str(GAP);
    }
    words
}

/// The words without their ends, as far as they have no digits: `micr… 64`.
fn with_letters(part: &str, letters: usize) -> String {
    let short = |word: &str| {
        let is_of_letters = word.chars().all(|letter| letter.is_alphabetic() || letter == '-');
        // A sign in place of a single letter saves nothing.
        if !is_of_letters || word.chars().count() <= letters + 1 {
            return word.to_owned();
        }
        word.chars().take(letters).collect::<String>().trim_end_matches('-').to_owned() + GAP
    };
    part.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(of: &[&str]) -> Vec<String> {
        of.iter().map(|part| (*part).to_owned()).collect()
    }

    /// The first form of each name that has no more letters than this.
    fn within(letters: usize, names: &[&[&str]]) -> Vec<String> {
        let names: Vec<Vec<String>> = names.iter().map(|name| parts(name)).collect();
        let form = |i: usize| {
            let others: Vec<&[String]> =
                names.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, name)| name.as_slice()).collect();
            let forms = shorter(&names[i], false, &others);
            forms.into_iter().find(|form| form.chars().count() <= letters).unwrap_or_default()
        };
        (0..names.len()).map(form).collect()
    }

    #[test]
    fn names_that_differ_at_their_end_are_told_apart_however_short_they_are() {
        let grid: &[&[&str]] = &[
            &["micro-batch 64", "budget 8 MiB"],
            &["micro-batch 64", "budget 4 MiB"],
            &["micro-batch 32", "budget 8 MiB"],
            &["micro-batch 32", "budget 4 MiB"],
        ];
        assert_eq!(within(28, grid)[0], "micro-batch 64, budget 8 MiB");
        assert_eq!(within(23, grid)[..2], ["micro… 64, budget 8 MiB", "micro… 64, budget 4 MiB"]);
        assert_eq!([&within(22, grid)[1], &within(20, grid)[1]], ["micr… 64, budg… 4 MiB", "mic… 64, bud… 4 MiB"]);
        for letters in 19..30 {
            let mut forms = within(letters, grid);
            forms.sort();
            forms.dedup();
            assert_eq!((forms.len(), forms.contains(&String::new())), (4, false), "{letters}");
        }
    }

    #[test]
    fn a_name_in_little_room_keeps_what_tells_it_from_the_others() {
        let names = ["micro-batch 64, every block, seed 1", "micro-batch 64, every block, seed 2"].map(str::to_owned);
        let within = |letters: usize, name: &str| {
            fitting(name, names.iter().filter(|other| *other != name), |form| form.chars().count() <= letters)
        };
        assert_eq!(within(35, &names[0]), names[0]);
        assert_eq!([within(12, &names[0]), within(12, &names[1])], ["… seed 1", "… seed 2"]);
        let more = "micro-batch 32, every block, seed 3 and 2 more";
        assert_eq!(super::taken_apart(more), (parts(&["micro-batch 32", "every block", "seed 3"]), true));
        assert!(within(30, more).ends_with(" …"), "{}", within(30, more));
        // The number stays, and is no setting.
        let numbered = ["Run 3: micro-batch 64, seed 1", "Run 12: micro-batch 64, seed 2"].map(str::to_owned);
        assert_eq!(fitting(&numbered[0], numbered[1..].iter(), |form| form.len() <= 18), "Run 3: … seed 1");
        // A name that is not made of settings loses its middle, as a file's does.
        assert_eq!(within(12, "tea and 2 biscuits"), "tea…biscuits");
        for letters in 1..40 {
            let forms = [&names[0], &names[1]].map(|name| within(letters, name));
            assert!(letters < 4 || forms[0] != forms[1], "{letters}: {forms:?}");
        }
    }

    #[test]
    fn what_all_names_share_goes_first_and_what_one_alone_has_stays() {
        let names: &[&[&str]] = &[
            &["micro-batch 64", "every block", "seed 1"],
            &["micro-batch 64", "every block", "seed 2"],
            &["micro-batch 64", "no checkpointing", "seed 3"],
        ];
        assert_eq!(within(25, names)[0], "… every block, seed 1");
        assert_eq!(within(8, names), ["… seed 1", "… seed 2", "… seed 3"]);
    }

    #[test]
    fn of_settings_that_no_other_has_the_one_stays_by_which_the_others_are_told_apart() {
        let names: &[&[&str]] = &[
            &["micro-batch 64", "every block", "epochs 60"],
            &["micro-batch 16", "no checkpointing", "steps 60"],
            &["micro-batch 32", "no checkpointing", "steps 60"],
        ];
        assert_eq!(within(30, names)[0], "micro-batch 64, every block …");
        assert_eq!(within(16, names), ["micro-batch 64 …", "micro-batch 16 …", "micro-batch 32 …"]);
        let budgets: &[&[&str]] = &[
            &["micro-batch 64", "budget 1 MiB"],
            &["micro-batch 96", "budget 2 MiB"],
            &["micro-batch 96", "budget 4 MiB"],
        ];
        assert_eq!(within(16, budgets), ["… budget 1 MiB", "… budget 2 MiB", "… budget 4 MiB"]);
    }

    #[test]
    fn one_setting_stays_whole_where_two_have_no_room() {
        let names: &[&[&str]] = &[
            &["micro-batch 64", "no checkpointing"],
            &["micro-batch 64", "every block"],
            &["micro-batch 32", "no checkpointing"],
        ];
        assert_eq!(within(24, names)[0], "micro… 64, no checkp…");
        assert_eq!([&within(18, names)[0], &within(10, names)[0]], ["micr… 64, no chec…", "micr… 64 …"]);
        // Each form is one of a name that fits, and not one that is cut in its middle.
        let own = parts(names[2]);
        let others = [parts(names[0]), parts(names[1])];
        let others: Vec<&[String]> = others.iter().map(Vec::as_slice).collect();
        for letters in 9..40 {
            let form = fitting_settings(&own, false, &others, |form| form.chars().count() <= letters);
            assert!(form.contains("32"), "{letters}: {form}");
        }
    }

    #[test]
    fn a_name_that_leaves_settings_out_says_so_in_every_form() {
        let own = parts(&["micro-batch 64", "seed 1"]);
        let forms = shorter(&own, true, &[&parts(&["micro-batch 64", "seed 2"])]);
        assert!(forms.iter().all(|form| form.ends_with(" …")), "{forms:?}");
        assert_eq!(forms.last().map(String::as_str), Some("… seed 1 …"));
    }

    #[test]
    fn names_that_are_the_same_are_shortened_all_the_same() {
        let names: &[&[&str]] = &[&["micro-batch 64"], &["micro-batch 64"]];
        assert_eq!(within(8, names), ["micr… 64", "micr… 64"]);
        assert_eq!(with_letters("adamw-8bit and micro-batch", 5), "adamw-8bit and micro…");
    }
}
