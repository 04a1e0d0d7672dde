//! Enums whose values have names in labels and JSON.

/// Declares such an enum; each value is listed once, with its name.
#[macro_export]
macro_rules! labelled_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$of_value:meta])* $value:ident = $label:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $name {
            $($(#[$of_value])* $value,)*
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$value),*];

            /// Its name in labels and JSON.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$value => $label,)*
                }
            }
        }
    };
}
