//! Enums whose variants are words of the preset format.
//!
//! Owns [`words!`], which writes an enum and its words in one place. Every variant has one word, and no two variants share
//! one.

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

/// Defines an enum with a word for each variant: `ALL`, `key`, [`Word`] and the JSON that commands print follow. After
/// `switched` stand the variants that false and true mean.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }
        $(switched $off:ident $on:ident)?) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order of menus.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in presets.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::words::Word for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

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

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.key())
            }
        }
    };
}

pub(crate) use words;
