//! Resource lists: amounts by resource name.

use std::{
    borrow::Borrow,
    cell::Cell,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use crate::{
    Name,
    quantity::{Quantity, Scale},
};

/// The longest list that is searched linearly: most names differ in length, which is faster to compare than their
/// order.
const SHORT: usize = 8;

/// If one list is this many times longer than another, searching it for each name of the other is faster than merging
/// both.
const LONG: usize = 16;

/// The same factor where both are sorted, and each search begins behind the previous name.
const SPARSE: usize = 8;

/// This many names are inserted one by one. More are merged, which copies the list once.
const FEW: usize = 4;

/// Quantities by resource name, sorted by name; each name at most once.
///
/// A name with a zero quantity differs from an absent name: only a present name counts as mentioned. Two lists are
/// equal if they have the same names with equal numbers.
#[derive(Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "std::collections::BTreeMap<Name, Quantity>")]
pub struct ResourceList(Vec<(Name, Quantity)>);

impl ResourceList {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The list of these names, which are sorted.
    pub(crate) fn from_sorted(entries: Vec<(Name, Quantity)>) -> Self {
        debug_assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b), "{entries:?}");
        Self(entries)
    }

    /// The number of names.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no names.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place<N: Ord + ?Sized>(&self, name: &N) -> Result<usize, usize>
    where
        Name: Borrow<N>,
    {
        self.0.binary_search_by(|(other, _)| other.borrow().cmp(name))
    }

    /// The quantity of a name.
    pub fn get<N: Ord + ?Sized>(&self, name: &N) -> Option<&Quantity>
    where
        Name: Borrow<N>,
    {
        if self.0.len() <= SHORT {
            let found = self.0.iter().find(|(other, _)| other.borrow() == name);
            return found.map(|(_, quantity)| quantity);
        }
        self.place(name).ok().map(|at| &self.0[at].1)
    }

    /// The names that are in `other` too, sorted, with both quantities. Faster than a search for each of them.
    #[inline]
    pub fn common<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a Name, &'a Quantity, &'a Quantity)> {
        self.common_places(other).map(|(mine, theirs)| {
            let (name, quantity) = &self.0[mine];
            (name, quantity, &other.0[theirs].1)
        })
    }

    /// The places of the names that are in `other` too: those in this list, and those in `other`.
    #[inline]
    pub fn common_places<'a>(&'a self, other: &'a Self) -> CommonPlaces<'a> {
        let is_short = self.len() <= other.len();
        let (short, long) = if is_short { (self, other) } else { (other, self) };
        CommonPlaces { short: &short.0, long: &long.0, is_short, at: 0, from: 0 }
    }

    /// The name and the quantity at a place of the list; see [`Self::common_places`].
    ///
    /// # Panics
    /// If the list has fewer names.
    #[inline]
    pub fn entry(&self, place: usize) -> (&Name, &Quantity) {
        let (name, quantity) = &self.0[place];
        (name, quantity)
    }

    /// Finds names in their order.
    #[inline]
    pub fn search(&self) -> Search<'_> {
        Search(&self.0)
    }

    /// Sets the quantity of a name.
    pub fn insert(&mut self, name: Name, quantity: Quantity) {
        match self.place(&name) {
            Ok(at) => self.0[at].1 = quantity,
            Err(at) => self.0.insert(at, (name, quantity)),
        }
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.place(name).ok().map(|at| self.0.remove(at).1)
    }

    /// Names with quantities, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &Quantity)> + DoubleEndedIterator {
        self.0.iter().map(|(name, quantity)| (name, quantity))
    }

    /// The names, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Name> + DoubleEndedIterator {
        self.0.iter().map(|(name, _)| name)
    }

    /// Adds each quantity of `other`; absent names are copied. Returns whether one of these names is zero now.
    pub fn add(&mut self, other: &Self) -> bool {
        self.merge(other, Quantity::add_assign, Clone::clone)
    }

    /// Subtracts each quantity of `other`; absent names start from zero, so that they become negative. Returns whether
    /// one of these names is zero now.
    pub fn subtract(&mut self, other: &Self) -> bool {
        self.merge(other, Quantity::sub_assign, Quantity::negated)
    }

    /// Raises each name to the quantity in `other`, if that is at least as much. Absent names are copied.
    pub fn max(&mut self, other: &Self) {
        let raise = |mine: &mut Quantity, theirs: &Quantity| {
            if *mine <= *theirs {
                *mine = theirs.clone();
            }
        };
        self.merge(other, raise, Clone::clone);
    }

    /// Lowers each name to the quantity in `other`, if that is less. Absent names are copied.
    pub fn min(&mut self, other: &Self) {
        let lower = |mine: &mut Quantity, theirs: &Quantity| {
            if *theirs < *mine {
                *mine = theirs.clone();
            }
        };
        self.merge(other, lower, Clone::clone);
    }

    /// Returns whether one of the names of `other` is zero now.
    fn merge(
        &mut self,
        other: &Self,
        both: impl Fn(&mut Quantity, &Quantity),
        missing: impl Fn(&Quantity) -> Quantity,
    ) -> bool {
        let has_zero = Cell::new(false);
        let see = |quantity: &Quantity| has_zero.set(has_zero.get() | quantity.is_zero());
        let both = |mine: &mut Quantity, theirs: &Quantity| {
            both(mine, theirs);
            see(mine);
        };
        let missing = |theirs: &Quantity| {
            let quantity = missing(theirs);
            see(&quantity);
            quantity
        };
        if self.0.is_empty() {
            let taken = other.iter().map(|(name, theirs)| (name.clone(), missing(theirs)));
            self.0 = taken.collect();
            return has_zero.get();
        }
        let mut absent = Vec::new();
        if other.len().saturating_mul(LONG) < self.len() {
            for (name, theirs) in &other.0 {
                match self.place(name) {
                    Ok(at) => both(&mut self.0[at].1, theirs),
                    Err(_) => absent.push((name.clone(), missing(theirs))),
                }
            }
            self.add_entries(Self(absent));
            return has_zero.get();
        }
        let mut rest = self.0.iter_mut();
        let mut next = rest.next();
        'names: for (name, theirs) in &other.0 {
            while let Some((mine, quantity)) = &mut next {
                // Mostly both have the same names, and equality is quicker to see than order.
                if *mine == *name {
                    both(quantity, theirs);
                    next = rest.next();
                    continue 'names;
                }
                if *mine > *name {
                    break;
                }
                next = rest.next();
            }
            absent.push((name.clone(), missing(theirs)));
        }
        if !absent.is_empty() {
            self.add_entries(Self(absent));
        }
        has_zero.get()
    }

    /// Sets the quantities of names, which are sorted. Each of many insertions would move all names behind it, so these
    /// are merged in one pass.
    fn add_entries(&mut self, entries: Self) {
        if entries.len() <= FEW {
            self.0.reserve(entries.len());
            let mut at = 0;
            for (name, quantity) in entries {
                at += count_before(&self.0[at..], &name);
                match self.0.get_mut(at) {
                    Some((mine, before)) if *mine == name => *before = quantity,
                    _ => self.0.insert(at, (name, quantity)),
                }
            }
            return;
        }
        let mut merged = Vec::with_capacity(self.len() + entries.len());
        let mut mine = std::mem::take(&mut self.0).into_iter();
        for (name, quantity) in entries {
            let before = count_before(mine.as_slice(), &name);
            merged.extend(mine.by_ref().take(before));
            if mine.as_slice().first().is_some_and(|(next, _)| *next == name) {
                mine.next();
            }
            merged.push((name, quantity));
        }
        merged.extend(mine);
        self.0 = merged;
    }

    /// Removes those of these names whose quantity is zero.
    #[inline]
    pub fn drop_zeros_of(&mut self, names: &Self) {
        if !names.is_empty() {
            self.retain(|name, quantity| !quantity.is_zero() || names.get(name).is_none());
        }
    }

    /// Sorts the names. Of several quantities for one name, the last one is kept.
    fn put_in_order(&mut self) {
        let entries = &mut self.0;
        if entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            return;
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        // `dedup_by` keeps the first item of a run, which therefore has to take the later value.
        entries.dedup_by(|later, kept| {
            let same = later.0.cmp(&kept.0) == Ordering::Equal;
            if same {
                std::mem::swap(&mut later.1, &mut kept.1);
            }
            same
        });
    }

    /// The amounts to be granted for a change from `old` to this list: for each name of this list, the excess over
    /// `old`, or zero.
    pub fn delta_over(&self, old: &Self) -> Self {
        let delta = |name: &Name, new: &Quantity| match old.get(name) {
            Some(before) => new.subtract_non_negative(before),
            None if new.is_positive() => new.clone(),
            None => Quantity::ZERO,
        };
        Self(self.0.iter().map(|(name, new)| (name.clone(), delta(name, new))).collect())
    }

    /// The part of the list whose names pass.
    pub fn mask(&self, passes: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| passes(name)).cloned().collect())
    }

    /// Whether an amount is zero.
    pub fn has_zeros(&self) -> bool {
        self.0.iter().any(|(_, quantity)| quantity.is_zero())
    }

    /// Whether both lists have the same names with equal numbers, apart from zeros.
    pub fn is_equal_but_for_zeros(&self, other: &Self) -> bool {
        let is_something = |(_, quantity): &(&Name, &Quantity)| !quantity.is_zero();
        self == other || self.iter().filter(is_something).eq(other.iter().filter(is_something))
    }

    /// The part of the list that is not zero.
    pub fn without_zeros(&self) -> Self {
        Self(self.0.iter().filter(|(_, quantity)| !quantity.is_zero()).cloned().collect())
    }

    /// Keeps the entries that pass.
    pub fn retain(&mut self, mut passes: impl FnMut(&Name, &Quantity) -> bool) {
        self.0.retain(|(name, quantity)| passes(name, quantity));
    }

    /// Rounds each quantity away from zero to thousandths, as Kubernetes' v1 defaulting does with every resource list
    /// of a request.
    pub fn round_up_to_thousandths(&mut self) {
        for (_, quantity) in &mut self.0 {
            quantity.round_up(Scale::Milli);
        }
    }

    /// Drops unusual spellings of quantities; see [`Quantity::canonical`].
    pub fn make_canonical(&mut self) {
        let spelled = self.0.iter_mut();
        for (_, quantity) in spelled.filter(|(_, quantity)| quantity.spelling().is_some()) {
            *quantity = std::mem::take(quantity).canonical();
        }
    }

    /// The names, sorted, whose quantity here exceeds that in `hard`. Names that are absent on either side never
    /// exceed.
    pub(crate) fn exceeding(&self, hard: &Self) -> Vec<Name> {
        let exceeds = |(name, quantity): &&(Name, Quantity)| {
            hard.get(name).is_some_and(|limit| quantity > limit)
        };
        self.0.iter().filter(exceeds).map(|(name, _)| name.clone()).collect()
    }

    /// The list in the format of Kubernetes' messages: `cpu=1,pods=2`.
    pub fn pretty(&self) -> String {
        self.to_string()
    }
}

