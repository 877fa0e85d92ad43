//! The table of interned names of a piece that is being written.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use quota_semantics::Name;

/// Up to this many names a linear search is faster than the index.
const FEW: usize = 16;
const MANY: usize = FEW + 1;

/// Interned names. Each name has its number, and its links in the order of lists.
#[derive(Default)]
pub(super) struct Names {
    list: Vec<Listed>,
    /// The first name of the last list.
    first: u32,
    /// The index of names; empty while there are few.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

struct Listed {
    name: Name,
    /// The name that followed this one in the last list that held it.
    follower: u32,
}

impl Names {
    /// The names, in the order of their numbers.
    pub(super) fn list(&self) -> impl ExactSizeIterator<Item = &Name> + Clone {
        self.list.iter().map(|listed| &listed.name)
    }

    /// The number of a name. A new name gets the next number.
    pub(super) fn number(&mut self, name: &Name) -> u32 {
        self.find(name).unwrap_or_else(|| self.add(name))
    }

    /// The number of a name in a list, given the number of the name before it. Lists repeat, so the name that followed
    /// last time is tried first.
    pub(super) fn number_after(&mut self, before: Option<u32>, name: &Name) -> u32 {
        let expected = *self.after(before);
        if self.is(expected, name) {
            return expected;
        }
        let number = self.number(name);
        *self.after(before) = number;
        number
    }

    fn after(&mut self, before: Option<u32>) -> &mut u32 {
        match before.and_then(|before| self.list.get_mut(before as usize)) {
            Some(listed) => &mut listed.follower,
            None => &mut self.first,
        }
    }

    fn is(&self, number: u32, name: &Name) -> bool {
        self.list.get(number as usize).is_some_and(|listed| listed.name == *name)
    }

    fn find(&self, name: &Name) -> Option<u32> {
        if self.list.len() <= FEW {
            let place = self.list().position(|other| other == name)?;
            return u32::try_from(place).ok();
        }
        let same = |&number: &u32| self.is(number, name);
        self.index.find(self.hasher.hash_one(name), same).copied()
    }

    fn add(&mut self, name: &Name) -> u32 {
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        if self.list.is_empty() {
            self.list.reserve(FEW);
        }
        self.list.push(Listed { name: name.clone(), follower: u32::MAX });
        match self.list.len() {
            ..=FEW => {}
            MANY => (0..=number).for_each(|number| self.enter(number)),
            _ => self.enter(number),
        }
        number
    }

    fn enter(&mut self, number: u32) {
        let Self { list, index, hasher, .. } = self;
        let hash = |number: &u32| hasher.hash_one(&list[*number as usize].name);
        index.insert_unique(hash(&number), number, hash);
    }
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
        for step in [1, 7, 99] {
            let mut before = None;
            for number in (0..100).map(|place| place * step % 100) {
                before = Some(names.number_after(before, &name(number)));
                assert_eq!(before, Some(number));
            }
        }
        assert_eq!(names.list().len(), 100);
    }
}
