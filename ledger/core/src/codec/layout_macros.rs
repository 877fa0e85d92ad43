//! Macros that declare the layout of a struct or enum once, for encoding and decoding.

/// The layout of a struct: its fields in the order of encoding, and the fields that are computed instead.
macro_rules! record {
    ($type:ty { $($field:ident),* $(,)? } $( without { $($computed:ident),* $(,)? } )?) => {
        impl $crate::codec::Wire for $type {
            #[inline]
            fn put(&self, writer: &mut $crate::codec::Writer) {
                $( $crate::codec::Wire::put(&self.$field, writer); )*
            }
            #[inline]
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self {
                    $( $field: $crate::codec::Wire::take(reader)?, )*
                    $( $( $computed: Default::default(), )* )?
                })
            }
        }
    };
}

/// The layout of an enum: the tag of each variant, and its fields in the order of encoding.
macro_rules! variants {
    ($type:ty {
        $( $tag:literal => $variant:ident $( ( $inner:ident ) )? $( { $($field:ident),* $(,)? } )? ),* $(,)?
    }) => {
        impl $crate::codec::Tagged for $type {
            #[inline]
            fn tag(&self) -> u8 {
                match self {
                    $( Self::$variant { .. } => $tag, )*
                }
            }
        }

        impl $crate::codec::Wire for $type {
            #[inline]
            fn put(&self, writer: &mut $crate::codec::Writer) {
                $crate::codec::Wire::put(&$crate::codec::Tagged::tag(self), writer);
                match self {
                    $( Self::$variant $( ( $inner ) )? $( { $($field),* } )? => {
                        $( $crate::codec::Wire::put($inner, writer); )?
                        $( $( $crate::codec::Wire::put($field, writer); )* )?
                    } )*
                }
            }
            #[inline]
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                match <u8 as $crate::codec::Wire>::take(reader)? {
                    $( $tag => {
                        $( let $inner = $crate::codec::Wire::take(reader)?; )?
                        $( $( let $field = $crate::codec::Wire::take(reader)?; )* )?
                        Ok(Self::$variant $( ( $inner ) )? $( { $($field),* } )?)
                    } )*
                    tag => Err($crate::codec::no_variant(stringify!($type), tag)),
                }
            }
        }
    };
}

pub(crate) use record;
pub(crate) use variants;