/// See [`ResourceList::common_places`].
pub struct CommonPlaces<'a> {
    short: &'a [(Name, Quantity)],
    long: &'a [(Name, Quantity)],
    /// Whether the short list is the one whose places come first.
    is_short: bool,
    /// What is left of both lists begins here.
    at: usize,
    from: usize,
}

impl CommonPlaces<'_> {
    /// The place of a name in the rest of the long list.
    #[inline]
    fn find(&mut self, name: &Name) -> Option<usize> {
        if self.long.len() <= SHORT {
            let found = self.long[self.from..].iter().position(|(other, _)| other == name)?;
            return Some(self.from + found);
        }
        self.find_in_long(name)
    }

    fn find_in_long(&mut self, name: &Name) -> Option<usize> {
        if self.short.len().saturating_mul(SPARSE) < self.long.len() {
            self.from += self.long[self.from..].partition_point(|(other, _)| *other < *name);
        }
        while let Some((other, _)) = self.long.get(self.from) {
            match other.cmp(name) {
                Ordering::Less => self.from += 1,
                Ordering::Equal => return Some(self.from),
                Ordering::Greater => return None,
            }
        }
        None
    }
}

impl Iterator for CommonPlaces<'_> {
    type Item = (usize, usize);

    // A call takes longer than a step.
    #[inline(always)]
    fn next(&mut self) -> Option<(usize, usize)> {
        while let Some((name, _)) = self.short.get(self.at) {
            let short = self.at;
            self.at += 1;
            if let Some(long) = self.find(name) {
                self.from = long + 1;
                return Some(if self.is_short { (short, long) } else { (long, short) });
            }
        }
        None
    }
}

