//! The words of the preset format: what a setting with one word for each value has.
//!
//! Owns [`Word`], and [`words!`], which defines such an enum here. The enums of the kernels' package have their words there
//! and the trait here.

use super::Execution;
use crate::device::PoolPolicy;

/// An enum with a word for each variant.
pub(crate) trait Word: Copy + 'static {
    /// The word of each variant, in the order of menus.
    const WORDS: &'static [&'static str];

    /// The word in presets.
    fn word(self) -> &'static str;

    /// The variant of a word.
    fn of_word(word: &str) -> Option<Self>;

    /// The variant that is meant by on or off, of an enum that is a switch.
    fn of_switch(_is_on: bool) -> Option<Self> {
        None
    }
}

/// Gives an enum of [`plimsoll_kernels::words!`] the trait [`Word`]. After `switched` stand the variants that false and true
/// mean.
macro_rules! word {
    ($name:ident $(switched $off:ident $on:ident)?) => {
        impl $crate::experiment::words::Word for $name {
            const WORDS: &'static [&'static str] = &$name::WORDS;

            fn word(self) -> &'static str {
                self.key()
            }

            fn of_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.key() == word)
            }

            $(fn of_switch(is_on: bool) -> Option<Self> {
                Some(if is_on { Self::$on } else { Self::$off })
            })?
        }
    };
}

/// Defines an enum with a word for each variant, and its [`Word`].
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($variants:tt)+ } $(switched $off:ident $on:ident)?) => {
        plimsoll_kernels::words! { $(#[$about])* pub enum $name { $($variants)+ } }
        $crate::experiment::words::word! { $name $(switched $off $on)? }
    };
}

pub(crate) use word;
pub(crate) use words;

word! { Execution }
word! { PoolPolicy }
