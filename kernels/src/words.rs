//! Enums whose variants are words of the preset format.
//!
//! Owns [`words!`](crate::words!), which writes an enum and its words in one place. Every variant has one word, and no two
//! variants share one.

#[doc(hidden)]
pub use serde;

/// Defines an enum with a word for each variant: `ALL`, `WORDS`, `key` and the JSON that commands print follow.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order of menus.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word of each variant, in the same order.
            pub const WORDS: [&'static str; [$($word),+].len()] = [$($word),+];

            /// The word in presets.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::words::serde::Serialize for $name {
            fn serialize<S: $crate::words::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.key())
            }
        }
    };
}