/// See [`ResourceList::search`].
pub struct Search<'a>(&'a [(Name, Quantity)]);

impl<'a> Search<'a> {
    /// Whether nothing more can be found.
    #[inline]
    pub const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The quantity of a name, which comes behind those that were searched for before.
    #[inline]
    pub fn find(&mut self, name: &Name) -> Option<&'a Quantity> {
        if self.0.len() > SHORT {
            self.0 = &self.0[count_before(self.0, name)..];
            return self.0.first().filter(|(other, _)| other == name).map(|(_, quantity)| quantity);
        }
        let mut rest = self.0.iter();
        let (_, quantity) = rest.find(|(other, _)| other == name)?;
        self.0 = rest.as_slice();
        Some(quantity)
    }
}

/// The number of entries before a name, at the beginning of a sorted list: found in few steps if they are few.
fn count_before(entries: &[(Name, Quantity)], name: &Name) -> usize {
    let mut most = 1;
    while entries.get(most - 1).is_some_and(|(other, _)| other < name) {
        most *= 2;
    }
    let near = &entries[..most.min(entries.len())];
    near.partition_point(|(other, _)| other < name)
}

impl Hash for ResourceList {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        for (name, quantity) in &self.0 {
            match (name.known(), quantity.small()) {
                // One number instead of two.
                (Some(known), Some(nanos)) => state.write_i128(nanos ^ ((known as i128) << 120)),
                _ => (name.as_str(), quantity).hash(state),
            }
        }
    }
}

impl fmt::Display for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, quantity)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{name}={quantity}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceList({self})")
    }
}

/// Of several quantities for one name, the last one is kept.
impl FromIterator<(Name, Quantity)> for ResourceList {
    fn from_iter<T: IntoIterator<Item = (Name, Quantity)>>(entries: T) -> Self {
        let mut list = Self(entries.into_iter().collect());
        list.put_in_order();
        list
    }
}

/// Sets the quantities of names, as many calls of [`ResourceList::insert`] would.
impl Extend<(Name, Quantity)> for ResourceList {
    fn extend<T: IntoIterator<Item = (Name, Quantity)>>(&mut self, entries: T) {
        self.add_entries(entries.into_iter().collect());
    }
}

impl IntoIterator for ResourceList {
    type Item = (Name, Quantity);
    type IntoIter = std::vec::IntoIter<Self::Item>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Read from a JSON object; `null` is the empty list.
impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = ResourceList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of quantities by resource name")
    }

    fn visit_unit<E>(self) -> Result<ResourceList, E> {
        Ok(ResourceList::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
