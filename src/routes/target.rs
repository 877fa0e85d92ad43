//! The variable parts of a path.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::problem::{Problem, Reason};

/// The positions of a path's variable parts, in order. An extension of requests whose paths have any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    places: [(usize, usize); MOST],
    count: usize,
}

/// Most variable parts of a path.
const MOST: usize = 3;

impl Places {
    /// The variable parts that a match found in this path.
    pub(crate) fn of(path: &str, found: &matchit::Params<'_, '_>) -> Self {
        let mut places = Self::default();
        for (place, (_, value)) in places.places.iter_mut().zip(found.iter()) {
            let begin = value.as_ptr() as usize - path.as_ptr() as usize;
            *place = (begin, begin + value.len());
            places.count += 1;
        }
        places
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One part, percent-decoded; none if it is absent, or not valid UTF-8.
    pub(crate) fn get<'p>(&self, index: usize, path: &'p str) -> Option<Cow<'p, str>> {
        let (begin, end) = *self.places[..self.count].get(index)?;
        let part = path.get(begin..end)?;
        // Few parts have an escape.
        match part.bytes().all(|byte| byte != b'%') {
            true => Some(Cow::Borrowed(part)),
            false => percent_decode_str(part).decode_utf8().ok(),
        }
    }
}

/// The variable parts of a path, percent-decoded.
#[derive(Clone, Debug)]
pub struct Target<T>(pub T);

/// Types that the variable parts of a path can be parsed into.
trait FromPlaces: Sized {
    /// Parses this many parts.
    fn read(count: usize, part: impl Fn(usize) -> Result<String, Problem>)
    -> Result<Self, Problem>;
}

/// All parts of the path.
impl FromPlaces for Vec<String> {
    fn read(
        count: usize,
        part: impl Fn(usize) -> Result<String, Problem>,
    ) -> Result<Self, Problem> {
        (0..count).map(part).collect()
    }
}

impl FromPlaces for String {
    fn read(_: usize, part: impl Fn(usize) -> Result<String, Problem>) -> Result<Self, Problem> {
        part(0)
    }
}

impl FromPlaces for (String, String) {
    fn read(_: usize, part: impl Fn(usize) -> Result<String, Problem>) -> Result<Self, Problem> {
        Ok((part(0)?, part(1)?))
    }
}

impl<T: FromPlaces + Send, S: Send + Sync> FromRequestParts<S> for Target<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let places = parts.extensions.get::<Places>().copied();
        let places = places.unwrap_or_default();
        let path = parts.uri.path();
        let read = T::read(places.count, |index| {
            let part = places.get(index, path).map(Cow::into_owned);
            part.ok_or_else(|| {
                Problem::new(
                    Reason::Malformed,
                    format!("{path} is not percent-encoded UTF-8"),
                )
            })
        });
        read.map(Self)
    }
}
