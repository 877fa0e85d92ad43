//! The values of a requirement on a label.

use std::{
    hash::{Hash, Hasher},
    ops::Deref,
    sync::OnceLock,
};

use serde::{Deserialize, Serialize};

use crate::Name;

/// So many values are searched one by one.
const FEW: usize = 8;

/// Values in the order of their manifest. A selector may list thousands and is evaluated for every namespace, so they
/// are also sorted, when the first of them is searched.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline, description = ""))]
#[serde(transparent)]
pub struct Values {
    list: Vec<Name>,
    #[serde(skip)]
    sorted: OnceLock<Box<[Name]>>,
}

impl Values {
    pub(crate) fn has(&self, value: &str) -> bool {
        if self.list.len() <= FEW {
            return self.list.iter().any(|other| **other == *value);
        }
        let sort = || {
            let mut sorted = self.list.clone();
            sorted.sort_unstable();
            sorted.into()
        };
        let sorted = self.sorted.get_or_init(sort);
        sorted
            .binary_search_by(|other| (**other).cmp(value))
            .is_ok()
    }
}

impl From<Vec<Name>> for Values {
    fn from(list: Vec<Name>) -> Self {
        Self {
            list,
            sorted: OnceLock::new(),
        }
    }
}

impl FromIterator<Name> for Values {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        Self::from(Vec::from_iter(names))
    }
}

impl Deref for Values {
    type Target = Vec<Name>;

    fn deref(&self) -> &Vec<Name> {
        &self.list
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
    }
}
