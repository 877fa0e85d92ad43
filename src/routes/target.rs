//! The variable parts of a path.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use http::request::Parts;
use memchr::memchr;
use percent_encoding::percent_decode_str;
use quota_semantics::Name;

use crate::problem::{Problem, Reason};

/// The state of a route's handler, and where the variable parts of one request's path are.
#[derive(Clone, Copy, Debug)]
pub struct RouteState<S> {
    pub(crate) places: PathParameters,
    pub(crate) state: S,
}

/// The positions of a path's variable parts, in order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathParameters {
    places: [(usize, usize); MOST],
    pub(crate) count: usize,
}

/// Most variable parts of a path.
const MOST: usize = 3;

/// The fixed texts between the variable parts of a route's path: their lengths tell where the variable parts are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FixedLengths {
    lengths: [usize; MOST],
    count: usize,
    /// Whether the last variable part is the rest of the path.
    ends_with_rest: bool,
}

impl FixedLengths {
    /// The gaps of a path in the route table.
    ///
    /// # Panics
    /// The path has more than [`MOST`] variable parts: the table is part of the program, and tested.
    pub(crate) fn of(label: &str) -> Self {
        let mut gaps = Self::default();
        let mut rest = label;
        while let Some((fixed, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            assert!(gaps.count < MOST, "{label} has too many variable parts");
            gaps.lengths[gaps.count] = fixed.len();
            gaps.count += 1;
            gaps.ends_with_rest = name.starts_with('*');
            rest = after;
        }
        gaps
    }
}

impl PathParameters {
    /// The variable parts of a path that matches a route with these gaps.
    pub(crate) fn of(path: &str, gaps: &FixedLengths) -> Self {
        let mut places = Self {
            count: gaps.count,
            ..Self::default()
        };
        let mut end = 0;
        for index in 0..gaps.count {
            let begin = end + gaps.lengths[index];
            let part = path.get(begin..).unwrap_or_default();
            let is_rest = gaps.ends_with_rest && index + 1 == gaps.count;
            let length = if is_rest {
                None
            } else {
                memchr(b'/', part.as_bytes())
            };
            end = begin + length.unwrap_or(part.len());
            places.places[index] = (begin, end);
        }
        places
    }

    /// Whether a variable part is empty.
    pub(crate) fn is_any_empty(&self) -> bool {
        let mut places = self.places[..self.count].iter();
        places.any(|(begin, end)| begin == end)
    }

    /// One part, percent-decoded; none if it is absent, or not valid UTF-8.
    pub(crate) fn get<'p>(&self, index: usize, path: &'p str) -> Option<Cow<'p, str>> {
        let (begin, end) = *self.places[..self.count].get(index)?;
        let part = path.get(begin..end)?;
        // Few parts have an escape.
        match memchr(b'%', part.as_bytes()) {
            None => Some(Cow::Borrowed(part)),
            Some(_) => percent_decode_str(part).decode_utf8().ok(),
        }
    }
}

impl<S> RouteState<S> {
    /// A variable part of this path, percent-decoded.
    ///
    /// # Errors
    /// `Malformed` if it is not valid UTF-8.
    pub(crate) fn name(&self, index: usize, path: &str) -> Result<Name, Problem> {
        let part = self.places.get(index, path).ok_or_else(|| {
            Problem::new(
                Reason::Malformed,
                format!("{path} is not percent-encoded UTF-8"),
            )
        })?;
        Ok(part.into())
    }
}

/// The first variable parts of a path, percent-decoded.
#[derive(Clone, Debug)]
pub struct Target<const N: usize>(pub [Name; N]);

impl<const N: usize, S: Send + Sync> FromRequestParts<RouteState<S>> for Target<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &RouteState<S>) -> Result<Self, Problem> {
        let mut wrong = None;
        let names = std::array::from_fn(|index| {
            let name = state.name(index, parts.uri.path());
            name.unwrap_or_else(|problem| {
                wrong = Some(problem);
                Name::default()
            })
        });
        wrong.map_or(Ok(Self(names)), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_parts_are_found_between_the_fixed_ones() {
        let cases = [
            ("/livez", "/livez", &[][..]),
            (
                "/v1/namespaces/{namespace}/check",
                "/v1/namespaces/a/check",
                &["a"],
            ),
            ("/v1/groups/{name}", "/v1/groups/%C3%BC", &["ü"]),
            (
                "/v1/namespaces/{namespace}/reservations/{uid}/commit",
                "/v1/namespaces/team-a/reservations/x%2Fy/commit",
                &["team-a", "x/y"],
            ),
            ("/ui/{*path}", "/ui/a/b.js", &["a/b.js"]),
        ];
        for (label, path, expected) in cases {
            let places = PathParameters::of(path, &FixedLengths::of(label));
            let found: Vec<_> = (0..places.count)
                .map(|index| places.get(index, path).unwrap())
                .collect();
            assert_eq!(found, expected, "{label}");
            assert_eq!(places.get(places.count, path), None);
        }
        let places = PathParameters::of("/v1/groups/%FF", &FixedLengths::of("/v1/groups/{name}"));
        assert_eq!(places.get(0, "/v1/groups/%FF"), None);
    }
}
