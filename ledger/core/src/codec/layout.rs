//! Layouts of structs and enums, written once for both directions.

/// The layout of a struct: its fields, in the order written, and those that are written elsewhere.
macro_rules! record {
    ($type:ty { $($field:ident),* $(,)? } $( without { $($elsewhere:ident),* $(,)? } )?) => {
        impl $crate::codec::Wire for $type {
            fn put(&self, writer: &mut $crate::codec::Writer) {
                $( $crate::codec::Wire::put(&self.$field, writer); )*
            }
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self {
                    $( $field: $crate::codec::Wire::take(reader)?, )*
                    $( $( $elsewhere: Default::default(), )* )?
                })
            }
        }
    };
}

/// The layout of an enum: each variant's tag and its fields, in the order written.
macro_rules! variants {
    ($type:ty {
        $( $tag:literal => $variant:ident $( ( $inner:ident ) )? $( { $($field:ident),* $(,)? } )? ),* $(,)?
    }) => {
        impl $crate::codec::Wire for $type {
            fn put(&self, writer: &mut $crate::codec::Writer) {
                match self {
                    $( Self::$variant $( ( $inner ) )? $( { $($field),* } )? => {
                        <u8 as $crate::codec::Wire>::put(&$tag, writer);
                        $( $crate::codec::Wire::put($inner, writer); )?
                        $( $( $crate::codec::Wire::put($field, writer); )* )?
                    } )*
                }
            }
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                match <u8 as $crate::codec::Wire>::take(reader)? {
                    $( $tag => {
                        $( let $inner = $crate::codec::Wire::take(reader)?; )?
                        $( $( let $field = $crate::codec::Wire::take(reader)?; )* )?
                        Ok(Self::$variant $( ( $inner ) )? $( { $($field),* } )?)
                    } )*
                    tag => Err($crate::codec::DecodeError(format!(
                        "{}: no variant {tag}", stringify!($type)
                    ))),
                }
            }
        }
    };
}

pub(crate) use record;
pub(crate) use variants;
