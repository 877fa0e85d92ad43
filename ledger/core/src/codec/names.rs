//! The table of interned names of a piece that is being written.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use quota_semantics::Name;

/// Up to this many names a linear search is faster than the index.
const FEW: usize = 16;
const MANY: usize = FEW + 1;

/// No number.
const NONE: u32 = u32::MAX;

/// Interned names, each with its number.
pub(super) struct Names {
    list: Vec<Name>,
    /// The numbers of the names that are known everywhere.
    known: [u32; Name::KNOWN],
    /// The index of names; empty while there are few.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            known: [NONE; Name::KNOWN],
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl Names {
    /// The names, in the order of their numbers.
    pub(super) fn list(&self) -> &[Name] {
        &self.list
    }

    /// The number of a name. A new name gets the next number.
    #[inline]
    pub(super) fn number(&mut self, name: &Name) -> u32 {
        match name.known() {
            Some(known) if self.known[known] != NONE => self.known[known],
            known => self.find_or_add(name, known),
        }
    }

    #[inline(never)]
    fn find_or_add(&mut self, name: &Name, known: Option<usize>) -> u32 {
        let found = if known.is_none() { self.find(name) } else { None };
        found.unwrap_or_else(|| self.add(name, known))
    }

    fn find(&self, name: &Name) -> Option<u32> {
        if self.list.len() <= FEW {
            let place = self.list.iter().position(|other| other == name)?;
            return u32::try_from(place).ok();
        }
        let same = |&number: &u32| self.list[number as usize] == *name;
        self.index.find(hash_of_text(&self.hasher, name), same).copied()
    }

    fn add(&mut self, name: &Name, known: Option<usize>) -> u32 {
        let number = u32::try_from(self.list.len()).unwrap_or(NONE);
        if self.list.is_empty() {
            self.list.reserve(FEW);
        }
        self.list.push(name.clone());
        if let Some(known) = known {
            self.known[known] = number;
        }
        match self.list.len() {
            ..=FEW => {}
            MANY => (0..=number).for_each(|number| self.enter(number)),
            _ => self.enter(number),
        }
        number
    }

    fn enter(&mut self, number: u32) {
        let Self { list, index, hasher, .. } = self;
        let hash = |number: &u32| hash_of_text(hasher, &list[*number as usize]);
        index.insert_unique(hash(&number), number, hash);
    }
}

/// The hash of a text by its bytes alone.
pub(crate) fn hash_of_text(hasher: &DefaultHashBuilder, text: &str) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let mut names = Names::default();
        let name = |number: u32| Name::from(format!("name-{number}"));
        for round in 0..3 {
            for number in 0..100 {
                assert_eq!(names.number(&name(number)), number, "round {round}");
            }
        }
        for (number, known) in (100..).zip(["pods", "", "v1", "pods"]) {
            assert_eq!(names.number(&known.into()), if number == 103 { 100 } else { number });
        }
        assert_eq!(names.list().len(), 103);
    }
}
