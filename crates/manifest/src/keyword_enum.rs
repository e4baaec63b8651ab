//! A macro for enums whose values are words in the configuration: the enum, its words and their
//! parsing, declared once.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$word_doc])* $variant,)*
        }

        impl $name {
            /// Every value, in documentation order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word used in configuration.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl $crate::decode::Word for $name {
            const WHAT: &'static str = $what;
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)*];
        }
    };
}

pub(crate) use words;
